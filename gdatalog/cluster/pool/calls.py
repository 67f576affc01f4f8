"""Calls, what they leave on workers, and how that is made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakSet, ref

from gdatalog.cluster.pool.calling import Packed
from gdatalog.cluster.pool.placing import Placed
from gdatalog.errors import MemoryLimitError
from gdatalog.records import dataclass, field

BAD = ("lost", "cancelled", "error")  # how futures are that have nothing


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


@dataclass(slots=True, eq=False)
class Recipe:
    """How a value that is kept was made, without what it was made of: that may be gone by now."""

    packed: Packed
    inputs: tuple[tuple[Recipe | Origin | Kept, tuple[Any, ...]], ...]  # of what, which part
    placed: tuple[Placed, ...]
    worker: str | None
    kept: Callable[[], Kept | None] = lambda: None


class Source(Protocol):
    """What makes values again that no call alone can make. `origins`: those of all of them."""

    origins: WeakSet[Origin]

    def again(self, lost: Sequence[Origin]) -> list[Any]:
        """Futures of values that were lost, made together."""
        ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class Origin:
    """How a value is made again: by a source, which knows it by a tag."""

    source: Source
    tag: Any
    kept: Callable[[], Kept | None] = lambda: None

    def __post_init__(self) -> None:
        self.source.origins.add(self)

    @property
    def lost(self) -> bool:
        """Whether somebody has it, and it is lost."""
        kept = self.kept()
        return kept is not None and kept.future.status in BAD


def whole(each: Kept | Part) -> Kept:
    """What is kept, or what it is a part of."""
    return each.kept if isinstance(each, Part) else each


def future_of(each: Kept | Part) -> Any:
    return each.kept.parts.get(each.key) if isinstance(each, Part) else each.future


class _Nothing:
    """The future of what is not there."""

    status, key = "cancelled", ""


def made_by(recipe: Recipe | Origin, future: Any = _Nothing, told: Any = None) -> Kept:
    """What lies there as a recipe makes it; nothing at first, if no future is said."""
    kept = Kept(future, told, recipe)
    recipe.kept = ref(kept)
    return kept


def made_as(kept: Kept, recipe: Recipe | Origin | None) -> Kept:
    """The same, which from now on is made again as another was made that is what it is."""
    kept.recipe = recipe
    if recipe is not None:
        recipe.kept = ref(kept)
    return kept


def resting(value: Any) -> Any:
    """A value of a part (`parts.py`), without what is kept: how that is made stays."""
    if isinstance(value, dict):
        return {key: resting(part) for key, part in value.items()}
    return value.recipe or value if isinstance(value, Kept) else value


def woken(value: Any) -> Any:
    """The same as an argument of calls."""
    if isinstance(value, dict):
        return {key: woken(part) for key, part in value.items()}
    return value.kept() or made_by(value) if isinstance(value, Recipe | Origin) else value
