"""Calls: how workers run them, what they leave there, and how that is recomputed.

A call is sent as bytes: a function and its arguments, in which values that lie on workers are only
named. A call that nobody waits for any more stops at its next poll.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from traceback import format_exc
from typing import Any, NamedTuple
from weakref import ref

from gdatalog.cancellation import Watch
from gdatalog.cluster.pool.broadcast import (
    BAD,
    Broadcast,
    Broadcaster,
    BroadcastRef,
    MissingBroadcast,
    value_of,
)
from gdatalog.cluster.workers.worker import own_worker
from gdatalog.errors import Error, Interrupted, MemoryLimitError
from gdatalog.records import dataclass, field

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


@dataclass(slots=True, eq=False, weakref_slot=True)
class RemoteValue:
    """What a call gave, and left where it ran: an argument of further calls.

    `summary`: what the call's `summary` says of it. `part(key)`: of a dict or sequence the part of
    a key: an argument of calls too; only that part moves. It lies there for as long as this object
    lives; what was made of it does not need it any more.
    """

    future: Any
    summary: Any = None
    recipe: Recipe | Origin | None = None
    parts: dict[Any, Any] = field(default_factory=dict)  # futures

    def part(self, key: Any) -> RemoteElement:
        return RemoteElement(self, key)

    @property
    def lost(self) -> bool:
        return self.future.status in BAD


@dataclass(frozen=True, slots=True)
class RemoteElement:
    """A part of a value that is kept, as an argument of calls."""

    kept: RemoteValue
    key: Any


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of a module that workers import, and its arguments; those that are `Broadcast`,
    `RemoteValue` or `RemoteElement`, also within others, are there what these stand for.

    `keep`: what it gives stays where it runs. `worker`: where it should run. `tag`: whatever the
    caller knows it by. `summary`: of what stays, a function that says what is to be known here.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keep: bool = False
    worker: str | None = None
    tag: Any = None
    summary: Callable[[Any], Any] | None = None


class Lost(Exception):
    """What a call was given is not there any more as it was, though its worker lives."""


class TooLarge(MemoryLimitError):
    """A call needs more memory than a worker has for it; in smaller parts it may do."""

    def __init__(self, call: Call, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.call = call


@dataclass(slots=True, eq=False, weakref_slot=True)
class Recipe:
    """How a value that is kept was made, without what it was made of: that may be gone by now."""

    body: bytes
    inputs: tuple[tuple[Recipe | Origin | RemoteValue, tuple[Any, ...]], ...]  # of what, which part
    placed: tuple[Broadcast, ...]
    worker: str | None
    kept: Callable[[], RemoteValue | None] = lambda: None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Origin:
    """How a value is made again that no call has made: `make` gives its future. `lost`: what is
    said if that comes to nothing."""

    make: Callable[[], Any]
    lost: Callable[[Any], Exception]
    kept: Callable[[], RemoteValue | None] = lambda: None


def whole(each: RemoteValue | RemoteElement) -> RemoteValue:
    """What is kept, or what it is a part of."""
    return each.kept if isinstance(each, RemoteElement) else each


def future_of(each: RemoteValue | RemoteElement) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, RemoteElement) else each.future


def made_as(kept: RemoteValue, recipe: Recipe | Origin | None) -> RemoteValue:
    """The same, which from now on is made again as another was made that is what it is."""
    kept.recipe = recipe
    if recipe is not None:
        recipe.kept = ref(kept)
    return kept


class Lineage:
    """What one stage has made again of lost values.

    Dask runs lost tasks again that its scheduler knows, with all that they need. It does not know
    how scattered data are made, nor anything after a restart. So a value has a recipe: the call
    that made it. What it was made of is made first, if that is lost too, or was released.
    """

    def __init__(self, broadcaster: Broadcaster, submit: Callable[..., list[Any]]) -> None:
        self._broadcaster = broadcaster
        self._submit = submit
        self._remade: dict[Recipe | Origin, Any] = {}  # futures

    def forget(self) -> None:
        """What was made again may be what is not as it was."""
        self._remade.clear()

    def revived(self, each: RemoteValue | RemoteElement, every: bool) -> bool:
        """Whether what a call needs was lost; then it is made again. `every`: from all that is
        placed, for workers do not have it."""
        kept = whole(each)
        lost = kept.future.status in BAD
        part_lost = False
        if isinstance(each, RemoteElement) and each.key in kept.parts:
            part_lost = lost or kept.parts[each.key].status in BAD
            if part_lost:
                del kept.parts[each.key]
        if lost and kept.recipe is not None:
            self._remake(kept.recipe, every)
        return lost or part_lost

    def _remake(self, recipe: Recipe | Origin, every: bool) -> None:
        """Makes a value again, and before that what it is made of, as far as that is gone."""
        todo = [recipe]
        while todo:
            each = todo[-1]
            if self._there(each) is not None:
                todo.pop()
                continue
            if isinstance(each, Origin):
                before = self._remade.get(each)
                if before is not None and before.status != "lost":
                    raise each.lost(before)
                self._made_again(each, each.make())
                continue
            there = [(*made, self._there(made[0])) for made in each.inputs]  # it may change soon
            needed = [source for source, _, future in there if future is None]
            if needed:
                todo += [source for source in needed if not isinstance(source, RemoteValue)]
                continue
            inputs = []
            for _, part, future in there:
                inputs += self._submit(part_of, None, [future], list(part)) if part else [future]
            sent = [one for one in each.placed if one.sent or every]
            brought = self._broadcaster.brought(sent, True)
            (future,) = self._submit(run_call, each.worker, [each.body], [inputs], [brought])
            self._made_again(each, future)
            todo.pop()

    def _there(self, each: Recipe | Origin | RemoteValue) -> Any:
        """The future of what is there; None if it has to be made."""
        if isinstance(each, RemoteValue):
            return each.future
        kept = each.kept()
        if kept is not None and kept.future.status not in BAD:
            return kept.future
        found = self._remade.get(each)
        return found if found is not None and found.status not in BAD else None

    def _made_again(self, each: Recipe | Origin, future: Any) -> None:
        self._remade[each] = future
        kept = each.kept()
        if kept is not None:
            kept.future = future
            kept.parts.clear()
