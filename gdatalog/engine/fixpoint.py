"""How a stratum is evaluated: once where nothing in it is recursive, else to a fixpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from gdatalog.engine.choose import Impatient, impatience, spend
from gdatalog.engine.derived import Rows
from gdatalog.engine.rounds import Rounds
from gdatalog.engine.splits import Splits
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
    splits = Splits(stratum, seeds, around)
    if splits.split is not None:
        found = _by_splits(splits)
        if found is not None:
            return found
    return Rounds(stratum, seeds, around).run()


def _by_splits(splits: Splits) -> dict[str, Relation] | None:
    """A stratum that splits: by rounds if these are soon done, for they need no compilation."""
    around = splits.around
    told = len(around.reports or ())
    for seconds in splits.patience():
        began = perf_counter()
        try:
            with impatience(around.limits, seconds):
                found = Rounds(splits.stratum, splits.seeds, around).run()
        except Impatient:
            if around.reports is not None:
                del around.reports[told:]
            continue
        spend(splits.rules_key, perf_counter() - began)
        return found
    return splits.run()


def plan_stratum(stratum: Stratum, around: Surroundings) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans that evaluating a stratum would run, without running them."""
    run = StratumRun(stratum, {}, around)
    return [
        (rule, plan)
        for rule in stratum.rules
        for first in (True, False)
        if (plan := run.plan(rule, first=first)).joins
    ]
