"""Calls that workers run, the results that they keep, and the workers that a pool has.

A call is sent as bytes: a pickled function and its arguments, which refer to values on workers by
name. A call stops at its next poll when nobody waits for it any more.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, perf_counter
from traceback import format_exc
from typing import Any, NamedTuple

from gdatalog.cancellation import Watch
from gdatalog.cluster.pool.broadcast import (
    Broadcast,
    Broadcaster,
    BroadcastFile,
    MissingBroadcast,
    workers_of,
)
from gdatalog.cluster.workers import own_worker
from gdatalog.cluster.workers.connection import Connection, workers_told
from gdatalog.errors import Error, Interrupted, MemoryLimitError
from gdatalog.records import dataclass, field

LOOK = 0.05  # seconds between two looks at whether anybody waits


class Outcome(NamedTuple):
    """A call's result, or the error that it raised."""

    value: Any
    error: BaseException | None = None


def packed(value: Any, name: Callable[[Any], Any]) -> bytes:
    """Pickles a value; objects for which `name` returns a name are replaced by that name."""
    file = io.BytesIO()
    _Packer(file, name).dump(value)
    return file.getvalue()


class _Packer(pickle.Pickler):
    # A class of its own: one defined inside `packed` would be a reference cycle, which
    # keeps the values alive until the garbage collector runs.
    def __init__(self, file: io.BytesIO, name: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=5)
        self.name = name

    def persistent_id(self, each: Any) -> Any:
        return self.name(each)


class _Unpacker(pickle.Unpickler):
    def __init__(self, body: bytes, inputs: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(body))
        self.inputs = inputs

    def persistent_load(self, name: Any) -> Any:
        return name.value() if isinstance(name, BroadcastFile) else self.inputs[name]


def run_call(body: bytes, inputs: Sequence[Any]) -> Any:
    """Runs a call. `inputs`: values on workers, which the call refers to by number."""
    with _Caller().call():
        function, args = _Unpacker(body, inputs).load()
        return function(*args)


def outcome_of(body: bytes, inputs: Sequence[Any]) -> Outcome:
    """Like `run_call`, but returns errors as values, because Dask would log a raised error."""
    try:
        return Outcome(run_call(body, inputs))
    except Exception as error:
        return Outcome(None, _sendable(error))


def _sendable(error: Exception) -> Exception:
    """An error that can be pickled; unexpected ones get the worker's traceback as a note."""
    if not isinstance(error, (Error, MissingBroadcast)):
        error.add_note(f"On a worker:\n{format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on a worker: {type(error).__name__}: {error}\n{format_exc()}")
    return error


def summary_of(value: Any, function: Callable[[Any], Any]) -> Any:
    """Summarises a value that stays on a worker."""
    return function(value)


def part_of(value: Any, key: Any) -> Any:
    """An item of a value that stays on a worker."""
    return value[key]


def itself(value: Any) -> Any:
    return value


class _Caller(Watch):
    """The caller of a call, as its worker sees it. When the driver stops a query or dies, Dask
    cancels the task, and the call's next poll raises."""

    def __init__(self) -> None:
        super().__init__()
        self._state, self._key = _task()
        self._looked = perf_counter()

    def poll(self) -> None:
        now = perf_counter()
        if now - self._looked >= LOOK:
            self._looked = now
            if self._state is not None:
                task = self._state.tasks.get(self._key)
                if task is None or task.state == "cancelled":
                    raise Interrupted("the call was cancelled")
        super().poll()


def _task() -> tuple[Any, Any]:
    """The worker's state, and the task that this thread runs."""
    worker = own_worker()
    return (None, None) if worker is None else (worker.state, worker.get_current_task())


@dataclass(slots=True, eq=False, weakref_slot=True)
class RemoteValue:
    """A call's result that stays on its worker; it can be an argument of further calls.

    `summary`: what the call's `summary` function returned. `part(key)`: an item of a dict or
    sequence; as an argument of calls, only that item moves. The worker keeps the value as long as
    this object lives. If a worker dies, Dask computes its values again, from values that may have
    been released by now; `origins` keeps the files alive that this needs, and names the data that
    Dask may be unable to compute again.
    """

    future: Any
    summary: Any = None
    origins: frozenset[object] = frozenset()
    parts: dict[Any, Any] = field(default_factory=dict)  # futures

    def part(self, key: Any) -> RemoteElement:
        return RemoteElement(self, key)


@dataclass(frozen=True, slots=True)
class RemoteElement:
    """An item of a remote value, as an argument of calls."""

    kept: RemoteValue
    key: Any


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of a module that workers can import, and its arguments. Workers get the values of
    `Broadcast`, `RemoteValue` and `RemoteElement` arguments, also of nested ones.

    `keep`: the result stays on its worker. `worker`: the preferred worker. `tag`: identifies the
    call for its caller. `summary`: a function that summarises a kept result for the driver.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keep: bool = False
    worker: str | None = None
    tag: Any = None
    summary: Callable[[Any], Any] | None = None


class Lost(Exception):
    """A call's input is no longer as it was, though its worker lives."""


class TooLarge(MemoryLimitError):
    """A call needs more memory than its worker has; smaller calls may fit."""

    def __init__(self, call: Call, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.call = call


def whole(each: RemoteValue | RemoteElement | Broadcast) -> RemoteValue | Broadcast:
    """The value that an argument is, or is an item of."""
    return each.kept if isinstance(each, RemoteElement) else each


def future_of(each: RemoteValue | RemoteElement | Broadcast) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, RemoteElement) else each.future


SOON = 1.0  # seconds until new and lost workers are noticed


class PoolWorkers:
    """The workers of a connection, and the values broadcast to them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.broadcaster = Broadcaster(connection.client)
        self._threads: tuple[float, dict[str, int]] = 0.0, {}
        self._info: tuple[float, Mapping[str, Mapping[str, Any]]] = 0.0, {}

    def where(self, kept: Sequence[RemoteValue]) -> list[str | None]:
        """A worker that holds each value; None if unknown."""
        client = self.connection.client
        keys = [each.future.key for each in kept]
        held = client.sync(client.scheduler.who_has, keys=keys) if keys else {}
        return [next(iter(held.get(key, ())), None) for key in keys]

    @property
    def workers(self) -> dict[str, int]:
        """The number of threads of each worker, by address; waits if there are no workers."""
        return workers_of(self.connection.client)

    @property
    def threads(self) -> dict[str, int]:
        """The same, cached for a second, for frequent calls; empty if there are no workers."""
        when, threads = self._threads
        if not threads or monotonic() - when > SOON:
            threads = self.connection.client.nthreads()
            self._threads = monotonic(), threads
        return threads

    @property
    def slots(self) -> int:
        """How many calls can run at once."""
        return max(1, sum(self.threads.values()))

    @property
    def info(self) -> Mapping[str, Mapping[str, Any]]:
        """The scheduler's report of each worker, by address; waits until there is a worker. Cached
        for a second, because a request takes milliseconds."""
        when, found = self._info
        while not found or monotonic() - when > SOON:
            workers_of(self.connection.client)
            found = workers_told(self.connection.client)
            when, _ = self._info = monotonic(), found
        return found

    @property
    def memory(self) -> list[int]:
        """The memory limits of those workers that have one, in bytes."""
        limits = [each["memory_limit"] for each in self.info.values()]
        return [limit for limit in limits if limit]

    def close(self) -> None:
        self.broadcaster.close()
        self.connection.close()
