"""A join's space in pieces: cut by expected cost, handed out in shares, and cut again.

A piece is a range of one variable's values under single values of those before it. Pieces share
nothing and cover all there is: the first and the last of a level have no end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.cluster.replicated.costs import CostLevel, next_level
from gdatalog.plan.cells import EVERYTHING, GREATEST, LEAST, Cell, KeyRange
from gdatalog.plan.nodes import JoinPlan, TrieRef
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.trie import Trie

COST = 1e6  # of a piece, in rows looked at: some milliseconds
FEWEST, MOST = 8, 64  # pieces for each thread of the workers
# The same for workers with GPUs: each piece costs a launch, and a GPU is busy with much at once.
GPU_COST, GPU_FEWEST, GPU_MOST = 2e8, 4, 16
GPU_LEAST = 2e7  # of a piece, though there be fewer than the fewest: one for each GPU then
AGAIN = 8  # pieces that one becomes which was too much
DEEP = 6  # times that a piece is cut again: what does not fit into memory then never will
HUB = 0.5  # of a thread's whole share: a value that costs more is cut by the next variable


@dataclass(frozen=True, slots=True, eq=False)
class Morsel:
    """The values from place `low` to place `high` of a level, under `fixed` values of others.

    `beyond`: instead, all there is on one side of a value. `again`: how often it was cut from one
    that was too much.
    """

    cost: float
    level: CostLevel | None = None
    low: int = 0
    high: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    beyond: KeyRange | None = None
    again: int = 0

    @property
    def cell(self) -> Cell:
        level = self.level
        if level is None:
            return EVERYTHING
        ranges = {name: KeyRange(value, value + 1) for name, value in self.fixed.items()}
        if self.beyond is not None:
            return Cell({**ranges, level.variable: self.beyond})
        low = None if self.low == 0 else int(level.values[self.low])
        high = None if self.high == len(level.values) else int(level.values[self.high])
        return Cell({**ranges, level.variable: KeyRange(low, high)})


class Morsels:
    """What is left to do of a join's space."""

    def __init__(
        self,
        join: JoinPlan,
        tries: Mapping[TrieRef, Trie],
        scope: Any,
        slots: int,
        gpus: bool = False,
    ) -> None:
        """`slots`: how many pieces can be at work at once; `gpus`: on GPUs."""
        self.join, self.tries, self.scope, self.slots = join, tries, scope, slots
        level = next_level(join, tries, {}, scope)
        self.total = max(1.0, join.cost)
        cost, fewest, most = (GPU_COST, GPU_FEWEST, GPU_MOST) if gpus else (COST, FEWEST, MOST)
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
        """What all that has not been handed out costs."""
        return sum(piece.cost for piece in self._left)

    def take(self, most: float) -> list[Morsel]:
        """Pieces that cost so much, at least one, the dearest first; but before these, one by one,
        those that were too much once."""
        taken = [self._left.pop()]
        cost = taken[0].cost
        while not taken[0].again and self._left and cost + self._left[-1].cost <= most:
            taken.append(self._left.pop())
            cost += taken[-1].cost
        return taken

    def all(self) -> tuple[Morsel, ...]:
        """All that there are, in the same order; none is left."""
        pieces, self._left = tuple(reversed(self._left)), []
        return pieces

    def add(self, pieces: Sequence[Morsel]) -> None:
        """Pieces that are to be done after all."""
        if pieces:
            self._left += pieces
            self._order()

    def _order(self) -> None:
        self._left.sort(key=lambda piece: (piece.again, piece.cost))

    def smaller(self, piece: Morsel) -> list[Morsel] | None:
        """A piece as several; None where it cannot be cut."""
        pieces = self._smaller(piece)
        return pieces and [replace(each, again=piece.again + 1) for each in pieces]

    def _smaller(self, piece: Morsel) -> list[Morsel] | None:
        level = piece.level
        if level is None or piece.beyond is not None:
            return None
        if piece.high - piece.low > 1:
            return _cut(level, piece.fixed, piece.cost, piece.low, piece.high, AGAIN)
        value = int(level.values[piece.low])
        fixed = {**piece.fixed, level.variable: value}
        below = next_level(self.join, self.tries, fixed, self.scope)
        if below is None or len(below.values) < 2:
            return None
        pieces = _cut(below, fixed, piece.cost, 0, len(below.values), AGAIN)
        if piece.low == 0 and value > LEAST:
            pieces.append(Morsel(0.0, level, fixed=piece.fixed, beyond=KeyRange(None, value)))
        if piece.high == len(level.values) and value < GREATEST:
            pieces.append(Morsel(0.0, level, fixed=piece.fixed, beyond=KeyRange(value + 1, None)))
        return pieces


def _cut(
    level: CostLevel, fixed: Mapping[str, int], cost: float, low: int, high: int, wanted: int
) -> list[Morsel]:
    """About so many pieces of about the same cost, of those values of a level; `cost`: of all."""
    costs = level.costs[low:high]
    costs = costs * (cost / max(float(costs.sum()), 1e-9))
    ends = np.cumsum(costs)
    # By where its middle lies, so that a value that costs more than a piece is alone.
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
