"""Calls, what they leave on workers, and how that is made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from gdatalog.cluster.pool.here import BAD
from gdatalog.cluster.pool.placing import Placed
from gdatalog.errors import MemoryLimitError
from gdatalog.records import dataclass, field


@dataclass(slots=True, eq=False, weakref_slot=True)
class Kept:
    """What a call gave, and left where it ran: an argument of further calls.

    `told`: what the call's `told` says of it. `part(key)`: of a dict or sequence the part of a
    key: an argument of calls too; only that part moves. It lies there for as long as this object
    lives; what was made of it does not need it any more.
    """

    future: Any
    told: Any = None
    recipe: Recipe | Origin | None = None
    parts: dict[Any, Any] = field(default_factory=dict)  # futures

    def part(self, key: Any) -> Part:
        return Part(self, key)

    @property
    def lost(self) -> bool:
        return self.future.status in BAD


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value that is kept, as an argument of calls."""

    kept: Kept
    key: Any


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of a module that workers import, and its arguments; those that are `Placed`,
    `Kept` or `Part`, also within others, are there what these stand for.

    `keep`: what it gives stays where it runs. `worker`: where it should run. `tag`: whatever the
    caller knows it by. `told`: of what stays, a function that says what is to be known here.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keep: bool = False
    worker: str | None = None
    tag: Any = None
    told: Callable[[Any], Any] | None = None


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
    inputs: tuple[tuple[Recipe | Origin | Kept, tuple[Any, ...]], ...]  # of what, which part
    placed: tuple[Placed, ...]
    worker: str | None
    kept: Callable[[], Kept | None] = lambda: None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Origin:
    """How a value is made again that no call has made: `make` gives its future. `lost`: what is
    said if that comes to nothing."""

    make: Callable[[], Any]
    lost: Callable[[Any], Exception]
    kept: Callable[[], Kept | None] = lambda: None


def whole(each: Kept | Part) -> Kept:
    """What is kept, or what it is a part of."""
    return each.kept if isinstance(each, Part) else each


def future_of(each: Kept | Part) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, Part) else each.future


def made_as(kept: Kept, recipe: Recipe | Origin | None) -> Kept:
    """The same, which from now on is made again as another was made that is what it is."""
    kept.recipe = recipe
    if recipe is not None:
        recipe.kept = ref(kept)
    return kept
