"""Broadcast values, of which every worker has one copy.

If all workers see a folder of the driver, a value is a file there; a worker maps it when a call
first needs it. Otherwise Dask scatters a copy, which is sent with a call after a worker has
reported that it lacks the value (`MissingBroadcast`). If a worker dies or drops a value, another
worker opens the file or receives a copy.

A key identifies a value while the value lives, because `id` may return the same number again later.
Workers keep the most recently used values, in at most half of their memory. They drop a value when
its key is unknown and nobody holds the `Broadcast`.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import pickle
import shutil
import socket
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import choice
from threading import RLock
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from gdatalog.cancellation import PATIENCE, current_watch
from gdatalog.cluster.workers import own_memory
from gdatalog.errors import DeviceError
from gdatalog.records import dataclass, field

BAD = ("lost", "cancelled", "error")  # statuses of futures without a value
ALIGNED = 64  # bytes: the alignment that vector instructions prefer


@dataclass(frozen=True, slots=True)
class BroadcastRef:
    """A value's identifier on workers, and its file; `path` is None if the value was sent. `once`:
    workers do not keep it."""

    token: str
    path: str | None
    once: bool = False


class MissingBroadcast(Exception):
    """A worker lacks a value that a call needs. `unseen`: it cannot see the value's file."""

    def __init__(self, unseen: bool) -> None:
        super().__init__(unseen)
        self.unseen = unseen


_held: OrderedDict[str, tuple[Any, int]] = OrderedDict()  # in order of last use
_lock = RLock()


def value_of(ref: BroadcastRef, brought: Mapping[BroadcastRef, Any]) -> Any:
    """The value of a reference; raises `MissingBroadcast` if it is not available here."""
    with _lock:
        found = _held.get(ref.token)
        if found is not None:
            _held.move_to_end(ref.token)
            return found[0]
        if ref in brought:
            value = brought[ref]
            size = int(getattr(value, "nbytes", 0))
        elif ref.path is None:
            raise MissingBroadcast(unseen=False)
        else:
            try:
                value, size = read(ref.path), os.path.getsize(ref.path)
            except FileNotFoundError as error:
                raise MissingBroadcast(unseen=True) from error
        if not ref.once:
            _keep(ref.token, value, size)
        return value


def forget(tokens: Iterable[str]) -> None:
    """Drops values."""
    with _lock:
        for token in tokens:
            _held.pop(token, None)


def _keep(token: str, value: Any, size: int) -> None:
    _held[token] = value, size
    limit = own_memory()
    if limit is not None:
        while len(_held) > 1 and sum(size for _, size in _held.values()) > limit // 2:
            _held.popitem(last=False)


# ------------------------------------------------------------------------------------ files


def can_read(path: str, token: str) -> bool:
    """Whether this process sees a file, and it contains the expected token."""
    try:
        return Path(path).read_text(encoding="utf-8") == token
    except OSError:
        return False


def write(value: Any, path: str) -> int:
    """Writes a value such that its arrays can be mapped; returns the file's size in bytes."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = pickle.dumps([len(body), *(view.nbytes for view in views)], protocol=5)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + body)
        for view in views:
            file.write(bytes(-file.tell() % ALIGNED))
            file.write(view)
        return file.tell()


def read(path: str) -> Any:
    """Reads a value whose arrays are mapped: only pages that are read take memory, once for all
    workers of a machine. Changes stay private to this process."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    at = 8 + int.from_bytes(mapped[:8], "little")
    length, *sizes = pickle.loads(mapped[8:at])
    body = mapped[at : at + length]
    at += length
    buffers = []
    for size in sizes:
        at += -at % ALIGNED
        buffers.append(mapped[at : at + size])
        at += size
    return pickle.loads(body, buffers=buffers)


FOLDER = "GDATALOG_CLUSTER_FOLDER"  # names a folder that the driver and all workers see
LINGER = 5.0  # seconds that a file stays for workers that may still read it
OFTEN = 8  # retries at most
EVERY = 0.5  # seconds between checks for unreported changes
PAUSE = 0.05  # seconds before a retry
HEARD = 1.0  # seconds to tell workers on close which values to drop
ALONE = 30.0  # seconds without workers until giving up


@dataclass(slots=True, eq=False, weakref_slot=True)
class BroadcastCopy:
    """The copies of a value on workers."""

    ref: BroadcastRef
    nbytes: int
    future: Any = None  # a scattered copy, from which workers fetch


