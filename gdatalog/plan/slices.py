"""Slices of tries: what a join reads in each of its cells, if whole tries do not fit a device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.records import dataclass

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sizes:
    """An index on the host: the keys of its first column, ascending; and, for the slice of all keys
    before the i-th, the bytes to copy (`moved[i]`) and to hold (`held[i]`)."""

    keys: npt.NDArray[np.integer]
    moved: Numbers
    held: Numbers

    def held_by(self, one: Slice) -> int:
        """The bytes to hold for a slice."""
        return int(self.held[one.high] - self.held[one.low])


@dataclass(frozen=True, slots=True)
class IndexUse:
    """How a join uses an index. `root`: the variable bound to its first column, if cells can cut
    it; the key of a constant; None: the whole index. `needed`: every binding has a row of it, so
    that a cell with an empty slice is empty."""

    index: Hashable
    root: str | int | None
    needed: bool = True

    @property
    def variable(self) -> str:
        return self.root if isinstance(self.root, str) else ""


@dataclass(frozen=True, slots=True)
class Slice:
    """The keys of an index's first column with numbers from `low` up to, without, `high`."""

    index: Hashable
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class CellSlices:
    """A cell, and the slice that each use of an index reads in it."""

    cell: Cell
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The cells of a join in the order in which they run.

    `ranges`: those of each cut variable, outermost first. `skipped`: the number of cells without
    bindings, because of comparisons or an empty slice. `moved`: the bytes copied over all cells.
    `again`: the cost of finding bindings in several cells, in bytes of copying.
    """

    ranges: Mapping[str, tuple[KeyRange, ...]]
    turns: tuple[CellSlices, ...]
    skipped: int
    moved: int
    again: float

    def cost(self, overhead: int) -> float:
        """The cost of the cells in bytes, if running one costs `overhead`."""
        return self.moved + self.again + overhead * len(self.turns)


class SliceCache:
    """The slices on a device with `room` bytes for them.

    An LRU cache that keeps everything that this cell and the next one need.
    """

    def __init__(self, room: int, sizes: Mapping[Hashable, Sizes]) -> None:
        self.room = room
        self.sizes = sizes
        self.held: dict[Slice, int] = {}  # bytes, least recently used first
        self.total = 0

    def enter(self, now: Collection[Slice], coming: Collection[Slice]) -> list[Slice]:
        """Makes room for the slices of a cell, and returns those to copy."""
        for one in now:
            if one in self.held:
                self.held[one] = self.held.pop(one)
        missing = [one for one in dict.fromkeys(now) if one not in self.held]
        need = sum(map(self.bytes_of, missing))
        self._drop(need, {*now, *coming})
        self._drop(need, set(now))
        self._take(missing)
        return missing

    def ahead(self, coming: Collection[Slice], now: Collection[Slice]) -> list[Slice]:
        """The slices of the next cell to copy now, beside those of this one."""
        found: list[Slice] = []
        for one in dict.fromkeys(coming):
            if one in self.held:
                continue
            self._drop(self.bytes_of(one), {*now, *coming})
            if self.total + self.bytes_of(one) <= self.room:
                self._take([one])
                found.append(one)
        return found

    def bytes_of(self, one: Slice) -> int:
        return self.sizes[one.index].held_by(one)

    def moved(self, one: Slice) -> int:
        """The bytes to copy for a slice."""
        moved = self.sizes[one.index].moved
        return int(moved[one.high] - moved[one.low])

    def _drop(self, need: int, kept: Collection[Slice]) -> None:
        for one in list(self.held):
            if self.total + need <= self.room:
                return
            if one not in kept:
                self.total -= self.held.pop(one)

    def _take(self, slices: Sequence[Slice]) -> None:
        for one in slices:
            self.held[one] = self.bytes_of(one)
            self.total += self.held[one]


def paired(turns: Sequence[CellSlices]) -> Iterator[tuple[CellSlices, tuple[Slice, ...]]]:
    """Each turn, with the slices of the next one."""
    for turn, after in zip(turns, (*turns[1:], None), strict=False):
        yield turn, () if after is None else after.slices


def bytes_moved(
    turns: Sequence[CellSlices],
    room: int,
    sizes: Mapping[Hashable, Sizes],
    poll: Callable[[], None] = lambda: None,
) -> int:
    """The bytes copied for these turns."""
    shelf, total = SliceCache(room, sizes), 0
    for turn, coming in paired(turns):
        poll()
        missing = [*shelf.enter(turn.slices, coming), *shelf.ahead(coming, turn.slices)]
        total += sum(map(shelf.moved, missing))
    return total
