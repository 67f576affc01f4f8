"""What plans are made from, and a bound on what planning may try."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from gdatalog.plan.join_plan import Expr
from gdatalog.planner.observed import Observed
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.statistics import Looked, Statistics, known_value
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds
from gdatalog.values import Value


class OutOfSteps(Exception):
    """The steps are used up: what was found so far has to do."""


@dataclass(slots=True)
class Steps:
    """The steps that are left: not seconds, so that the same program gets the same plan each time.
    One is about a literal that is looked at, 1 or 2 microseconds."""

    left: float = inf

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise OutOfSteps


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What plans are made from.

    `orders`: variable orders found before. `values`: those of parameters. `looked`: the
    selectivities that depend on these, which planning adds. `notes`: what the passes make of a
    rule, if somebody wants to see it. `steps`: those of a rewriting. `observed`: notes what is
    looked at, if the plan is to be stored.
    """

    sizes: Statistics
    orders: Orders = field(default_factory=Orders)
    thresholds: Thresholds = Thresholds()
    values: Mapping[str, Value] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    notes: PassNotes | None = None
    steps: Steps = field(default_factory=Steps, compare=False)
    observed: Observed | None = field(default=None, compare=False)

    def value(self, bound: Expr) -> Value | None:
        """The value of a constant or a parameter, if it is known."""
        return known_value(bound, self.values)
