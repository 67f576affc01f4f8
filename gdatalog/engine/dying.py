"""A stratum with rules split where a variable dies, evaluated in place of the one it was."""

from __future__ import annotations

from collections.abc import Callable, Collection

from gdatalog.engine.choose import ROUNDS, TooSlow, allowing
from gdatalog.engine.derived import Seeds
from gdatalog.engine.device import CPU
from gdatalog.engine.marked_rounds import MarkedRounds
from gdatalog.engine.rounds import Rounds
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


def run_rounds(
    stratum: Stratum, seeds: Seeds, around: Surroundings, deep: bool = True
) -> dict[str, Relation]:
    """A recursive stratum by rounds, its rules split where that is expected to gain."""
    parts = parted_stratum(stratum, around)
    if parts is None:
        return _rounds(stratum, seeds, around, (), deep)
    inner = around_parts(stratum, parts, around)
    found = _rounds(parts.stratum, seeds, inner, parts.schemas, deep)
    for record in around.ledger.strata[-1:]:
        record.how = parts.told
    for name in parts.schemas:
        around.limits.charge(name, 0)
    return found


def _rounds(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    passing: Collection[str] = (),
    deep: bool = True,
) -> dict[str, Relation]:
    """By rounds, on a GPU with marks where these serve; nobody asks for relations that pass."""
    if around.device is not CPU:
        marked = MarkedRounds(stratum, seeds, around)
        if marked.small:  # what is soon done needs no compilation
            rounds, before = Rounds(stratum, seeds, around), len(around.ledger.runs)
            try:
                with allowing(around.limits, ROUNDS, TooSlow):
                    return rounds.run(passing)
            except TooSlow:
                around.ledger.forget(rounds.record, before)
        before = len(around.ledger.runs)
        found = marked.run(passing)
        if found is not None:
            return found
        around.ledger.forget(marked.record, before)
    return Rounds(stratum, seeds, around).run(passing, deep)


def around_parts(stratum: Stratum, parts: Parted, around: Surroundings) -> Surroundings:
    """The same surroundings, which know the relations of the parts."""
    return replace(around, schemas={**around.schemas, **parts.schemas})
