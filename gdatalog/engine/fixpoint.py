"""How a stratum is evaluated: once where nothing in it is recursive, else to a fixpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gdatalog.engine.derived import Rows
from gdatalog.engine.rounds import Rounds
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import CheckedRule, Stratum
from gdatalog.planner.dying import Split, split
from gdatalog.storage.relation import Relation


def run_stratum(
    stratum: Stratum,
    seeds: Mapping[str, Sequence[Rows]],
    around: Surroundings,
    limit: int | None = None,
) -> dict[str, Relation]:
    """The stratum's relations; at most `limit` rows of the one there is, if given.

    `seeds`: the rows that they have without any rule.
    """
    if not stratum.recursive:
        return StratumRun(stratum, seeds, around).once(limit)
    parts = split_where_dying(stratum, around)
    if parts is None:
        return Rounds(stratum, seeds, around).run()
    found = Rounds(parts.stratum, seeds, around_split(stratum, parts, around)).run()
    for name in parts.schemas:
        around.limits.charge(name, 0)
    return {name: found[name] for name in stratum.relations}


def split_where_dying(stratum: Stratum, around: Surroundings) -> Split | None:
    """The stratum with rules split where a variable dies, if that is expected to gain."""

    def make(relation: Callable[[str], Relation]) -> Split | None:
        return split(
            stratum, around.schemas, lambda name: relation(name).statistics, around.knobs.dying
        )

    return around.plans.split(stratum, around.knobs.dying, around.relation, make)


def around_split(stratum: Stratum, parts: Split, around: Surroundings) -> Surroundings:
    """The same surroundings, which know the relations of the parts; who listens does not."""
    return replace(
        around,
        schemas={**around.schemas, **parts.schemas},
        on_round=lambda _, round_: around.on_round(stratum, round_),
    )


def plan_stratum(
    stratum: Stratum, around: Surroundings
) -> tuple[list[tuple[CheckedRule, RulePlan]], tuple[str, ...]]:
    """The plans that evaluating a stratum would run, without running them.

    And what is worth a word of how its rules became those of the plans.
    """
    parts = split_where_dying(stratum, around)
    if parts is not None:
        stratum, around = parts.stratum, around_split(stratum, parts, around)
    run = StratumRun(stratum, {}, around)
    plans = [
        (rule, plan)
        for rule in stratum.rules
        for first in (True, False)
        if (plan := run.plan(rule, first=first)).joins
    ]
    return plans, () if parts is None else parts.told
