"""Which pages of an index a join reads, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gdatalog.plan.cells import roles
from gdatalog.plan.effects import participants
from gdatalog.plan.join_plan import Branch, Join, JoinPlan, Participant, Seek, Step, TrieRef
from gdatalog.plan.nest import Paths, TrieNode, recoded
from gdatalog.plan.slices import Numbers, Schedule
from gdatalog.records import dataclass

Floats = npt.NDArray[np.float64]

SECTOR = 32  # least bytes of a transfer
PROBES = 8  # reads of a search in a list
# The least cost of a read over the link, in bytes of copying: lists of 8, 32 and 128 keys arrive at
# 3.5, 14 and 46 GB/s, which is one list in 9 to 11 ns.
READ_COSTS = 1 << 9


@dataclass(frozen=True, slots=True)
class ListRead:
    """A join reads a list of level `depth` of one of its tries so many `times`; `counted`: it only
    reads the list's length; `searched`: it reads one position."""

    trie: int
    depth: int
    times: float
    counted: bool = False
    searched: bool = False


def reads(
    join: JoinPlan, rows_out: Callable[[Step], float | None], bits: Collection[str] = ()
) -> list[ListRead]:
    """The lists that a join reads. `rows_out`: the number of bindings of a step, if known better
    than the plan's estimate. `bits`: variables of recoded levels.

    A list that deeper levels read repeatedly stays in the device's caches: it counts once for each
    time that it is selected. A search reads one position after another. Recoded levels after the
    first read only the lists that rows of bits are built from, once for each value of the first.
    """
    found: list[ListRead] = []
    chosen: dict[tuple[int, int], float] = {}
    names = roles(join)

    def rows_of_bits(parts: Sequence[Participant], times: float, made: set[TrieRef]) -> None:
        for part in parts:
            ref = join.tries[part.trie]
            if part.depth and names[part.trie][0] in bits and ref not in made:
                made.add(ref)
                found.append(ListRead(part.trie, part.depth, times))

    def walk(steps: Sequence[Step], rows: float) -> None:
        first: float | None = None  # bindings of the first recoded variable
        made: set[TrieRef] = set()
        for at, step in enumerate(steps):
            parts, joins = participants(step), isinstance(step, Join)
            before, seen = rows, rows_out(step)
            if seen is not None:
                rows = seen
            elif isinstance(step, Join):
                rows = max(step.estimate, 1.0)
            in_bits = isinstance(step, Join) and step.variable in bits
            if first is not None and (in_bits or not (joins or any(p.depth for p in parts))):
                rows_of_bits(parts, first, made)
                continue
            first = rows if in_bits else None
            last = join.bag and len(parts) == 1 and at == len(steps) - 1
            counted = last and isinstance(step, Join) and not step.cuts
            for part in parts:
                if part.depth:
                    times = chosen.get((part.trie, part.depth - 1), before)
                    found.append(ListRead(part.trie, part.depth, times, counted))
                    if isinstance(step, Seek):
                        found.append(
                            ListRead(part.trie, part.depth, PROBES * before, searched=True)
                        )
                elif not joins or len(parts) > 1:  # lookups: at least those that succeed
                    found.append(ListRead(part.trie, 0, rows if joins else before))
            chosen.update({(part.trie, part.depth): rows for part in parts})
            if isinstance(step, Branch):
                for inner in step.alternatives:
                    walk(inner, rows)

    walk(join.steps, 1.0)
    return found


class Heat:
    """The expected bytes that reads of each page of an index move over the link, and their cost in
    bytes, if the page stays on the host."""

    def __init__(self, page: int, count: int) -> None:
        self.page, self.count = page, count
        self._bytes = np.zeros(count + 1)
        self._costs = np.zeros(count + 1)

    def add(self, starts: Numbers, ends: Numbers, times: float, shares: Numbers) -> None:
        """Adds reads of these byte ranges: `times` in all, evenly. A read takes one of `shares`
        parts of a range."""
        read = ends > starts
        if times <= 0 or not read.any():
            return
        each = times / len(starts)
        starts, ends, shares = starts[read], ends[read], shares[read]
        first, last = starts // self.page, (ends - 1) // self.page
        sizes = (ends - starts) / np.maximum(shares, 1)
        over = last - first + 1
        for total, least in ((self._bytes, SECTOR), (self._costs, READ_COSTS)):
            moved = each * np.maximum(sizes, least) / over
            size = self.count + 1
            total += np.bincount(first, moved, size) - np.bincount(last + 1, moved, size)

    @property
    def bytes(self) -> Floats:
        return np.maximum(np.cumsum(self._bytes[:-1]), 0.0)

    @property
    def costs(self) -> Floats:
        return np.maximum(np.cumsum(self._costs[:-1]), 0.0)


@dataclass(frozen=True, slots=True)
class PagePlacement:
    """The pages of each index to copy to the device; the expected bytes that reads of other pages
    move over the link, and their cost in bytes."""

    pages: Mapping[Hashable, tuple[int, ...]]
    read: float
    cost: float


def takes_pages(
    bits: Collection[str], cells: Callable[[], Schedule | str], cost: float, overhead: int
) -> bool:
    """Whether reading in place at this cost, in bytes, is expected to be cheaper than cells with
    this `overhead` each; or whether there are no cells. They are not searched for if already one
    would cost more.

    Cells that cut a recoded variable cannot use rows of bits, which makes the work several times
    larger.
    """
    if cost < overhead:
        return True
    found = cells()
    if isinstance(found, str) or not found.ranges.keys().isdisjoint(bits):
        return True
    return cost < found.cost(overhead)


def in_bits(join: JoinPlan, longest: Callable[[TrieRef, int], int], most: int) -> set[str]:
    """The recoded variables, if the rows of each list take at most `most` bytes. `longest`: the
    longest list of a level of an index."""

    def fits(within: TrieNode) -> bool:
        return longest(within.trie, within.depth) ** 2 // 8 <= most

    return recoded(join.steps, Paths.of(join), fits=fits)


def placed(heats: Mapping[Hashable, Heat], room: int) -> PagePlacement:
    """The pages whose reads would cost most, as many as fit."""
    if not heats:
        return PagePlacement({}, 0.0, 0.0)
    names = list(heats)
    page = heats[names[0]].page
    costs = np.concatenate([heats[name].costs for name in names])
    moved = np.concatenate([heats[name].bytes for name in names])
    order = np.argsort(-costs, kind="stable")[: max(0, room // page)]
    order = order[costs[order] > 0]
    ends = np.cumsum([heats[name].count for name in names])
    pages: dict[Hashable, tuple[int, ...]] = {}
    for name, end in zip(names, ends.tolist(), strict=True):
        begin = end - heats[name].count
        own = order[(order >= begin) & (order < end)] - begin
        pages[name] = tuple(np.sort(own).tolist())
    cold = np.ones(len(costs), dtype=bool)
    cold[order] = False
    return PagePlacement(pages, float(moved[cold].sum()), float(costs[cold].sum()))
