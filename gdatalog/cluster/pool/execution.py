"""What a worker does around the calls that it is given.

A call comes as bytes: a function and its arguments, in which what is placed or kept is named. A
call that nobody waits for any more is stopped at its next look.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from traceback import format_exc
from typing import Any, NamedTuple, TypeVar

from gdatalog.cancellation import Watch
from gdatalog.cluster.pool.worker_cache import BroadcastRef, MissingBroadcast, value_of
from gdatalog.cluster.workers.worker import own_worker
from gdatalog.errors import Error, Interrupted
from gdatalog.records import dataclass

Item = TypeVar("Item")

LOOK = 0.05  # seconds between two looks at whether anybody waits


class Outcome(NamedTuple):
    """What a call gave, or what it raised."""

    value: Any
    error: BaseException | None = None


def packed(value: Any, name: Callable[[Any], Any]) -> bytes:
    """A value as bytes, in which everything that has a name by `name` is only named."""
    file = io.BytesIO()
    _Packer(file, name).dump(value)
    return file.getvalue()


class _Packer(pickle.Pickler):
    # Not a class made for each value: that would be a circle, and hold what is kept for a while.
    def __init__(self, file: io.BytesIO, name: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=5)
        self.name = name

    def persistent_id(self, each: Any) -> Any:
        return self.name(each)


class _Unpacker(pickle.Unpickler):
    def __init__(
        self, body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]
    ) -> None:
        super().__init__(io.BytesIO(body))
        self.inputs = inputs
        self.brought = brought

    def persistent_load(self, name: Any) -> Any:
        return value_of(name, self.brought) if isinstance(name, BroadcastRef) else self.inputs[name]


def run_call(body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]) -> Any:
    """What a call gives. `inputs`: what it names by numbers; `brought`: values that this worker may
    not have."""
    with _Caller().call():
        function, args = _Unpacker(body, inputs, brought).load()
        return function(*args)


def outcome_of(body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]) -> Outcome:
    """The same of a call whose error goes back as what it gave: Dask would log it."""
    try:
        return Outcome(run_call(body, inputs, brought))
    except Exception as error:
        return Outcome(None, _sendable(error))


def _sendable(error: Exception) -> Exception:
    """An error that can go back; one that nobody foresaw says where it was raised."""
    if not isinstance(error, (Error, MissingBroadcast)):
        error.add_note(f"On a worker:\n{format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"on a worker: {type(error).__name__}: {error}\n{format_exc()}")
    return error


def summary_of(value: Any, function: Callable[[Any], Any]) -> Any:
    """What is to be told of a value that stays."""
    return function(value)


def part_of(value: Any, key: Any) -> Any:
    """A part of a value that stays."""
    return value[key]


def itself(value: Any) -> Any:
    return value


class _Caller(Watch):
    """Who waits for a call, as the worker knows it: a task that was cancelled is waited for by
    nobody, be it that a query was stopped or that its process died."""

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
                    raise Interrupted("nobody waits for this any more")
        super().poll()


def _task() -> tuple[Any, Any]:
    """The worker's state, and the task that runs in this thread."""
    worker = own_worker()
    return (None, None) if worker is None else (worker.state, worker.get_current_task())


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """Pieces of work that several calls are given: the call that asks first takes the next one.

    Whoever makes the file of a piece's number, in a folder that all see, has the piece. So workers
    end together, and the driver saves some milliseconds for each piece. A piece whose worker died
    stays taken: the driver sees in the end that nobody has done it.
    """

    folder: str

    def take(self, pieces: Sequence[Item]) -> Iterator[tuple[int, Item]]:
        """Pieces with their numbers that nobody has taken, each when it is asked for."""
        for number, piece in enumerate(pieces):
            if self._first(number):
                yield number, piece

    def _first(self, number: int) -> bool:
        try:
            os.close(os.open(f"{self.folder}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:  # somebody was first; or the folder is not seen here, or is gone
            return False
        return True
