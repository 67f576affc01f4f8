"""The state of an atom during planning."""

from __future__ import annotations

from gdatalog.plan.nodes import Participant, RowTest, Slot, TrieRef
from gdatalog.planner.comparisons import FLIPPED
from gdatalog.planner.items import AtomItem, Term
from gdatalog.planner.order.sizes import RelationStatistics
from gdatalog.records import dataclass, field


@dataclass(slots=True, eq=False)
class AtomState:
    """The state of an atom during planning: the columns bound so far are its trie's first
    levels."""

    item: AtomItem
    number: int  # the number of its trie in the plan
    columns: dict[str, int]  # the columns of the variables that are needed
    tests: tuple[RowTest, ...]
    weighted: bool
    rises: frozenset[tuple[int, int]]  # pairs of columns that ascend in every row
    size: RelationStatistics
    order: list[int] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)  # `order` as a set

    def take(self, column: int) -> Participant:
        """Binds a column, which becomes the next level of the trie."""
        self.order.append(column)
        self.taken.add(column)
        return Participant(self.number, len(self.order) - 1)

    def open(self, name: str) -> bool:
        """Whether a variable is in one of its columns and not bound yet."""
        column = self.columns.get(name)
        return column is not None and column not in self.taken

    def trie(self) -> TrieRef:
        item, order, tests = self.item, tuple(self.order), self.tests
        if order[:1] == (1,) and (item.ranked or self.size.symmetric):
            # The relation is symmetric: one trie serves both orders, under one name.
            order = tuple(1 - column for column in order)
            tests = tuple(RowTest(1 - test.left, test.op, 1 - test.right) for test in tests)
        tests = tuple(
            test if test.left <= test.right else RowTest(test.right, FLIPPED[test.op], test.left)
            for test in tests
        )
        return TrieRef(item.relation, item.version, order, tests, self.weighted, item.ranked)

    def prefix(self) -> tuple[Term, ...]:
        """The arguments of its columns without the last."""
        return tuple(self.item.args[column] for column in self.order[:-1])

    def ensures(self, name: str, op: str, other: str) -> bool:
        """Whether the trie holds only rows in which `name op other`."""
        places: dict[str, int] = {}
        for at, arg in enumerate(self.item.args):
            if isinstance(arg, Slot):
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
