"""What modules derive from the rows of a relation and keep with them.

The rows of a version never change, so neither does what is derived from them. A module that derives
something has a `Kept` of its own, and asks it by the rows. The values lie with the rows: they go
when these go, and count in their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

Made = TypeVar("Made")


class Keeping(Protocol):
    """The rows of a version."""

    @property
    def kept(self) -> dict[Kept[Any], Any]: ...


class Kept(Generic[Made]):
    """A kind of value, at most one for the rows of a version.

    A value is complete when it is put; several threads may derive the same, and keep the last.
    """

    def __init__(
        self, nbytes: Callable[[Made], int] = lambda made: 0, follows: bool = False
    ) -> None:
        """`nbytes`: the memory of a value, if it counts as that of an index. `follows`: the value
        is known of the next version too."""
        self.nbytes = nbytes
        self.follows = follows

    def of(self, rows: Keeping) -> Made | None:
        return rows.kept.get(self)

    def put(self, rows: Keeping, made: Made) -> None:
        rows.kept[self] = made

    def take(self, rows: Keeping) -> Made | None:
        """Removes and returns the value; of several threads, one gets it. For values that change
        with the next version."""
        taken: Made | None = rows.kept.pop(self, None)
        return taken


def carry(before: Keeping, after: Keeping) -> None:
    """Keeps with a next version what is known of it by the one before."""
    for kept, made in tuple(before.kept.items()):
        if kept.follows:
            after.kept.setdefault(kept, made)


def kept_nbytes(rows: Keeping) -> int:
    """The memory of all values."""
    return sum(kept.nbytes(made) for kept, made in tuple(rows.kept.items()))
