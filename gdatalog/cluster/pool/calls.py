"""Calls, what they leave on workers, and how that is made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.worker_cache import BAD
from gdatalog.errors import MemoryLimitError
from gdatalog.records import dataclass, field


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
