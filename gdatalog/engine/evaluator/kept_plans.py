"""The plans of strata that calls with other values of parameters share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from gdatalog.engine.compiler.plans import LIKE
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.counting import CountingPlan
from gdatalog.engine.derived import count_of
from gdatalog.engine.operators.placed import lasts
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_planner import PreparedPlan
from gdatalog.planner.check import Stratum
from gdatalog.planner.statistics import Looked
from gdatalog.records import cached_property, dataclass, field


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan that serves values of parameters with a selectivity like those that were `looked` at,
    made for these numbers of rows. `ready`: what its operators have prepared, for its next runs."""

    plan: StratumPlan
    rows: Sequence[int]
    looked: Sequence[Looked]
    ready: list[PreparedPlan] = field(default_factory=list)

    def suits(self, rows: Sequence[int]) -> bool:
        """Whether a stratum that reads so many rows may run by this plan."""
        pairs = zip(self.rows, rows, strict=True)
        return all(old <= LIKE * (new + 1) and new <= LIKE * (old + 1) for old, new in pairs)


class KeptPlans(dict[tuple[str, ...], KeptPlan]):
    """Plans by the relations of their strata. `reads`: the relations that a stratum reads."""

    @cached_property
    def counts(self) -> KeptPlans:
        """The plans of strata whose rows are only counted, and of those that read the counts."""
        return KeptPlans()

    def read_by(self, stratum: Stratum, readers: Collection[Stratum]) -> bool:
        """Whether there is a plan that counts a stratum's rows for these strata."""
        kept = self.get(stratum.relations)
        if kept is None or not isinstance(kept.plan, CountingPlan):
            return False
        return kept.plan.readers.keys() == {reader.relations for reader in readers}

    def found(
        self, stratum: Stratum, reads: Sequence[str], inputs: StratumInputs
    ) -> StratumPlan | None:
        """The plan of a stratum, if there is one that suits."""
        kept = self.get(stratum.relations)
        if kept is None or not kept.suits(_numbers(reads, inputs)):
            return None
        values = inputs.context.scope.params
        return kept.plan if inputs.plans.alike(kept.looked, inputs.relation, values) else None

    def keep(self, plan: StratumPlan, reads: Sequence[str], inputs: StratumInputs) -> None:
        """Keeps a plan, unless it scans: indexes that exist by then may be better."""
        rules = [rule for _, rule in plan.rules]
        if not any(join.scan for rule in rules for join in rule.joins):
            looked = inputs.plans.looked_at(rules)
            self[plan.relations] = KeptPlan(plan, _numbers(reads, inputs), looked)

    def ready(self, plan: StratumPlan) -> list[PreparedPlan] | None:
        """What earlier runs of a plan have prepared, if it is kept."""
        kept = self.get(plan.relations)
        return kept.ready if kept is not None and kept.plan is plan else None


Made = TypeVar("Made", bound=StratumPlan | None)


def planned(
    kept: KeptPlans | None,
    stratum: Stratum,
    reads: Sequence[str],
    inputs: StratumInputs,
    make: Callable[[], Made],
) -> StratumPlan | Made:
    """The plan of a stratum that is `kept`, if one suits; otherwise a new one, which is kept."""
    found = None if kept is None else kept.found(stratum, reads, inputs)
    if found is not None:
        return found
    plan = make()
    if kept is None or plan is None:
        return plan
    if plan.placed is None or lasts(plan.placed, inputs, reads):
        kept.keep(plan, reads, inputs)
    return plan


def _numbers(reads: Sequence[str], inputs: StratumInputs) -> list[int]:
    """How many rows a stratum has before its rules run, and reads of each other relation."""
    rows = [inputs.relation(name).at_most for name in reads]
    return rows + [sum(map(count_of, parts)) for parts in inputs.seeds.values()]
