"""An atom while its plan is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from gdatalog.plan.nodes import Participant, RowTest, TrieRef
from gdatalog.planner.items import AtomItem, Term


@dataclass(slots=True, eq=False)
class AtomState:
    """An atom while its plan is made: the columns bound so far are its trie's first levels."""

    item: AtomItem
    number: int  # of its trie in the plan
    columns: dict[str, int]  # of its variables, those that are still asked for
    tests: tuple[RowTest, ...]
    weighted: bool
    order: list[int] = field(default_factory=list)

    def take(self, column: int) -> Participant:
        """Binds a column: the next level of the trie."""
        self.order.append(column)
        return Participant(self.number, len(self.order) - 1)

    def open(self, name: str) -> bool:
        """Whether a variable is among its columns and not bound yet."""
        return name in self.columns and self.columns[name] not in self.order

    def trie(self) -> TrieRef:
        item = self.item
        return TrieRef(item.relation, item.version, tuple(self.order), self.tests, self.weighted)

    def prefix(self) -> tuple[Term, ...]:
        """What stands in its columns but the last."""
        return tuple(self.item.args[column] for column in self.order[:-1])
