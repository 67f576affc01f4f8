"""The morsels of a join: its key space divided by estimated cost, dealt to threads, and divided
again.

A morsel is a range of one variable's values, with single values for the variables before it.
Morsels are disjoint and cover all bindings: a level has all possible values of its variable.

The cost of a value is estimated from the lengths of its lists. A later level that intersects a list
of the value is expected to be longer in proportion. Two such levels suffice, because they bound
deeper ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import heapreplace

import numpy as np

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.plan import join_plan as p
from gdatalog.plan.cells import EVERYTHING, Cell, KeyRange, cuttable
from gdatalog.plan.effects import participants
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import brought
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

COUNTED = 2  # later levels whose list lengths are used
ABSENT = 0.01  # the cost of a value that some list lacks


@dataclass(frozen=True, slots=True)
class CostLevel:
    """The possible values of a variable, ascending, and their estimated costs."""

    variable: str
    values: Array
    costs: Array


def next_level(
    join: p.JoinPlan, tries: Mapping[p.TrieRef, Trie], fixed: Mapping[str, int], scope: Scope
) -> CostLevel | None:
    """The level of the first variable that is not `fixed`; None if there is none."""
    target = next((slot.name for slot in cuttable(join) if slot.name not in fixed), None)
    lists = _Lists(join.tries, tries)
    for place, step in enumerate(join.steps if target is not None else ()):
        if isinstance(step, p.Join) and step.variable == target:
            values = lists.shortest(step.participants)
            costs = _costs(values, step, join.steps[place + 1 :], lists)
            return CostLevel(step.variable, values, costs)
        lists.follow(step, _key_of(step, fixed, scope))
    return None


def _key_of(step: p.Step, fixed: Mapping[str, int], scope: Scope) -> int | None:
    """The key that a step binds, if it is known."""
    if isinstance(step, p.Join):
        return fixed[step.variable]
    told = step.value if isinstance(step, p.Seek) else None
    if isinstance(told, p.Constant):
        return encode_value(told.value, told.type, scope.symbols)
    if isinstance(told, p.Parameter):
        return encode_value(scope.params[told.name], told.type, scope.symbols)
    return None


class _Lists:
    """The node of each trie of a join after the steps whose keys are known."""

    def __init__(self, refs: Sequence[p.TrieRef], tries: Mapping[p.TrieRef, Trie]) -> None:
        self.levels = [tries[ref].levels for ref in refs]
        self.nodes: list[int | None] = [0 for _ in refs]
        self.known: dict[Hashable, tuple[Array, Array | None]] = {}

    def follow(self, step: p.Step, key: int | None) -> None:
        for part in participants(step):
            found = self.list_of(part)
            self.nodes[part.trie] = None
            if found is not None and key is not None:
                start, values = found
                at = bisect_left(values, key)
                here = at < len(values) and int(values[at]) == key
                # Node -1 has no children.
                self.nodes[part.trie] = start + at if here else -1

    def list_of(self, part: p.Participant) -> tuple[int, Array] | None:
        """The start of a participant's list in its level, and its values."""
        node = self.nodes[part.trie]
        if node is None:
            return None
        level = self.levels[part.trie][part.depth]
        values = brought(level.values)
        if node < 0:
            return 0, values[:0]
        offsets = level.offsets
        start, end = int(offsets[node]), int(offsets[node + 1])
        return start, values[start:end]

    def shortest(self, parts: Sequence[p.Participant]) -> Array:
        """The values of the shortest list; all values of a level if no list is known."""
        known = [found[1] for part in parts if (found := self.list_of(part)) is not None]
        if known:
            return min(known, key=len)
        part = parts[0]
        return np.unique(brought(self.levels[part.trie][part.depth].values))

    def below(self, part: p.Participant, values: Array) -> tuple[Array, Array | None] | None:
        """Which values are in a participant's list, and the number of children of each; None if the
        list is not known."""
        found = self.list_of(part)
        if found is None:
            return None
        start, own = found
        levels = self.levels[part.trie]
        below = levels[part.depth + 1] if part.depth + 1 < len(levels) else None
        name = id(levels[part.depth]), id(below), start
        if name not in self.known:  # another atom may share the list
            self.known[name] = _below(start, own, values, below)
        return self.known[name]


