"""Values that lie on all workers, once each.

Where every worker sees a folder of the driver's, a value is a file there: its arrays lie in it as
they lie in memory, and a worker maps them when a call first needs them. Elsewhere it is sent, to
each worker once. What became of a worker, or of what it held, costs a file's opening or one more
sending: see `Missing`.

A value is known by a key and an owner, which is the value itself if no other is named, and for as
long as the owner lives: a number that `id` gave is given again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import choice
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from gdatalog.cluster.pool.here import Ref, can_read, forget, hold, write
from gdatalog.errors import DeviceError
from gdatalog.watching import PATIENCE, watching

FOLDER = "GDATALOG_CLUSTER_FOLDER"  # names a folder that the driver and all workers see
LINGER = 5.0  # seconds that a file stays for who may still read it
OFTEN = 8  # times that something is begun again, at the most
EVERY = 0.5  # seconds between two looks at what the cluster did not tell
PAUSE = 0.05  # seconds before what failed is begun again
HEARD = 1.0  # seconds for workers to hear what they may let go of, before nobody tells them
ALONE = 30.0  # seconds without a worker, after which nobody waits for one any more


class Placed:
    """A value that lies on the workers, once each: an argument of calls, which are given it."""

    __slots__ = ("__weakref__", "_value", "future", "holding", "nbytes", "ref")

    def __init__(self, ref: Ref, nbytes: int, value: Any) -> None:
        self.ref = ref
        self.nbytes = nbytes
        self.future: Any = None  # a copy that workers fetch it from, if it is sent
        self.holding: list[Any] = []  # until these have ended, some workers do not have it
        try:
            self._value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    @property
    def sent(self) -> bool:
        return self.ref.path is None

    @property
    def everywhere(self) -> bool:
        """Whether all workers that were there when it was placed have it."""
        self.holding = [each for each in self.holding if each.status == "pending"]
        return not self.holding

    def value(self) -> Any:
        return self._value()


@dataclass(slots=True)
class Placing:
    """Where values are placed: `folder`, which all workers see, or None."""

    client: Any
    folder: Path | None = None
    _tried: bool = False
    _known: dict[Hashable, tuple[weakref.ref[Any] | None, Placed]] = field(default_factory=dict)
    _gone: list[Ref] = field(default_factory=list)
    _old: list[tuple[float, str]] = field(default_factory=list)
    _telling: list[Any] = field(default_factory=list)  # what workers are told now
    _end: Any = None

    def place(self, key: Hashable, value: Any, nbytes: int, owner: Any) -> Placed:
        owner = value if owner is None else owner
        if key is not None:
            known = self._known.get(key)
            if known is not None and (known[0] is None or known[0]() is owner):
                return known[1]
        placed = self._made(value, nbytes)
        if key is not None:
            try:
                ref = weakref.ref(owner, _Forgetting(self._known, key))
            except TypeError:  # not of a kind that can be watched: it stays
                ref = None
            self._known[key] = ref, placed
        return placed

    def _made(self, value: Any, nbytes: int) -> Placed:
        if not self._tried:
            self._tried = True
            self.folder = self._seen_by_all()
        token = uuid4().hex
        if self.folder is not None:
            path = str(self.folder / token)
            try:
                size = watching().aside(lambda: write(value, path))
            except OSError:  # a full disk: what is there stays, the rest is sent
                self.folder = None
                with contextlib.suppress(OSError):
                    os.unlink(path)
            else:
                placed = Placed(Ref(token, path), nbytes or size, value)
                weakref.finalize(placed, self._gone.append, placed.ref)
                return placed
        placed = Placed(Ref(token, None), nbytes or getattr(value, "nbytes", 0), value)
        weakref.finalize(placed, self._gone.append, placed.ref)
        self.send(placed)
        return placed

    def send(self, placed: Placed) -> None:
        """Sends a value to a worker, and from there to all others."""
        value = placed.value()
        if value is None:
            raise DeviceError(
                "the workers that held some data are gone, and nothing here has it any more",
                hint="ask again: what is needed is made again",
            )
        placed.future = self._copied(value)
        placed.holding = [
            self.client.submit(
                hold, placed.ref, placed.future, workers=[worker], pure=False,
                key=f"placing-{placed.ref.token}-{uuid4().hex[:8]}",
            )
            for worker in self.client.nthreads()
        ]  # fmt: skip

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

    def _seen_by_all(self) -> Path | None:
        """A new folder that every worker sees."""
        import dask

        named = os.environ.get(FOLDER), dask.config.get("temporary-directory", None)
        for parent in dict.fromkeys([*filter(None, named), tempfile.gettempdir()]):
            try:
                folder = _new_folder(Path(parent))
            except OSError:
                continue
            end = weakref.finalize(self.client, _remove, folder, os.getpid())
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
                self._end = end
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
        tokens = [placed.ref.token for _, placed in list(self._known.values())]
        self._known.clear()
        tokens += [ref.token for ref in self._gone]
        if tokens:
            self.tell(forget, tokens)
        for each in self._telling:  # else the client may be closed before it has said it
            with contextlib.suppress(Exception):
                each.result(HEARD)
        if self._end is not None:
            self._end()

    def tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Has all workers call a function, and does not wait: one of them may be dying."""
        if self.client.status == "running":
            telling = self.client.run(function, *args, on_error="ignore", asynchronous=True)
            said = asyncio.run_coroutine_threadsafe(telling, self.client.loop.asyncio_loop)
            self._telling = [*(each for each in self._telling if not each.done()), said]


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
        watching().poll()
        sleep(PAUSE)


def _before(when: float) -> bool:
    return monotonic() < when


def awaited(client: Any, work: Any, alive: Callable[[], bool], poll: Any = None) -> Any:
    """What work of a client gives, which whoever waits may stop; raises `OSError` if it is not
    `alive` any more."""
    waiting = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
    poll = poll or watching().poll
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
    """A key's value is forgotten when its owner dies, unless the key is another's by then."""

    known: dict[Hashable, tuple[weakref.ref[Any] | None, Placed]]
    key: Hashable

    def __call__(self, ref: weakref.ref[Any]) -> None:
        found = self.known.get(self.key)
        if found is not None and found[0] is ref:
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
