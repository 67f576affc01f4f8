"""Calls that workers run, and the results that they keep.

A call is sent as bytes: a pickled function and its arguments, which refer to values on workers by
name. A call stops at its next poll after the driver has cancelled it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from traceback import format_exc
from typing import Any

from gdatalog.cancellation import Watch
from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.broadcast_files import BroadcastFile, MissingBroadcast
from gdatalog.cluster.workers.own_process import own_worker
from gdatalog.errors import Error, Interrupted, MemoryLimitError
from gdatalog.records import dataclass, field

LOOK = 0.05  # seconds between checks for cancellation


class _Packer(pickle.Pickler):
    """Pickles a value; objects for which `name` returns a name are replaced by that name."""

    def __init__(self, file: io.BytesIO, name: Callable[[object], object]) -> None:
        super().__init__(file, protocol=5)
        self.name = name

    def persistent_id(self, each: object) -> object:
        return self.name(each)


class _Unpacker(pickle.Unpickler):
    def __init__(self, body: bytes, inputs: Sequence[object]) -> None:
        super().__init__(io.BytesIO(body))
        self.inputs = inputs

    def persistent_load(self, name: Any) -> object:
        return name.value() if isinstance(name, BroadcastFile) else self.inputs[name]


def run_call(body: bytes, inputs: Sequence[object]) -> object:
    """Runs a call. `inputs`: values on workers, which the call refers to by number."""
    with _Caller().call():
        function, args = _Unpacker(body, inputs).load()
        return function(*args)


def outcome_of(body: bytes, inputs: Sequence[object]) -> tuple[object, Exception | None]:
    """The result of `run_call`, or the error, because Dask would log a raised one."""
    try:
        return run_call(body, inputs), None
    except Exception as error:
        return None, _sendable(error)


def _sendable(error: Exception) -> Exception:
    """An error that can be pickled; unexpected ones get the worker's traceback as a note."""
    if not isinstance(error, (Error, MissingBroadcast)):
        error.add_note(f"On a worker:\n{format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on a worker: {type(error).__name__}: {error}\n{format_exc()}")
    return error


def itself(value: object) -> object:
    return value


class _Caller(Watch):
    """The watch of a call on a worker. When the driver stops a query or dies, Dask cancels the
    task, and the call's next poll raises."""

    def __init__(self) -> None:
        super().__init__()
        worker = own_worker()
        self._tasks = None if worker is None else worker.state.tasks
        self._key = None if worker is None else worker.get_current_task()
        self._looked = perf_counter()

    def poll(self) -> None:
        now = perf_counter()
        if now - self._looked >= LOOK:
            self._looked = now
            if self._tasks is not None:
                task = self._tasks.get(self._key)
                if task is None or task.state == "cancelled":
                    raise Interrupted("the call was cancelled")
        super().poll()


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
    parts: dict[Hashable, Any] = field(default_factory=dict)  # futures

    def part(self, key: Hashable) -> RemoteElement:
        return RemoteElement(self, key)


@dataclass(frozen=True, slots=True)
class RemoteElement:
    """An item of a remote value, as an argument of calls."""

    kept: RemoteValue
    key: Hashable


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of a module that workers can import, and its arguments. Workers get the values of
    `Broadcast`, `RemoteValue` and `RemoteElement` arguments, also of nested ones.

    `keep`: the result stays on its worker. `worker`: the preferred worker. `tag`: identifies the
    call for its caller. `summary`: a function that summarises a kept result for the driver.
    """

    function: Callable[..., object]
    args: tuple[object, ...]
    keep: bool = False
    worker: str | None = None
    tag: Any = None
    summary: Callable[[Any], object] | None = None


class Lost(Exception):
    """A call's input is lost or has changed, although its worker lives."""


class TooLarge(MemoryLimitError):
    """A call needs more memory than its worker has; smaller calls may fit."""

    def __init__(self, call: Call, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.call = call


Input = RemoteValue | RemoteElement | Broadcast


def whole(each: Input) -> RemoteValue | Broadcast:
    """The value that an argument is, or is an item of."""
    return each.kept if isinstance(each, RemoteElement) else each


def future_of(each: Input) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, RemoteElement) else each.future


@dataclass(slots=True, eq=False)
class RunningCall:
    """A submitted call: its bytes, which name remote and broadcast values."""

    call: Call
    inputs: list[Input] = field(default_factory=list)
    placed: list[Broadcast] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)  # of the files that the bytes name
    body: bytes = b""
    tries: int = 0
    deaths: int = 0  # how often its workers died while it ran
    given: Sequence[Any] = ()  # the futures of its inputs
    made: Any = None  # the future of a result that stays
    unseen: str | None = None  # a file that a worker needed for its inputs, and did not see

    def __post_init__(self) -> None:
        file = io.BytesIO()
        _Packer(file, self._name).dump((self.call.function, self.call.args))
        self.body = file.getvalue()

    def _name(self, each: object) -> object:
        """What stands for a remote or broadcast value in the bytes; None for other objects."""
        if isinstance(each, Broadcast):
            self.placed.append(each)
            if each.file is not None:
                self.paths.add(each.file.path)
                return each.file
        if isinstance(each, Input):
            self.inputs.append(each)
            return len(self.inputs) - 1
        return None