def _below(
    start: int, own: Array, values: Array, level: TrieLevel | None
) -> tuple[Array, Array | None]:
    if len(own) == 0:
        return np.zeros(len(values), dtype=np.bool_), None
    if len(own) == len(values) and np.array_equal(own, values):
        at, here = np.arange(len(own)), np.ones(len(own), dtype=np.bool_)
    else:
        at = np.searchsorted(own, values)
        at[at == len(own)] = 0
        here = own[at] == values
    if level is None:
        return here, None
    offsets = brought(level.offsets)
    return here, np.where(here, offsets[start + at + 1] - offsets[start + at], 0)


def _costs(values: Array, step: p.Join, later: Sequence[p.Step], lists: _Lists) -> Array:
    costs = np.ones(len(values))
    present = np.ones(len(values), dtype=np.bool_)
    counts: dict[int, Array] = {}  # by trie: the number of children of each value
    for part in step.participants:
        found = lists.below(part, values)
        if found is not None:
            present &= found[0]
            if found[1] is not None:
                counts[part.trie] = found[1].astype(np.float64)
    depths = {part.trie: part.depth + 1 for part in step.participants}
    for steps in _runs(later):
        share, met = np.ones(len(values)), 0
        for inner in steps:
            if not isinstance(inner, p.Join):
                continue
            own = [
                counts[part.trie]
                for part in inner.participants
                if part.trie in counts and part.depth == depths[part.trie]
            ]
            if own and met < COUNTED:
                met += 1
                share = share * np.minimum.reduce(own)
            total = share.sum()
            if total > 0:
                costs += share * (max(inner.estimate, 1.0) / total)
    return np.where(present, costs, ABSENT)


def _runs(steps: Sequence[p.Step]) -> Iterator[list[p.Step]]:
    """The sequence of steps, and those of each branch."""
    yield list(steps)
    for step in steps:
        if isinstance(step, p.Branch):
            for inner in step.alternatives:
                yield from _runs(inner)


COST = 1e6  # of a morsel, in rows: some milliseconds
FEWEST_MORSELS, MOST_MORSELS = 8, 64  # morsels for each thread of the workers
# The same for workers with GPUs: each morsel costs a launch, and fills a GPU only if it is large.
GPU_COST, GPU_FEWEST, GPU_MOST = 2e8, 4, 16
GPU_LEAST = 2e7  # the least cost of a morsel, if there is one for each GPU
AGAIN = 8  # pieces of a morsel that was too large
DEEP = 6  # times that a morsel is cut again; after that it is an error
HUB = 0.5  # share of a thread's work: a costlier value is cut by the next variable


@dataclass(frozen=True, slots=True, eq=False)
class Morsel:
    """The values `low` to `high` (exclusive places) of a level, under `fixed` values of the
    variables before. `again`: how often it was cut because it was too large."""

    cost: float
    level: CostLevel | None = None
    low: int = 0
    high: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    again: int = 0

    @property
    def cell(self) -> Cell:
        level = self.level
        if level is None:
            return EVERYTHING
        ranges = {name: KeyRange(value, value + 1) for name, value in self.fixed.items()}
        low = None if self.low == 0 else int(level.values[self.low])
        high = None if self.high == len(level.values) else int(level.values[self.high])
        return Cell({**ranges, level.variable: KeyRange(low, high)})


