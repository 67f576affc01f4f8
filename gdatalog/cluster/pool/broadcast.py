"""Values that lie on all workers, once each.

Where every worker sees a folder of the driver's, a value is a file there: its arrays lie in it as
they lie in memory, and a worker maps them when a call first needs them. Elsewhere it is sent: Dask
scatters a copy, which comes with a call where a worker has said that it does not have the value
(`MissingBroadcast`). What became of a worker, or of what it held, costs a file's opening or one
more sending.

A value is known by a key, for as long as it lives: a number that `id` gave is given again later.
What lies on workers is let go of when it is not known any more, and nobody has what `place` gave.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import choice
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from gdatalog.cancellation import PATIENCE, current_watch
from gdatalog.cluster.pool.worker_cache import BAD, BroadcastRef, can_read, forget, read, write
from gdatalog.errors import DeviceError
from gdatalog.records import dataclass, field

FOLDER = "GDATALOG_CLUSTER_FOLDER"  # names a folder that the driver and all workers see
LINGER = 5.0  # seconds that a file stays for who may still read it
OFTEN = 8  # times that something is begun again, at the most
EVERY = 0.5  # seconds between two looks at what the cluster did not tell
PAUSE = 0.05  # seconds before what failed is begun again
HEARD = 1.0  # seconds for workers to hear what they may let go of, before nobody tells them
ALONE = 30.0  # seconds without a worker, after which nobody waits for one any more


@dataclass(slots=True, eq=False, weakref_slot=True)
class BroadcastCopy:
    """What lies on the workers of a value."""

    ref: BroadcastRef
    nbytes: int
    future: Any = None  # a copy that workers fetch it from


class Broadcast:
    """A value that lies on the workers, once each: an argument of calls, which are given it.

    As long as this lives the value can be sent again: it stands in a file, or is held here.
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
                f"{path}: what was written there for workers cannot be read: {error.strerror}",
                hint="ask again; if that does not help, load the data again",
            ) from None


@dataclass(slots=True)
class _Known:
    """What was placed under a key. `placed`: while nobody else has that, it is not held."""

    value: Callable[[], Any]
    version: Hashable
    laid: BroadcastCopy
    placed: Callable[[], Broadcast | None]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Broadcaster:
    """Where values are placed: `folder`, which all workers see, or None."""

    client: Any
    folder: Path | None = None
    _tried: bool = False
    _known: dict[Hashable, _Known] = field(default_factory=dict)
    _all: weakref.WeakSet[BroadcastCopy] = field(default_factory=weakref.WeakSet)
    _gone: list[BroadcastRef] = field(default_factory=list)
    _old: list[tuple[float, str]] = field(default_factory=list)
    _telling: list[Any] = field(default_factory=list)  # what workers are told now
    _ends: list[Callable[[], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Also where nobody closes it: a user's client goes on for others.
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
        except TypeError:  # not of a kind that can be watched: it stays
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
            except OSError:  # a full disk: what is there stays, the rest is sent
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
        """The futures of values that workers may not have: they are sent with a call. `every`: a
        worker did not have one."""
        found = {}
        for each in placed:
            if every or (each.sent and each.ref.once):
                laid = each.laid
                if laid.future is None or laid.future.status in BAD:
                    laid.future = self._copied(each.value())
                found[each.ref] = laid.future
        return found

    def _copied(self, value: Any) -> Any:
        """The future of a copy that lies on some worker."""
        for _ in range(OFTEN):
            workers = list(workers_of(self.client))
            worker = choice(workers)
            sending = self.client.scatter([value], [worker], hash=False, asynchronous=True)
            with contextlib.suppress(OSError):  # the worker has gone, or is about to
                return awaited(self.client, sending, partial(self._there, worker))[0]
            sleep(PAUSE)
        raise DeviceError(
            "data could not be sent to the cluster: one worker after the other was gone",
            hint="the logs of the cluster's workers say what ends them",
        )

    def _there(self, worker: str) -> bool:
        return worker in self.client.nthreads()

    # ------------------------------------------------------------------------------ folder

    def seen(self) -> Path | None:
        """The folder that all workers see; made when it is first asked for."""
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
        """From now on values are sent, for a worker does not see the folder."""
        self._tried, self.folder = True, None

    def tidy(self, linger: float = LINGER) -> None:
        """Has workers let go of what nobody needs any more."""
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
        for each in self._telling:  # else the client may be closed before it has said it
            with contextlib.suppress(Exception):
                each.result(HEARD)
        for end in others:
            end()

    def tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Has all workers call a function, and does not wait: one of them may be dying."""
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
        with contextlib.suppress(Exception):  # Python ends, perhaps
            _tell(client, telling, forget, sorted(tokens))


def workers_of(client: Any) -> dict[str, int]:
    """How many threads each worker has, by its address; waits a while if there is none."""
    until = monotonic() + ALONE
    while True:
        workers: dict[str, int] = client.nthreads()
        if workers:
            return workers
        if monotonic() > until:
            raise DeviceError(
                f"the cluster has had no workers for {ALONE:.0f} s",
                hint="start workers, and ask again",
            )
        current_watch().poll()
        sleep(PAUSE)


def _before(when: float) -> bool:
    return monotonic() < when


def awaited(client: Any, work: Any, alive: Callable[[], bool], poll: Any = None) -> Any:
    """What work of a client gives, which whoever waits may stop; raises `OSError` if it is not
    `alive` any more."""
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
                    raise OSError("nobody is there who would answer")
    finally:
        waiting.cancel()


@dataclass(slots=True)
class _Forgetting:
    """A key's value is forgotten when it dies, unless the key is another's by then."""

    known: dict[Hashable, _Known]
    key: Hashable

    def __call__(self, ref: weakref.ref[Any]) -> None:
        found = self.known.get(self.key)
        if found is not None and found.value is ref:
            del self.known[self.key]


def _new_folder(parent: Path) -> Path:
    """A folder of this process; those of processes that were killed are swept away."""
    mark = f"gdatalog-cluster-{socket.gethostname()}-"
    for other in parent.glob(f"{mark}*-*"):
        owner = other.name.removeprefix(mark).partition("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            shutil.rmtree(other, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{mark}{os.getpid()}-", dir=parent))


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not one that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True
