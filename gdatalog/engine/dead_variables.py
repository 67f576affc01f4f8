"""A stratum with rules split where a variable dies, evaluated in place of the one it was."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.context import StratumInputs
from gdatalog.planner.checked import Stratum
from gdatalog.planner.dead_variables import SplitStratum, split_at_dead_variables
from gdatalog.records import replace
from gdatalog.storage.relation import Relation


def split_stratum(stratum: Stratum, inputs: StratumInputs) -> SplitStratum | None:
    """The stratum whose rules are split, the same one each time; None if that gains nothing."""
    way = inputs.context.knobs.dead_variables

    def make(relation: Callable[[str], Relation]) -> SplitStratum | None:
        return split_at_dead_variables(
            stratum, inputs.schemas, lambda name: relation(name).statistics, way
        )

    return inputs.plans.parted(stratum, way, inputs.relation, make)


def with_parts(parts: SplitStratum, inputs: StratumInputs) -> StratumInputs:
    """The same inputs, which know the relations of the parts."""
    return replace(inputs, schemas={**inputs.schemas, **parts.schemas})


def over(
    parts: SplitStratum | None, stratum: Stratum, inputs: StratumInputs
) -> tuple[Stratum, StratumInputs]:
    """A stratum with its rules split, and what it reads."""
    return (stratum, inputs) if parts is None else (parts.stratum, with_parts(parts, inputs))