class Broadcast:
    """A value that every worker has once: an argument of calls.

    While this lives, the value can be sent again: it is in a file, or held here.
    """

    __slots__ = ("__weakref__", "_value", "laid")

    def __init__(self, laid: BroadcastCopy, value: Any) -> None:
        self.laid = laid
        self._value: Callable[[], Any] = lambda: value
        if not self.sent:
            try:
                self._value = weakref.ref(value)
            except TypeError:
                self._value = lambda: None

    @property
    def ref(self) -> BroadcastRef:
        return self.laid.ref

    @property
    def sent(self) -> bool:
        return self.ref.path is None

    def value(self) -> Any:
        value, path = self._value(), self.ref.path
        if value is not None or path is None:
            return value
        try:
            return read(path)
        except OSError as error:
            raise DeviceError(
                f"{path}: this file for workers cannot be read: {error.strerror}",
                hint="run the query again; if that does not help, load the data again",
            ) from None


@dataclass(slots=True)
class _Known:
    """The value of a key. `placed`: its `Broadcast`, if somebody holds one."""

    value: Callable[[], Any]
    version: Hashable
    laid: BroadcastCopy
    placed: Callable[[], Broadcast | None]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Broadcaster:
    """Broadcasts values. `folder`: one that all workers see, or None."""

    client: Any
    folder: Path | None = None
    _tried: bool = False
    _known: dict[Hashable, _Known] = field(default_factory=dict)
    _all: weakref.WeakSet[BroadcastCopy] = field(default_factory=weakref.WeakSet)
    _gone: list[BroadcastRef] = field(default_factory=list)
    _old: list[tuple[float, str]] = field(default_factory=list)
    _telling: list[Any] = field(default_factory=list)  # pending requests to workers
    _ends: list[Callable[[], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Also if nobody closes the database: a user's client may live on.
        held = self.client, self._telling, self._all, self._gone
        self._ends.append(weakref.finalize(self, _forget_all, *held))

    def place(
        self, key: Hashable, value: Any, nbytes: int, version: Hashable, once: bool
    ) -> Broadcast:
        if key is None:
            return self._made(value, nbytes, once)
        known = self._known.get(key)
        if known is not None and known.value() is value and known.version == version:
            placed = known.placed()
            if placed is None:
                placed = Broadcast(known.laid, value)
                known.placed = weakref.ref(placed)
            return placed
        made = self._made(value, nbytes, once)
        try:
            ref = weakref.ref(value, _Forgetting(self._known, key))
        except TypeError:  # cannot be weakly referenced: keep it
            self._known[key] = _Known(lambda: value, version, made.laid, lambda: made)
        else:
            self._known[key] = _Known(ref, version, made.laid, weakref.ref(made))
        return made

    def _made(self, value: Any, nbytes: int, once: bool) -> Broadcast:
        token = uuid4().hex
        folder = self.seen()
        if folder is not None:
            path = str(folder / token)
            try:
                size = current_watch().aside(lambda: write(value, path))
            except OSError:  # a full disk: existing files stay, later values are sent
                self.folder = None
                with contextlib.suppress(OSError):
                    os.unlink(path)
            else:
                return self._laid(BroadcastRef(token, path, once), nbytes or size, value)
        return self._laid(
            BroadcastRef(token, None, once), nbytes or getattr(value, "nbytes", 0), value
        )

    def _laid(self, ref: BroadcastRef, nbytes: int, value: Any) -> Broadcast:
        laid = BroadcastCopy(ref, nbytes)
        self._all.add(laid)
        weakref.finalize(laid, self._gone.append, ref).atexit = False
        return Broadcast(laid, value)

    def brought(self, placed: Iterable[Broadcast], every: bool) -> dict[BroadcastRef, Any]:
        """Futures of broadcast values to send along with a call. `every`: all values, because a
        worker lacked one; otherwise those that workers do not keep."""
        found = {}
        for each in placed:
            if every or (each.sent and each.ref.once):
                laid = each.laid
                if laid.future is None or laid.future.status in BAD:
                    laid.future = self._copied(each.value())
                found[each.ref] = laid.future
        return found

    def _copied(self, value: Any) -> Any:
        """The future of a copy on a random worker."""
        for _ in range(OFTEN):
            workers = list(workers_of(self.client))
            worker = choice(workers)
            sending = self.client.scatter([value], [worker], hash=False, asynchronous=True)
            # The worker is dying or gone; the scheduler may no longer know it.
            with contextlib.suppress(OSError, KeyError):
                return awaited(self.client, sending, partial(self._there, worker))[0]
            sleep(PAUSE)
        raise DeviceError(
            "data could not be sent to the cluster: its workers died one after the other",
            hint="see the logs of the cluster's workers",
        )

    def _there(self, worker: str) -> bool:
        return worker in self.client.nthreads()

    # ------------------------------------------------------------------------------ folder

    def seen(self) -> Path | None:
        """The folder that all workers see, created on first use; None if there is none."""
        if not self._tried:
            self._tried = True
            self.folder = self._seen_by_all()
        return self.folder

    def _seen_by_all(self) -> Path | None:
        """A new folder that every worker sees."""
        import dask

        named = os.environ.get(FOLDER), dask.config.get("temporary-directory", None)
        for parent in dict.fromkeys([*filter(None, named), tempfile.gettempdir()]):
            try:
                folder = _new_folder(Path(parent))
            except OSError:
                continue
            end = weakref.finalize(self, _remove, folder, os.getpid())
            token = uuid4().hex
            try:
                (folder / "token").write_text(token, encoding="utf-8")
                asked = self.client.run(
                    can_read, str(folder / "token"), token, on_error="ignore", asynchronous=True
                )
                late = monotonic() + LINGER
                seen = awaited(self.client, asked, partial(_before, late))
            except OSError:
                seen = {}
            if seen and all(seen.values()):
                self._ends.append(end)
                return folder
            end()
        return None

    def send_all(self) -> None:
        """From now on, sends values, because a worker cannot see the folder."""
        self._tried, self.folder = True, None

    def tidy(self, linger: float = LINGER) -> None:
        """Makes workers drop values that nobody needs, and deletes their files."""
        if self._gone:
            gone, self._gone[:] = self._gone[:], []
            self._old += [(monotonic(), ref.path) for ref in gone if ref.path is not None]
            self.tell(forget, [ref.token for ref in gone])
        while self._old and monotonic() - self._old[0][0] >= linger:
            with contextlib.suppress(OSError):
                os.unlink(self._old.pop(0)[1])

    def close(self) -> None:
        self._known.clear()
        forget_all, *others = self._ends
        forget_all()
        for each in self._telling:  # else the client might close before it has sent the request
            with contextlib.suppress(Exception):
                each.result(HEARD)
        for end in others:
            end()

    def tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Makes all workers call a function; does not wait, because a worker may be dying."""
        _tell(self.client, self._telling, function, *args)


def _tell(client: Any, telling: list[Any], function: Callable[..., Any], *args: Any) -> None:
    if client.status == "running":
        work = client.run(function, *args, on_error="ignore", asynchronous=True)
        said = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
        telling[:] = [*(each for each in telling if not each.done()), said]


def _forget_all(
    client: Any,
    telling: list[Any],
    laid: weakref.WeakSet[BroadcastCopy],
    gone: Sequence[BroadcastRef],
) -> None:
    tokens = {ref.token for ref in gone} | {each.ref.token for each in laid}
    if tokens:
        with contextlib.suppress(Exception):  # Python may be shutting down
            _tell(client, telling, forget, sorted(tokens))


def workers_of(client: Any) -> dict[str, int]:
    """The number of threads of each worker, by address; waits if there are no workers."""
    until = monotonic() + ALONE
    while True:
        workers: dict[str, int] = client.nthreads()
        if workers:
            return workers
        if monotonic() > until:
            raise DeviceError(
                f"the cluster has had no workers for {ALONE:.0f} s",
                hint="start workers, and run the query again",
            )
        current_watch().poll()
        sleep(PAUSE)


def _before(when: float) -> bool:
    return monotonic() < when


def awaited(client: Any, work: Any, alive: Callable[[], bool], poll: Any = None) -> Any:
    """The result of a client's coroutine; polls for cancellation meanwhile. Raises `OSError` when
    `alive` returns False."""
    waiting = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
    poll = poll or current_watch().poll
    looked = monotonic()
    try:
        while True:
            try:
                return waiting.result(PATIENCE)
            except TimeoutError:
                if waiting.done():
                    raise
            poll()
            if monotonic() - looked > EVERY:
                looked = monotonic()
                if not alive():
                    raise OSError("the workers or the scheduler are gone")
    finally:
        waiting.cancel()


@dataclass(slots=True)
class _Forgetting:
    """Removes a key when its value dies, unless the key has another value by then."""

    known: dict[Hashable, _Known]
    key: Hashable

    def __call__(self, ref: weakref.ref[Any]) -> None:
        found = self.known.get(self.key)
        if found is not None and found.value is ref:
            del self.known[self.key]


def _new_folder(parent: Path) -> Path:
    """A folder of this process; deletes folders of processes that were killed."""
    mark = f"gdatalog-cluster-{socket.gethostname()}-"
    for other in parent.glob(f"{mark}*-*"):
        owner = other.name.removeprefix(mark).partition("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            shutil.rmtree(other, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{mark}{os.getpid()}-", dir=parent))


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked process
        shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        pass
    return True