class Morsels:
    """The morsels of a join that are not done."""

    def __init__(
        self,
        join: p.JoinPlan,
        tries: Mapping[p.TrieRef, Trie],
        scope: Scope,
        slots: int,
        gpus: bool = False,
    ) -> None:
        """`slots`: how many calls run at once; `gpus`: on GPUs."""
        self.join, self.tries, self.scope, self.slots = join, tries, scope, slots
        level = next_level(join, tries, {}, scope)
        self.total = max(1.0, join.cost)
        cost, fewest, most = (
            (GPU_COST, GPU_FEWEST, GPU_MOST) if gpus else (COST, FEWEST_MORSELS, MOST_MORSELS)
        )
        if gpus:
            fewest = max(1, min(fewest, int(self.total / (GPU_LEAST * slots))))
        wanted = int(min(max(self.total / cost, fewest * slots), most * slots))
        pieces = [Morsel(self.total)]
        if level is not None and len(level.values):
            pieces = _cut(level, {}, self.total, 0, len(level.values), wanted)
        self._left: list[Morsel] = []
        for piece in pieces:
            hub = piece.cost > HUB * self.total / slots and piece.high - piece.low == 1
            self._left += self.smaller(piece) or [piece] if hub else [piece]
        self._order()

    def __bool__(self) -> bool:
        return bool(self._left)

    @property
    def left(self) -> float:
        """The cost of all morsels that have not been handed out."""
        return sum(piece.cost for piece in self._left)

    def take(self, most: float) -> list[Morsel]:
        """The costliest morsels, up to a total cost; at least one. Morsels that were too large
        before come first, one by one."""
        taken = [self._left.pop()]
        cost = taken[0].cost
        while not taken[0].again and self._left and cost + self._left[-1].cost <= most:
            taken.append(self._left.pop())
            cost += taken[-1].cost
        return taken

    def deal(self, count: int) -> list[list[Morsel]]:
        """Deals all morsels into parts of about equal cost, the costliest first."""
        parts: list[list[Morsel]] = [[] for _ in range(count)]
        costs = [(0.0, number) for number in range(count)]
        while costs and self._left:
            piece = self._left.pop()
            cost, number = costs[0]
            parts[number].append(piece)
            heapreplace(costs, (cost + piece.cost, number))
        return [part for part in parts if part]

    def add(self, pieces: Sequence[Morsel]) -> None:
        """Returns morsels that were not done."""
        if pieces:
            self._left += pieces
            self._order()

    def _order(self) -> None:
        self._left.sort(key=lambda piece: (piece.again, piece.cost))

    def smaller(self, piece: Morsel) -> list[Morsel] | None:
        """A morsel as several smaller ones; None if it cannot be cut."""
        level = piece.level
        if level is None:
            return None
        if piece.high - piece.low > 1:
            pieces = _cut(level, piece.fixed, piece.cost, piece.low, piece.high, AGAIN)
        else:
            fixed = {**piece.fixed, level.variable: int(level.values[piece.low])}
            below = next_level(self.join, self.tries, fixed, self.scope)
            if below is None or len(below.values) < 2:
                return None
            pieces = _cut(below, fixed, piece.cost, 0, len(below.values), AGAIN)
        return [replace(each, again=piece.again + 1) for each in pieces]


def _cut(
    level: CostLevel, fixed: Mapping[str, int], cost: float, low: int, high: int, wanted: int
) -> list[Morsel]:
    """Divides a range of a level into about `wanted` morsels of similar cost; `cost`: of the whole
    range."""
    costs = level.costs[low:high]
    costs = costs * (cost / max(float(costs.sum()), 1e-9))
    ends = np.cumsum(costs)
    # Each value belongs to the morsel of its middle, so a costly value is alone.
    number = ((ends - costs / 2) * (wanted / cost)).astype(np.int64)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    if len(starts) == 1 and len(costs) > 1:
        starts = np.array([0, len(costs) // 2])
    sums = np.add.reduceat(costs, starts)
    bounds = [*(starts + low).tolist(), high]
    return [
        Morsel(mine, level, begin, end, fixed)
        for mine, begin, end in zip(sums.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]
