"""Atoms during planning: their columns, bound and not; and plans for a single atom.

A single atom needs no search for its order. Columns compared with constants come first, then
columns with the fewest values, until these identify the rows. Further columns cost the same in
every order: columns of the answer follow in its order, then the others.
"""

from __future__ import annotations

from gdatalog.plan import join_plan as p
from gdatalog.planner import items as n
from gdatalog.planner.comparisons import FLIPPED
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field


@dataclass(slots=True, eq=False)
class AtomState:
    """The state of an atom during planning: the columns bound so far are its trie's first
    levels."""

    item: n.AtomItem
    number: int  # the number of its trie in the plan
    columns: dict[str, int]  # the columns of the variables that are needed
    tests: tuple[p.RowTest, ...]
    weighted: bool
    rises: frozenset[tuple[int, int]]  # pairs of columns that ascend in every row
    size: RelationStatistics
    order: list[int] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)  # `order` as a set

    def take(self, column: int) -> p.Participant:
        """Binds a column, which becomes the next level of the trie."""
        self.order.append(column)
        self.taken.add(column)
        return p.Participant(self.number, len(self.order) - 1)

    def open(self, name: str) -> bool:
        """Whether a variable is in one of its columns and not bound yet."""
        column = self.columns.get(name)
        return column is not None and column not in self.taken

    def trie(self) -> p.TrieRef:
        item, order, tests = self.item, tuple(self.order), self.tests
        if order[:1] == (1,) and (item.ranked or self.size.symmetric):
            # The relation is symmetric: one trie serves both orders, under one name.
            order = tuple([1 - column for column in order])
            tests = tuple([(1 - left, op, 1 - right) for left, op, right in tests])
        if tests:
            tests = tuple(
                (left, op, right) if left <= right else (right, FLIPPED[op], left)
                for left, op, right in tests
            )
        return p.TrieRef(item.relation, item.version, order, tests, self.weighted, item.ranked)

    def prefix(self) -> tuple[n.Term, ...]:
        """The arguments of its columns without the last."""
        return tuple([self.item.args[column] for column in self.order[:-1]])

    def ensures(self, name: str, op: str, other: str) -> bool:
        """Whether the trie holds only rows in which `name op other`."""
        places: dict[str, int] = {}
        for at, arg in enumerate(self.item.args):
            if isinstance(arg, p.Slot):
                places.setdefault(arg.name, at)
        if other not in places or name not in places:
            return False
        pair = (places[name], places[other])
        if op in (">", ">="):
            pair = pair[::-1]
        if pair in self.rises:
            return True
        wanted = (places[name], op, places[other])
        flipped = (places[other], FLIPPED[op], places[name])
        return wanted in self.tests or flipped in self.tests
