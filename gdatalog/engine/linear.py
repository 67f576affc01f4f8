"""A closure that is said twice over, evaluated by its linear rule (`planner/linear.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gdatalog.engine.derived import Rows
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.planner.checked import Stratum
from gdatalog.planner.linear import first_of, first_stratum, linear, made_linear
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """What is evaluated: a stratum, the rows it has without any rule, and what is around it."""

    stratum: Stratum
    seeds: Mapping[str, Sequence[Rows]]
    around: Surroundings


def linearised(fixpoint: Fixpoint) -> Fixpoint:
    """The same fixpoint by a linear rule, if there is one. What begins it is evaluated first."""
    stratum, around = fixpoint.stratum, fixpoint.around
    if around.knobs.split == "never":
        return fixpoint
    changed = _changed(stratum, around)
    if changed is None:
        return fixpoint
    (name,) = stratum.relations
    schema = first_of(around.schemas[name])
    first = StratumRun(first_stratum(stratum), fixpoint.seeds, around).once()[name]
    around.limits.charge(schema.name, around.limits.held.pop(name, 0))

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else around.relation(asked)

    schemas = {**around.schemas, schema.name: schema}
    return Fixpoint(changed, {}, replace(around, schemas=schemas, relation=relation))


def _changed(stratum: Stratum, around: Surroundings) -> Stratum | None:
    """The same stratum each time, so that its rules' plans are found again."""

    def make() -> Stratum | None:
        rule = made_linear(stratum)
        (name, *_) = stratum.relations
        return None if rule is None else linear(stratum, rule, around.schemas[name])

    return around.plans.rewritten("linear", stratum.rules, make)
