"""Strata evaluated as other strata: split at dead variables, or linearised."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.fixpoint.stratum import StratumRun
from gdatalog.planner.check.checked import Stratum
from gdatalog.planner.rewrite.dead_variables import SplitStratum, split_at_dead_variables
from gdatalog.planner.rewrite.linear import LinearStratum, first_of, made_linear
from gdatalog.records import replace
from gdatalog.storage.relation import Relation


def split_stratum(stratum: Stratum, inputs: StratumInputs) -> SplitStratum | None:
    """The stratum with split rules, cached; None if splitting gains nothing."""
    way = inputs.context.knobs.dead_variables

    def make(relation: Callable[[str], Relation]) -> SplitStratum | None:
        return split_at_dead_variables(
            stratum, inputs.schemas, lambda name: relation(name).statistics, way
        )

    return inputs.plans.parted(stratum, way, inputs.relation, make)


def with_parts(parts: SplitStratum, inputs: StratumInputs) -> StratumInputs:
    """The same inputs, with the relations of the parts."""
    return replace(inputs, schemas={**inputs.schemas, **parts.schemas})


def over(
    parts: SplitStratum | None, stratum: Stratum, inputs: StratumInputs
) -> tuple[Stratum, StratumInputs]:
    """A stratum with split rules, and its inputs."""
    return (stratum, inputs) if parts is None else (parts.stratum, with_parts(parts, inputs))


# A closure by a quadratic rule, evaluated by its linear rule (`planner/rewrite/linear.py`).


def linearised(linear: LinearStratum, inputs: StratumInputs) -> StratumInputs:
    """The inputs of the linear rule. The rows that it starts from are evaluated first."""
    ((name, first),) = StratumRun(linear.first, inputs).once().items()
    schema = first_of(inputs.schemas[name])
    inputs.context.limits.account.rename(name, schema.name)

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else inputs.relation(asked)

    schemas = {**inputs.schemas, schema.name: schema}
    return replace(inputs, schemas=schemas, relation=relation, seeds={})


def linear_of(stratum: Stratum, inputs: StratumInputs) -> LinearStratum | None:
    """The strata that replace a closure, cached together with their plans."""
    never = inputs.context.knobs.split == "never"
    if never or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = inputs.schemas[name]
    return inputs.plans.rewritten("linear", stratum.rules, lambda: made_linear(stratum, schema))
