"""Where the search for an order can be, and what can be done from there."""

from __future__ import annotations

from typing import NamedTuple

from gdatalog.planner.order.cost import NONE, Made
from gdatalog.records import dataclass, field


@dataclass(slots=True)
class Order:
    """What the search has found: when each variable is bound, and what is expected then."""

    rank: dict[str, int] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)  # bindings after it
    work: float = 0.0  # values tried at all levels


class SearchState(NamedTuple):
    """Where the search is: what is known on the way, and what is still to be bound.

    `exists`: one match is enough. `made` are lists that a later level may refine. `due`: an
    aggregate that is to be computed next, if there is one.
    """

    path: int
    rest: int
    exists: bool
    made: Made = NONE
    due: int | None = None


class VariableChoice(NamedTuple):
    """The variable that is bound next, and what it takes to bind all that is left.

    `cost` and `work` (values tried) are for the rows that come; indexes are made once.
    """

    cost: float
    work: float
    indexes: float
    variable: int

    @property
    def total(self) -> float:
        return self.cost + self.indexes

    def better(self, other: VariableChoice) -> bool:
        """Whether it costs less, or as much and tries less; but for how sums are rounded."""
        if abs(self.total - other.total) > 1e-9 * other.total:
            return self.total < other.total
        return self.work < other.work * (1 - 1e-9)


@dataclass(slots=True)
class Extension:
    """What follows when a variable has been bound."""

    tried: float  # values, over all rows of the path
    after: float  # bindings with the variable
    rows: float  # of them that go on
    next: SearchState
    parts: list[tuple[SearchState, float]] = field(default_factory=list)  # branches, and their rows
    extra: float = 0.0  # what handing rows on costs
