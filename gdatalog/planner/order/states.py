"""The states and transitions of the search for an order, and its result."""

from __future__ import annotations

from typing import NamedTuple

from gdatalog.planner.order.cost import NONE, LevelCost, Made
from gdatalog.records import dataclass, field


@dataclass(slots=True)
class Order:
    """The result of the search: ranks of variables, and estimates."""

    rank: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)  # bindings after each variable
    work: float = 0.0  # values tried, at all levels


class SearchState(NamedTuple):
    """A state of the search: the known variables, and those still to be bound.

    `exists`: one match is enough. `made`: intersections that later levels can reuse. `due`: an
    aggregate that must be computed next.
    """

    path: int
    rest: int
    exists: bool
    made: Made = NONE
    due: int | None = None


class VariableChoice(NamedTuple):
    """The variable to bind next, and the cost of binding all remaining ones.

    `cost` and `work` (values tried) are for the rows that arrive; indexes are built once.
    """

    cost: float
    work: float
    indexes: float
    variable: int

    @property
    def total(self) -> float:
        return self.cost + self.indexes

    def plus(self, later: VariableChoice, share: float) -> VariableChoice:
        """The same with the cost of binding later ones, to which a share of the rows comes."""
        cost, work = self.cost + later.cost * share, self.work + later.work * share
        return VariableChoice(cost, work, self.indexes + later.indexes, self.variable)

    def better(self, other: VariableChoice) -> bool:
        """Whether it costs less, or the same with fewer values tried; tolerant of rounding."""
        total, its = self.cost + self.indexes, other.cost + other.indexes
        if abs(total - its) > 1e-9 * its:
            return total < its
        return self.work < other.work * (1 - 1e-9)


NOTHING = VariableChoice(0.0, 0.0, 0.0, -1)


@dataclass(slots=True)
class Extension:
    """The state and the costs after binding a variable."""

    level: LevelCost
    before: float  # bindings of the path
    tried: float  # values tried, over all rows of the path
    after: float  # bindings with the variable
    rows: float  # bindings that continue
    next: SearchState
    parts: list[tuple[SearchState, float]] = field(default_factory=list)  # branches, their rows
    extra: float = 0.0  # the cost of passing rows on
