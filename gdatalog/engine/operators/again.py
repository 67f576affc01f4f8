"""`Again`: a stratum that is planned when it runs, because another operator did not suit it."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.engine.programs.remembered import settled
from gdatalog.plan import RulePlan
from gdatalog.plan.tuning import CONDITIONS, When
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Again:
    """Plans the stratum without the operator that `excluded` names."""

    stratum: Stratum
    excluded: str

    def __str__(self) -> str:
        return "planned anew, and evaluated with all rows"

    @property
    def parts(self) -> tuple[Operator, ...]:
        return ()

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return (str(self),)

    def run(self, inputs: StratumInputs, until: tuple[When, ...] = ()) -> Relations | When:
        """The relations. Those that were known stay the same objects if their rows do."""
        assert inputs.replan is not None
        operator, whole = inputs.replan(self.stratum, self.excluded)
        found = operator.run(whole, until)
        if inputs.since is None or isinstance(found, CONDITIONS):
            return found
        known = inputs.since.known
        return {name: settled(known[name], now) for name, now in found.items()}
