"""`OnCodes`: dictionary codes replace sparse keys while an operator runs (`engine/encoding.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.encoding import Encoded, encode
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.again import Again
from gdatalog.errors import EvaluationError
from gdatalog.plan.conditions import CONDITIONS, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class OnCodes:
    """`columns` (relation.column) of lower relations are read as codes."""

    stratum: Stratum
    columns: tuple[str, ...]
    then: Operator

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.then,)

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return ()

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        text = f"dictionary codes stand for the keys of {', '.join(self.columns)}"
        return (text, *self.then.lines(whole))

    def prepare(self, context: ExecutionContext) -> Any:
        return self.then.prepare(context)

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        metrics = inputs.context.metrics
        encoded = encoding(self.stratum, inputs)
        assert encoded is not None
        began = len(metrics.strata)
        try:
            found = self.then.run(prepared, encoded.inputs, until)
        except EvaluationError:  # its message would show codes instead of values
            return Again(self.stratum, "codes").run(None, inputs, until)
        for record in metrics.strata[began:]:
            record.how = (self.lines()[0], *record.how)
        if isinstance(found, CONDITIONS):
            return found
        return {name: encoded.decoded(name, relation) for name, relation in found.items()}


def encoding(stratum: Stratum, inputs: StratumInputs) -> Encoded | None:
    """The stratum over codes, the same for planning and running."""
    key = OnCodes, inputs.context.device.name
    if key not in inputs.made:
        inputs.made[key] = encode(stratum, inputs)
    found: Encoded | None = inputs.made[key]
    return found
