"""What the loops of a join are expected to do, where plans of different kinds are compared.

The search for an order compares orders of one body, by the values that it tries. Here a level that
intersects lists costs as much as its shorter list is long, for each binding that comes to it; of a
vertex that was reached by an edge, a list is as long as a size-biased mean says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan.nest import Paths, TrieNode, measurable, recoding
from gdatalog.plan.nodes import Branch, Generate, Join, JoinPlan, Seek, Step, Tally
from gdatalog.planner.order.sizes import Statistics

WORD = 64  # values that a bitset meets at once
SOUGHT = 3.0  # what it costs to look a value up in a list, beside one that is walked
PUSH = 1.5  # what it costs to add to a table of counts, beside a value that is looked at


def work_of(
    join: JoinPlan, sizes: Statistics, live: Collection[str] = (), bits: bool = True
) -> float:
    """Values that the loops look at; `live`: variables whose values are asked for; `bits`: whether
    branches read rows of bits."""
    return _Work(join, sizes, live, bits).of(join.steps, 1.0, True)


class _Work:
    def __init__(
        self, join: JoinPlan, sizes: Statistics, live: Collection[str], bits: bool
    ) -> None:
        self.live, self.bits = live, bits
        self.paths = Paths.of(join)
        self.sizes = sizes
        self.tables = {step.table for step in join.steps if isinstance(step, Tally)}

    def of(self, steps: Sequence[Step], rows: float, counts: bool) -> float:
        """For so many rows that come to the steps; `counts`: the last level need not be walked."""
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
        if step.reuse is not None and len(step.reuse.covers) == len(step.participants):
            return rows if counted else rows + step.estimate  # of a list that is there
        lists = [n for n in nodes if n.terms and n.trie.relation not in self.tables]
        if len(lists) < 2:
            weighs = any(node.trie.weighted for node in nodes)
            return rows if lists and counted and not weighs else rows + step.estimate
        if bits:  # a row of bits is as wide as the list within which all lie
            width = max(map(self._length, lists)) / WORD
            return rows * (1 + width) + (0.0 if counted else step.estimate)
        length = min(self._length(node) * _left(step, nodes[node]) for node in lists)
        return rows * (1 + length * (len(lists) - 1)) + (0.0 if counted else step.estimate)

    def _length(self, node: TrieNode) -> float:
        """How long a list is, where what leads to it was reached by the same relation."""
        ref = node.trie
        size = self.sizes(ref.relation, ref.version)
        columns = ref.columns[: node.depth]
        if len(columns) != 1:
            return max(1.0, size.rows / max(1, size.distinct(frozenset(columns))))
        tests = tuple((test.left, test.op, test.right) for test in ref.tests)
        powers = size.degrees(columns[0], tests, ref.ranked).powers
        return float(max(1.0, powers[2] / max(1.0, powers[1])))


def _left(step: Join, participant: int) -> float:
    """How much comparisons leave of a list."""
    whole = all((participant, cut) in step.implied for cut in range(len(step.cuts)))
    return 1.0 if whole else 0.5
