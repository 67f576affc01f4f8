"""Plans joins whose tries do not fit a device: schedules of cells, or pages that are read in place.

A schedule has cells whose slices fit the device, and copies as few bytes as possible. The cut
variables are nested loops over their ranges: slices of outer variables stay on the device while
those of the innermost variable change. Ranges have equal bytes, not equal numbers of keys.

Without cells, indexes stay on the host, and the device reads them over the link. This module
estimates which lists a join reads and how often, and chooses the pages to copy to the device; the
caller samples the lists, because this module reads no trie.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod

import numpy as np
import numpy.typing as npt

from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.plan.slices import CellSlices, IndexUse, Numbers, Schedule, Sizes, Slice, bytes_moved
from gdatalog.progress import format_bytes
from gdatalog.records import cached_property, dataclass

MOST_CUT = 4  # most cut variables: those with the largest tries
MOST_CELLS = 1 << 18
MOST_TRIED = 4096  # most combinations of shares to try
# Choices for the number of ranges of a variable; fewer if there are many variables.
SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
FEW_SHARES = (1, 2, 4, 8, 16, 32, 64)
# The cost of a cell, in bytes of copying: 4 to 12 ms of an H200 (108 cells of triangles, 240 of
# K4), at 50 GB/s.
OVERHEAD = 1 << 28
# The cost of finding a binding again in another cell: 0.6 ns of an H100.
FOUND_AGAIN = 32

# Bindings of a level, and the variables of deeper levels: cells that differ only in these repeat
# the level's bindings.
Level = tuple[float, frozenset[str]]


Weights = tuple[npt.NDArray[np.integer], Numbers]


@dataclass(eq=False)
class CellPlanner:
    """Finds the cheapest cells, by bytes copied and by repeated work, whose slices fit into `room`,
    two cells' at a time.

    `orders`: (u, v, strict) where u < v, or u <= v, holds for the keys of all bindings.
    `overhead`: the cost of a cell, in bytes of copying. `poll`: called often, to stop early.
    """

    uses: Sequence[IndexUse]
    sizes: Mapping[Hashable, Sizes]
    orders: Collection[tuple[str, str, bool]]
    room: int
    overhead: int = OVERHEAD
    levels: Sequence[Level] = ()
    poll: Callable[[], None] = lambda: None

    @cached_property
    def weights(self) -> dict[str, Weights]:
        """For each variable, the weights of the indexes whose first column it is."""
        indexes: dict[str, dict[Hashable, Sizes]] = {}
        for use in self.uses:
            if use.variable:
                indexes.setdefault(use.variable, {})[use.index] = self.sizes[use.index]
        return {name: _weights(list(mine.values())) for name, mine in indexes.items()}

    @cached_property
    def whole(self) -> dict[str, int]:
        return {name: int(held[-1]) for name, (_, held) in self.weights.items()}

    @cached_property
    def names(self) -> list[str]:
        """The variables that may be cut, those with the largest tries first."""
        names = (name for name, size in self.whole.items() if size)
        return sorted(names, key=lambda name: (-self.whole[name], name))[:MOST_CUT]

    def schedule(self) -> Schedule | str:
        """The cheapest shares that fit: either with room for the next cell's slices, whose copies
        then overlap with computation, or fewer cells without, if these cost less. A message for
        users if there are no such cells."""
        choices = SHARES if len(self.names) < MOST_CUT else FEW_SHARES
        every: list[tuple[float, tuple[int, ...]]] = []
        for shares in product(choices, repeat=len(self.names)):
            self.poll()
            cells = prod(shares)
            if cells <= MOST_CELLS and self._expected_held(shares) <= self.room:
                cost = self._expected(shares) + self._again(shares) + self.overhead * cells
                every.append((cost, shares))
        every.sort()
        ahead, behind = self._first_of(every, True), self._first_of(every, False)
        if behind is None:
            return self._reason()
        fewer = self._scheduled(behind)
        if ahead is None or ahead == behind:
            return fewer
        more = self._scheduled(ahead)
        hidden = more.cost(self.overhead) - more.moved
        return fewer if fewer.cost(self.overhead) < hidden else more

    def _first_of(
        self, every: Sequence[tuple[float, tuple[int, ...]]], ahead: bool
    ) -> dict[str, tuple[KeyRange, ...]] | None:
        """The ranges of the first of these shares that fit, with or without room for the next
        cell's slices."""
        for _, shares in islice(every, MOST_TRIED):
            self.poll()
            ranges = {name: self._ranges(name, share) for name, share in self._order(shares)}
            if self._largest(ranges, ahead) <= self.room:
                return ranges
        return None

    def _largest(self, ranges: Mapping[str, Sequence[KeyRange]], ahead: bool) -> int:
        """The most bytes that the slices of a cell take, plus those that change for the next."""
        held = [self._fixed(ranges)]
        for name, stretches in ranges.items():
            keys, before = self.weights[name]
            starts = [0 if one.low is None else bisect_left(keys, one.low)
                      for one in stretches]  # fmt: skip
            held.append(int(np.diff(before[[*starts, len(keys)]]).max()))
        return sum(held) + (held[-1] if ahead and ranges else 0)

    def _reason(self) -> str:
        room = format_bytes(self.room)
        for name in self.names:
            most = int(np.diff(self.weights[name][1]).max())
            if most > self.room // 2:
                return (
                    f"the index rows of one value of {name} take {format_bytes(most)}, "
                    f"and there is room for {room} of indexes"
                )
        fixed = [use.index for use in self.uses if not use.variable]
        if any(int(self.sizes[index].held[-1]) * 2 > self.room for index in fixed):
            return f"an index is needed whole, and there is room for {room} of indexes"
        return f"its indexes do not fit, and there is room for {room} of them"

    # ----------------------------------------------------------------------------- estimates

    def _order(self, shares: Sequence[int]) -> list[tuple[str, int]]:
        """The cut variables and their shares, outermost first, in the order that copies least."""
        cut = [(name, share) for name, share in zip(self.names, shares, strict=True) if share > 1]
        return sorted(cut, key=lambda one: ((one[1] - 1) / self.whole[one[0]], one[0]))

    def _fixed(self, cut: Collection[str]) -> int:
        """The bytes of slices that do not change from cell to cell."""
        fixed = {self._slice(use, None) for use in self.uses if use.variable not in cut}
        return sum([self.sizes[one.index].held_by(one) for one in fixed])

    def _expected_held(self, shares: Sequence[int]) -> float:
        order = self._order(shares)
        held = float(self._fixed([name for name, _ in order]))
        return held + sum([self.whole[name] / share for name, share in order])

    def _expected(self, shares: Sequence[int]) -> float:
        """The bytes copied: a slice is copied once for each range of the outer variables."""
        moved, times = 0.0, 1
        for name, share in self._order(shares):
            moved += times * self.whole[name]
            times *= share
        return moved

    def _again(self, shares: Sequence[int]) -> float:
        """The cost of finding bindings again for each range of deeper variables."""
        of = dict(zip(self.names, shares, strict=True))
        times = ((found, prod(of.get(name, 1) for name in deeper)) for found, deeper in self.levels)
        return sum([FOUND_AGAIN * found * (many - 1) for found, many in times])

    # ---------------------------------------------------------------------------------- cells

    def _ranges(self, name: str, share: int) -> tuple[KeyRange, ...]:
        """`share` ranges of a variable's keys, of about equal bytes."""
        keys, before = self.weights[name]
        total = int(before[-1])
        targets = [total * at // share for at in range(1, share)]
        places = np.unique(np.searchsorted(before, targets)).tolist()
        cuts = [int(keys[at]) for at in places if 0 < at < len(keys)]
        return tuple(
            KeyRange(low, high) for low, high in zip([None, *cuts], [*cuts, None], strict=True)
        )

    def _scheduled(self, ranges: Mapping[str, tuple[KeyRange, ...]]) -> Schedule:
        slices = [
            [self._slice(use, stretch) for stretch in ranges.get(use.variable, (None,))]
            for use in self.uses
        ]
        names = list(ranges)
        numbered = {name: at for at, name in enumerate(names)}
        places = [numbered.get(use.variable) for use in self.uses]
        turns: list[CellSlices] = []
        skipped = 0
        for numbers in serpentine([len(ranges[name]) for name in names]):
            self.poll()
            mine = tuple(
                every[0 if place is None else numbers[place]]
                for every, place in zip(slices, places, strict=True)
            )
            cell = {name: ranges[name][at] for name, at in zip(names, numbers, strict=True)}
            if self._empty(cell, mine):
                skipped += 1
            else:
                turns.append(CellSlices(Cell(cell), mine))
        moved = bytes_moved(turns, self.room, self.sizes, self.poll)
        again = self._again([len(ranges.get(name, ())) or 1 for name in self.names])
        return Schedule(ranges, tuple(turns), skipped, moved, again)

    def _empty(self, cell: Mapping[str, KeyRange], slices: Sequence[Slice]) -> bool:
        for low, high, strict in self.orders:
            if low in cell and high in cell:
                least, end = cell[low].low, cell[high].high  # of what is compared
                if least is not None and end is not None and least + strict >= end:
                    return True
        return any(
            use.needed and one.low == one.high for use, one in zip(self.uses, slices, strict=True)
        )

    def _slice(self, use: IndexUse, stretch: KeyRange | None) -> Slice:
        keys = self.sizes[use.index].keys
        low, high = 0, len(keys)
        if isinstance(use.root, int):
            low = bisect_left(keys, use.root)
            high = bisect_right(keys, use.root)
        elif stretch is not None:
            low = low if stretch.low is None else bisect_left(keys, stretch.low)
            high = high if stretch.high is None else bisect_left(keys, stretch.high)
        return Slice(use.index, low, high)


def _weights(indexes: Sequence[Sizes]) -> Weights:
    """The keys of a variable, ascending, and the bytes of the slices of all keys before each, and
    in total."""
    if len(indexes) == 1:
        return indexes[0].keys, indexes[0].held
    keys = np.concatenate([one.keys for one in indexes])
    each = np.concatenate([np.diff(one.held) for one in indexes])
    order = np.argsort(keys, kind="stable")
    keys, each = keys[order], each[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]) if len(keys) else keys)
    before = np.append(0, np.cumsum(each))
    return keys[starts], np.append(before[starts], before[-1])


def serpentine(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All combinations of numbers below these lengths, in which neighbours differ in one number by
    one.

    >>> list(serpentine([2, 2]))
    [(0, 0), (0, 1), (1, 1), (1, 0)]
    """
    if not lengths:
        yield ()
        return
    forth = True
    for outer in serpentine(lengths[:-1]):
        inner = range(lengths[-1])
        for at in inner if forth else reversed(inner):
            yield (*outer, at)
        forth = not forth
