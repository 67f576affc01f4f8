"""Overhead: time that a thread does not spend on rows.

A nested timer's time counts for its own kind only, so that the kinds add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from time import perf_counter
from typing import Literal

from gdatalog.records import dataclass, fields

Kind = Literal["planning", "compiling", "indexing", "moving", "loading", "writing", "opening"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Overhead in seconds: checking and planning, compiling or loading compiled loops, building
    indexes, copying to and from a device, reading and writing files, and opening a GPU for work
    that pays there. `moved`: the bytes copied.

    >>> spent = Costs(compiling=1.5, moved=8) - Costs(compiling=0.5, loading=2.0)
    >>> spent.compiling, spent.moved, spent.loading
    (1.0, 8, -2.0)
    """

    planning: float = 0.0
    compiling: float = 0.0
    indexing: float = 0.0
    moving: float = 0.0
    moved: int = 0
    loading: float = 0.0
    writing: float = 0.0
    opening: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of all kinds."""
        busy = self.planning + self.compiling + self.indexing
        return busy + self.moving + self.loading + self.writing + self.opening

    def __add__(self, other: Costs) -> Costs:
        return Costs(*[getattr(self, f.name) + getattr(other, f.name) for f in fields(Costs)])

    def __sub__(self, other: Costs) -> Costs:
        if other is self:
            return _NO_COSTS
        return Costs(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Costs)))


_NO_COSTS = Costs()
_here = local()


def time_spent() -> Costs:
    """The overhead of this thread so far."""
    found: Costs = getattr(_here, "costs", _NO_COSTS)
    return found


def take_over(costs: Costs) -> None:
    """Adds the overhead of a thread that this one waited for."""
    _here.costs = time_spent() + costs


@contextmanager
def spending(kind: Kind, moved: int = 0) -> Iterator[None]:
    """Counts this thread's time within the context as one kind of overhead. `moved`: bytes copied.

    >>> before = time_spent()
    >>> with spending("moving", 100):
    ...     pass
    >>> (time_spent() - before).moved
    100
    """
    before, began = time_spent(), perf_counter()
    try:
        yield
    finally:
        own, nested = perf_counter() - began, time_spent()
        if nested is not before:
            own -= (nested - before).seconds
        take_over(Costs(**{kind: own}, moved=moved))
