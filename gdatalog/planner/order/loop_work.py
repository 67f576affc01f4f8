"""The work of a plan's loops, to compare plans of different kinds.

An intersection costs the length of its shorter list, for each binding. The length of the list of a
vertex that was reached by an edge is a size-biased mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan.join_plan import (
    Branch,
    Constant,
    Generate,
    Join,
    JoinPlan,
    Seek,
    Slot,
    Step,
    Tally,
)
from gdatalog.plan.nest import Paths, TrieNode, measurable, recoding
from gdatalog.planner.statistics import Statistics

WORD = 64  # values that one word of a bitset intersects
SOUGHT = 3.0  # cost of a lookup in a list, relative to a value walked
PUSH = 1.5  # cost of adding to a table of counts, relative to a value walked


def work_of(
    join: JoinPlan,
    sizes: Statistics,
    live: Collection[str] = (),
    bits: bool = True,
    word: float = 1.0,
) -> float:
    """The number of values that the loops process; `live`: variables whose values are needed;
    `bits`: whether branches read bitsets; `word`: cost of a word of these."""
    return _Work(join, sizes, live, bits, word).of(join.steps, 1.0, True)


class _Work:
    def __init__(
        self, join: JoinPlan, sizes: Statistics, live: Collection[str], bits: bool, word: float
    ) -> None:
        self.live, self.bits, self.word = live, bits, word
        self.paths = Paths.of(join)
        self.sizes = sizes
        self.bounds: dict[str, tuple[tuple[str, int], ...]] = {}  # of ranks, by variable
        self.tables = {step.table for step in join.steps if isinstance(step, Tally)}

    def of(self, steps: Sequence[Step], rows: float, counts: bool) -> float:
        """The work for `rows` rows; `counts`: the last level is counted without being walked."""
        total, recoded, bits = 0.0, set[int](), set[int]()
        for at, step in enumerate(steps):
            if isinstance(step, Branch):
                for inner in step.alternatives:
                    level = next((each for each in inner if id(each) in bits), None)
                    if isinstance(level, Join):
                        total += self._level(level, rows, True, True)
                    else:
                        total += self.of(inner, rows, True)
            elif isinstance(step, Tally):
                total += PUSH * self.of(step.steps, rows, False)
            elif isinstance(step, Join):
                if at not in recoded:
                    group = recoding(steps, self.paths, at)
                    if group is not None:
                        recoded.update(group.levels)
                        if self.bits:
                            bits.update(map(id, group.joins(steps, self.paths)))
                counted = counts and step.variable not in self.live and measurable(steps, at)
                total += self._level(step, rows, at in recoded, counted)
                rows = max(step.estimate, 1.0)
            elif isinstance(step, Seek):
                total += SOUGHT * rows * len(step.participants)
            elif isinstance(step, Generate):
                total += rows
        return total

    def _level(self, step: Join, rows: float, bits: bool, counted: bool) -> float:
        nodes = {self.paths.node(part): at for at, part in enumerate(step.participants)}
        if any(node.trie.ranked for node in nodes):
            self.bounds[step.variable] = tuple(
                [
                    (op, bound.value)
                    for op, bound in step.cuts
                    if isinstance(bound, Constant) and isinstance(bound.value, int)
                ]
            )
        if step.reuse is not None and len(step.reuse.covers) == len(step.participants):
            return rows if counted else rows + step.estimate  # a reused list
        lists = [n for n in nodes if n.terms and n.trie.relation not in self.tables]
        if len(lists) < 2:
            weighs = any(node.trie.weighted for node in nodes)
            return rows if lists and counted and not weighs else rows + step.estimate
        if bits:  # a row of bits is as wide as the recoded list
            width = max(map(self._length, lists)) / WORD
            return rows * (1 + width * self.word) + (0.0 if counted else step.estimate)
        length = min([self._length(node) * _left(step, nodes[node]) for node in lists])
        return rows * (1 + length * (len(lists) - 1)) + (0.0 if counted else step.estimate)

    def _length(self, node: TrieNode) -> float:
        """The expected length of a list at a value that was reached by the same relation."""
        ref = node.trie
        size = self.sizes(ref.relation, ref.version)
        columns = ref.columns[: node.depth]
        if len(columns) != 1:
            return max(1.0, size.rows / max(1, size.distinct(frozenset(columns))))
        parent = node.terms[-1]
        bounds = self.bounds.get(parent.name, ()) if isinstance(parent, Slot) else ()
        if bounds and size.graph is not None:
            return max(1.0, float(size.graph.list_length(columns[0], ref.tests, bounds)))
        powers = size.degrees(columns[0], ref.tests, ref.ranked).powers
        return float(max(1.0, powers[2] / max(1.0, powers[1])))


def _left(step: Join, participant: int) -> float:
    """The share of a list that comparisons leave."""
    whole = all((participant, cut) in step.implied for cut in range(len(step.cuts)))
    return 1.0 if whole else 0.5
