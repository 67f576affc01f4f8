"""`OnCodes`: dictionary codes replace sparse keys while an operator runs (`engine/encoding.py`)."""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.encoding import Encoded, encode
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.wrapping import Wrapping
from gdatalog.errors import EvaluationError
from gdatalog.plan.conditions import CONDITIONS, When
from gdatalog.planner.check import Stratum
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class OnCodes(Wrapping):
    """`columns` (relation.column) of lower relations are read as codes."""

    stratum: Stratum
    columns: tuple[str, ...]
    then: Operator

    def __str__(self) -> str:
        return f"dictionary codes stand for the keys of {', '.join(self.columns)}"

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        encoded = encoding(self.stratum, inputs)
        assert encoded is not None
        try:
            found = self.run_then(prepared, encoded.inputs, until)
        except EvaluationError:  # its message would show codes instead of values
            return Again(self.stratum, "codes").run(None, inputs, until)
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
