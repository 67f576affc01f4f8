"""Calls: how workers run them, what results they keep, and how lost results are recomputed.

A call is sent as bytes: a pickled function and its arguments, which refer to values on workers by
name. A call stops at its next poll when nobody waits for it any more.
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
from gdatalog.cluster.workers import own_worker
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
    def __init__(
        self, body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]
    ) -> None:
        super().__init__(io.BytesIO(body))
        self.inputs = inputs
        self.brought = brought

    def persistent_load(self, name: Any) -> Any:
        return value_of(name, self.brought) if isinstance(name, BroadcastRef) else self.inputs[name]


def run_call(body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]) -> Any:
    """Runs a call. `inputs`: remote values, which the call refers to by number; `brought`:
    broadcast values that this worker may not have."""
    with _Caller().call():
        function, args = _Unpacker(body, inputs, brought).load()
        return function(*args)


def outcome_of(body: bytes, inputs: Sequence[Any], brought: Mapping[BroadcastRef, Any]) -> Outcome:
    """Like `run_call`, but returns errors as values, because Dask would log a raised error."""
    try:
        return Outcome(run_call(body, inputs, brought))
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
    this object lives; values computed from it do not need it.
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


@dataclass(slots=True, eq=False, weakref_slot=True)
class Recipe:
    """How to compute a remote value again; it does not keep the inputs alive."""

    body: bytes
    inputs: tuple[tuple[Recipe | Origin | RemoteValue, tuple[Any, ...]], ...]  # source, item
    placed: tuple[Broadcast, ...]
    worker: str | None
    kept: Callable[[], RemoteValue | None] = lambda: None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Origin:
    """How to compute a value again that no call computed: `make` returns its future. `lost`: the
    error to raise if that fails."""

    make: Callable[[], Any]
    lost: Callable[[Any], Exception]
    kept: Callable[[], RemoteValue | None] = lambda: None


def whole(each: RemoteValue | RemoteElement) -> RemoteValue:
    """The remote value that an argument is, or is an item of."""
    return each.kept if isinstance(each, RemoteElement) else each


def future_of(each: RemoteValue | RemoteElement) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, RemoteElement) else each.future


def made_as(kept: RemoteValue, recipe: Recipe | Origin | None) -> RemoteValue:
    """Sets how a value is computed again, for one that equals another value with that recipe."""
    kept.recipe = recipe
    if recipe is not None:
        recipe.kept = ref(kept)
    return kept


class Lineage:
    """The lost values that one stage recomputes.

    Dask recomputes lost tasks that its scheduler knows, and their inputs. It does not know how
    scattered data were computed, nor anything after a restart. So each value has a recipe, the call
    that computed it; lost or released inputs are recomputed first.
    """

    def __init__(self, broadcaster: Broadcaster, submit: Callable[..., list[Any]]) -> None:
        self._broadcaster = broadcaster
        self._submit = submit
        self._remade: dict[Recipe | Origin, Any] = {}  # futures

    def forget(self) -> None:
        """Forgets recomputed values, because one of them may differ from the original."""
        self._remade.clear()

    def revived(self, each: RemoteValue | RemoteElement, every: bool) -> bool:
        """Whether an input was lost; if so, starts its recomputation. `every`: also sends all
        broadcast values, because workers do not have them."""
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
        """Recomputes a value, after those of its inputs that are gone."""
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
            there = [(*made, self._there(made[0])) for made in each.inputs]  # may change soon
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
        """The future of an existing value; None if it must be computed."""
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
