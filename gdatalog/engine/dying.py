"""A stratum with rules split where a variable dies, evaluated in place of the one it was."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.surroundings import Surroundings
from gdatalog.planner.checked import Stratum
from gdatalog.planner.dying import Parted, parted
from gdatalog.records import replace
from gdatalog.storage.relation import Relation


def parted_stratum(stratum: Stratum, around: Surroundings) -> Parted | None:
    """The stratum whose rules are split, the same one each time; None if that gains nothing."""
    way = around.knobs.dying

    def make(relation: Callable[[str], Relation]) -> Parted | None:
        return parted(stratum, around.schemas, lambda name: relation(name).statistics, way)

    return around.plans.parted(stratum, way, around.relation, make)


def around_parts(stratum: Stratum, parts: Parted, around: Surroundings) -> Surroundings:
    """The same surroundings, which know the relations of the parts."""
    return replace(around, schemas={**around.schemas, **parts.schemas})
