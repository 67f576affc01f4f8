"""Broadcast values, of which every worker has one copy.

If all workers see a folder of the driver, a value is a file there; a worker maps it when a call
first needs it. Otherwise the value is a Dask task, whose result calls depend on. Both can be
computed again after a worker has died. If a worker does not see the folder, its calls raise
`MissingBroadcast`, and values are sent as tasks from then on.

A key identifies a value only while the value lives, because Python may reuse an `id`. Workers keep
the most recently used values, in at most half of their memory. They drop a value when the driver
has neither the value nor its `Broadcast` any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import shutil
import socket
import tempfile
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from gdatalog.cancellation import PATIENCE, current_watch
from gdatalog.cluster.pool.broadcast_files import BroadcastFile, can_read, forget
from gdatalog.cluster.workers.stored_rows import read, write
from gdatalog.errors import DeviceError
from gdatalog.records import dataclass, field

BAD = ("lost", "cancelled", "error")  # statuses of futures without a value

FOLDER = "GDATALOG_CLUSTER_FOLDER"  # names a folder that the driver and all workers see
LINGER = 5.0  # seconds that a file stays for workers that may still read it
OFTEN = 8  # retries at most
EVERY = 0.5  # seconds between checks for unreported changes
PAUSE = 0.05  # seconds before a retry
HEARD = 1.0  # seconds to tell workers on close which values to drop
ALONE = 30.0  # seconds without workers until giving up


class Broadcast:
    """A value that every worker has once: an argument of calls. `file`: None if it is sent."""

    __slots__ = ("__weakref__", "_client", "_future", "_value", "file")

    def __init__(
        self, client: Any, value: object, file: BroadcastFile | None, key: Hashable
    ) -> None:
        self._client, self.file = client, file
        self._future: Any = None
        # With a key, the caller holds the value.
        self._value: Callable[[], object] = (lambda: value) if key is None else weakref.ref(value)
        if file is None:
            self.send()
        elif key is None:
            self._value = lambda: None

    def of(self, value: object) -> bool:
        """Whether it is this value's."""
        return self._value() is value

    @property
    def future(self) -> Any:
        """The task of a value that is sent."""
        if self._future.status in BAD:
            self.send()
        return self._future

    def send(self) -> None:
        """Sends the value, now and whenever it is lost."""
        import dask

        value = self._value()
        if value is None and self.file is not None:
            try:
                value = read(self.file.path)
            except OSError as error:
                raise DeviceError(
                    f"{self.file.path}: this file for workers cannot be read: {error.strerror}",
                    hint="run the query again; if that does not help, load the data again",
                ) from None
            self._value = lambda: value
        self.file = None
        body = pickle.dumps(value, protocol=5)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": 1 << 60}):
            key = f"broadcast-{uuid4().hex}"
            self._future = self._client.submit(pickle.loads, body, key=key, pure=False)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Broadcaster:
    """Broadcasts values. `folder`: one that all workers see, or None."""

    client: Any
    folder: Path | None = None
    _tried: bool = False
    _known: dict[Hashable, tuple[Hashable, Broadcast]] = field(default_factory=dict)
    _gone: list[str] = field(default_factory=list)  # paths
    _old: list[tuple[float, str]] = field(default_factory=list)
    _telling: list[Any] = field(default_factory=list)  # pending requests to workers
    _end: Callable[[], object] = lambda: None

    def place(
        self, key: Hashable, value: object, version: Hashable = None, once: bool = False
    ) -> Broadcast:
        """Broadcasts a value. A key and version stand for the same value while that value lives.
        With the key None, each broadcast is new, and workers drop it with the returned object.
        `once`: few calls need it, so workers do not keep it."""
        known = self._known.get(key)
        if known is not None and known[1].of(value) and known[0] == version:
            return known[1]
        made = Broadcast(self.client, value, self._written(value, once), key)
        if made.file is not None:
            weakref.finalize(made, self._gone.append, made.file.path).atexit = False
        if key is not None:
            self._known[key] = version, made
            if known is None:
                weakref.finalize(value, self._known.pop, key, None).atexit = False
        return made

    def _written(self, value: object, once: bool) -> BroadcastFile | None:
        """The file of a value; None if there is no folder, or no room there."""
        folder = self.seen()
        if folder is None:
            return None
        path = str(folder / uuid4().hex)
        try:
            current_watch().aside(lambda: write(value, path))
        except OSError:  # a full disk: existing files stay, later values are sent
            self.folder = None
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        return BroadcastFile(path, once)

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
            held = self.client, self._telling, folder, os.getpid()
            # Also if nobody closes the database: a user's client may live on.
            end = weakref.finalize(self, _remove, *held)
            if self._all_see(folder):
                self._end = end
                return folder
            end()
        return None

    def _all_see(self, folder: Path) -> bool:
        token, late = uuid4().hex, monotonic() + LINGER
        with contextlib.suppress(OSError):
            (folder / "token").write_text(token, encoding="utf-8")
            asked = self.client.run(
                can_read, str(folder / "token"), token, on_error="ignore", asynchronous=True
            )
            seen = awaited(self.client, asked, lambda: monotonic() < late)
            return bool(seen) and all(seen.values())
        return False

    def send_all(self) -> None:
        """From now on, sends values, because a worker cannot see the folder."""
        self._tried, self.folder = True, None

    def tidy(self, linger: float = LINGER) -> None:
        """Makes workers drop values that nobody needs, and deletes their files."""
        if self._gone:
            gone, self._gone[:] = self._gone[:], []
            self._old += [(monotonic(), path) for path in gone]
            _tell(self.client, self._telling, forget, tuple(gone))
        while self._old and monotonic() - self._old[0][0] >= linger:
            with contextlib.suppress(OSError):
                os.unlink(self._old.pop(0)[1])

    def close(self) -> None:
        self._known.clear()
        self._end()
        for each in self._telling:  # else the client might close before it has sent the request
            with contextlib.suppress(Exception):
                each.result(HEARD)


def _tell(client: Any, telling: list[Any], function: Callable[..., object], *args: object) -> None:
    if client.status == "running":
        work = client.run(function, *args, on_error="ignore", asynchronous=True)
        said = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
        telling[:] = [*(each for each in telling if not each.done()), said]


def awaited(
    client: Any, work: Any, alive: Callable[[], bool], poll: Callable[[], object] | None = None
) -> Any:
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


def _new_folder(parent: Path) -> Path:
    """A folder of this process; deletes folders of processes that were killed."""
    mark = f"gdatalog-cluster-{socket.gethostname()}-"
    for other in parent.glob(f"{mark}*-*"):
        owner = other.name.removeprefix(mark).partition("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            shutil.rmtree(other, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{mark}{os.getpid()}-", dir=parent))


def _remove(client: Any, telling: list[Any], folder: Path, process: int) -> None:
    """Deletes a folder; makes workers drop the values of its files."""
    if os.getpid() == process:  # not in a forked process
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(Exception):  # Python may be shutting down
            _tell(client, telling, forget, (str(folder),))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        pass
    return True
