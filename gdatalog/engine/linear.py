"""A closure that is said twice over, evaluated by its linear rule (`planner/linear.py`)."""

from __future__ import annotations

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Seeds
from gdatalog.engine.stratum import StratumRun
from gdatalog.planner.checked import Stratum
from gdatalog.planner.linear import Linear, first_of, made_linear
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """What is evaluated: a stratum, the rows it has without any rule, and what it reads."""

    stratum: Stratum
    seeds: Seeds
    inputs: StratumInputs


def linearised(fixpoint: Fixpoint) -> Fixpoint:
    """The same fixpoint by a linear rule, if there is one. What begins it is evaluated first."""
    stratum, inputs = fixpoint.stratum, fixpoint.inputs
    changed = linear_of(stratum, inputs)
    if changed is None:
        return fixpoint
    (name,) = stratum.relations
    schema = first_of(inputs.schemas[name])
    first = StratumRun(changed.first, fixpoint.seeds, inputs).once()[name]
    inputs.context.limits.account.rename(name, schema.name)

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else inputs.relation(asked)

    schemas = {**inputs.schemas, schema.name: schema}
    return Fixpoint(changed.later, {}, replace(inputs, schemas=schemas, relation=relation))


def linear_of(stratum: Stratum, inputs: StratumInputs) -> Linear | None:
    """The strata that stand for a closure, the same ones each time, so that their plans are."""
    never = inputs.context.knobs.split == "never"
    if never or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = inputs.schemas[name]
    return inputs.plans.rewritten("linear", stratum.rules, lambda: made_linear(stratum, schema))
