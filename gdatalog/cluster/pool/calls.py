"""Calls, and what they leave on workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gdatalog.cluster.pool.calling import Packed
from gdatalog.cluster.pool.placing import Placed
from gdatalog.errors import MemoryLimitError


@dataclass(slots=True, eq=False, weakref_slot=True)
class Kept:
    """What a call gave, and left where it ran: an argument of further calls.

    `told`: what the call's `told` says of it. `part(key)`: of a dict or sequence the part of a
    key: an argument of calls too; only that part moves. It lies there for as long as this object
    lives; what was made of it does not need it any more.
    """

    future: Any
    told: Any = None
    recipe: Recipe | None = None
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


class TooLarge(MemoryLimitError):
    """A call needs more memory than a worker has for it; in smaller parts it may do."""

    def __init__(self, call: Call, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.call = call


@dataclass(slots=True, eq=False)
class Recipe:
    """How a value that is kept was made, without what it was made of: that may be gone by now.

    `sent`: values here that may have to be sent again; no call but this needs them to stay.
    """

    packed: Packed
    inputs: tuple[tuple[Recipe | Kept, tuple[Any, ...]], ...]  # of what, and of which part
    placed: tuple[Placed, ...]
    worker: str | None
    sent: tuple[Any, ...] = ()
    kept: Callable[[], Kept | None] = lambda: None
