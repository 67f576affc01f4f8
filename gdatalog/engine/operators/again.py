"""`Again`: a stratum that is planned when it runs, because another operator did not suit it."""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.facts.unions import settled
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.plan.conditions import CONDITIONS, When
from gdatalog.planner.check import Stratum
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Again(LeafOperator):
    """Plans the stratum without the operator that `excluded` names."""

    stratum: Stratum
    excluded: str

    def __str__(self) -> str:
        return "planned anew, and evaluated with all rows"

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        """The relations. Those that were known stay the same objects if their rows do."""
        assert inputs.replan is not None
        operator, whole = inputs.replan(self.stratum, self.excluded)
        found = operator.run(operator.prepare(whole.context), whole, until)
        if inputs.since is None or isinstance(found, CONDITIONS):
            return found
        known = inputs.since.known
        return {name: settled(known[name], now) for name, now in found.items()}
