"""A closure that is said twice over, evaluated by its linear rule (`planner/linear.py`)."""

from __future__ import annotations

from gdatalog.engine.derived import Seeds
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.planner.checked import Stratum
from gdatalog.planner.linear import Linear, first_of, made_linear
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """What is evaluated: a stratum, the rows it has without any rule, and what is around it."""

    stratum: Stratum
    seeds: Seeds
    around: Surroundings


def linearised(fixpoint: Fixpoint) -> Fixpoint:
    """The same fixpoint by a linear rule, if there is one. What begins it is evaluated first."""
    stratum, around = fixpoint.stratum, fixpoint.around
    changed = linear_of(stratum, around)
    if changed is None:
        return fixpoint
    (name,) = stratum.relations
    schema = first_of(around.schemas[name])
    first = StratumRun(changed.first, fixpoint.seeds, around).once()[name]
    around.limits.account.rename(name, schema.name)

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else around.relation(asked)

    schemas = {**around.schemas, schema.name: schema}
    return Fixpoint(changed.later, {}, replace(around, schemas=schemas, relation=relation))


def linear_of(stratum: Stratum, around: Surroundings) -> Linear | None:
    """The strata that stand for a closure, the same ones each time, so that their plans are."""
    if around.knobs.split == "never" or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = around.schemas[name]
    return around.plans.rewritten("linear", stratum.rules, lambda: made_linear(stratum, schema))
