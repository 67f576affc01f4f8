"""How a stratum is evaluated: once where nothing in it is recursive, else to a fixpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.engine.derived import Rows
from gdatalog.engine.improving import improved
from gdatalog.engine.rounds import Rounds
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import CheckedRule, Stratum
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
    return improved(stratum, seeds, around) or Rounds(stratum, seeds, around).run()


def plan_stratum(stratum: Stratum, around: Surroundings) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans that evaluating a stratum would run, without running them."""
    run = StratumRun(stratum, {}, around)
    return [
        (rule, plan)
        for rule in stratum.rules
        for first in (True, False)
        if (plan := run.plan(rule, first=first)).joins
    ]
