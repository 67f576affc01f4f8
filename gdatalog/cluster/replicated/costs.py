"""What the values of a join's next variable are expected to cost: where its space is cut.

How much there is below a value goes by how long its lists are. A later level that meets a list of
the value is taken to be so much longer for it than on average; two such levels tell enough, for
what is deeper is bounded by both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.plan.cells import cuttable
from gdatalog.plan.effects import participants
from gdatalog.plan.nodes import (
    Branch,
    Constant,
    Expr,
    Join,
    JoinPlan,
    Parameter,
    Participant,
    Seek,
    Step,
    TrieRef,
)
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import brought
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

COUNTED = 2  # levels that meet a list of the value, until it is no longer asked how long that is
ABSENT = 0.01  # what a value costs that not all lists have


@dataclass(frozen=True, slots=True)
class CostLevel:
    """The values that a variable may take, ascending, and what each is expected to cost."""

    variable: str
    values: Array
    costs: Array


def next_level(
    join: JoinPlan, tries: Mapping[TrieRef, Trie], fixed: Mapping[str, int], scope: Any
) -> CostLevel | None:
    """The level of the first variable that is not `fixed` to a key; None where there is none."""
    target = next((slot.name for slot in cuttable(join) if slot.name not in fixed), None)
    place = next(
        (at for at, s in enumerate(join.steps) if isinstance(s, Join) and s.variable == target),
        None,
    )
    if place is None:
        return None
    step = join.steps[place]
    assert isinstance(step, Join)
    lists = _Lists(join.tries, tries)
    for before in join.steps[:place]:
        lists.follow(before, _key_of(before, fixed, scope))
    values = lists.shortest(step.participants)
    costs = _costs(values, step, join.steps[place + 1 :], lists)
    return CostLevel(step.variable, values, costs)


def _key_of(step: Step, fixed: Mapping[str, int], scope: Any) -> int | None:
    """What a step binds, where that is one key which is known."""
    if isinstance(step, Join):
        return fixed[step.variable]
    if isinstance(step, Seek):
        return _constant(step.value, scope)
    return None


def _constant(expr: Expr, scope: Any) -> int | None:
    if isinstance(expr, Constant):
        return encode_value(expr.value, expr.type, scope.symbols)
    if isinstance(expr, Parameter):
        return encode_value(scope.params[expr.name], expr.type, scope.symbols)
    return None


class _Lists:
    """Where each trie of a join stands, as far as that is known before it runs."""

    def __init__(self, refs: Sequence[TrieRef], tries: Mapping[TrieRef, Trie]) -> None:
        self.levels = [tries[ref].levels for ref in refs]
        self.nodes: list[int | None] = [0 for _ in refs]
        self.known: dict[Hashable, tuple[Array, Array | None]] = {}

    def follow(self, step: Step, key: int | None) -> None:
        for part in participants(step):
            found = self.list_of(part)
            self.nodes[part.trie] = None
            if found is not None and key is not None:
                start, values = found
                at = bisect_left(values, key)
                here = at < len(values) and int(values[at]) == key
                # Behind all nodes there is one that has no children.
                self.nodes[part.trie] = start + at if here else -1

    def list_of(self, part: Participant) -> tuple[int, Array] | None:
        """Where a participant's list begins in its level, and its values."""
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

    def shortest(self, parts: Sequence[Participant]) -> Array:
        """The values of the shortest list; all of a level where no list is known."""
        known = [found[1] for part in parts if (found := self.list_of(part)) is not None]
        if known:
            return min(known, key=len)
        part = parts[0]
        return np.unique(brought(self.levels[part.trie][part.depth].values))

    def below(self, part: Participant, values: Array) -> tuple[Array, Array | None] | None:
        """Which of some values are in a participant's list, and how many values each leads to;
        None where the list is not known."""
        found = self.list_of(part)
        if found is None:
            return None
        start, own = found
        levels = self.levels[part.trie]
        below = levels[part.depth + 1] if part.depth + 1 < len(levels) else None
        name = id(levels[part.depth]), id(below), start
        if name not in self.known:  # else another atom has the same list
            self.known[name] = _below(start, own, values, below)
        return self.known[name]


def _below(
    start: int, own: Array, values: Array, level: TrieLevel | None
) -> tuple[Array, Array | None]:
    if len(own) == len(values) and np.array_equal(own, values):
        here = np.ones(len(values), dtype=np.bool_)
        if level is None:
            return here, None
        return here, np.diff(brought(level.offsets[start : start + len(own) + 1]))
    if len(own) == 0:
        return np.zeros(len(values), dtype=np.bool_), None
    at = np.searchsorted(own, values)
    at[at == len(own)] = 0
    here = own[at] == values
    if level is None:
        return here, None
    offsets = brought(level.offsets)
    return here, np.where(here, offsets[start + at + 1] - offsets[start + at], 0)


def _costs(values: Array, step: Join, later: Sequence[Step], lists: _Lists) -> Array:
    costs = np.ones(len(values))
    present = np.ones(len(values), dtype=np.bool_)
    counts: dict[int, Array] = {}  # by trie: how many values each value leads to there
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
            if not isinstance(inner, Join):
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


def _runs(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps that follow one another, and those of each branch."""
    yield list(steps)
    for step in steps:
        if isinstance(step, Branch):
            for inner in step.alternatives:
                yield from _runs(inner)
