"""How a stratum is evaluated: once where nothing in it is recursive, else to a fixpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from gdatalog.engine.choose import TooSlow, impatience, spend
from gdatalog.engine.derived import Rows
from gdatalog.engine.dying import around_parts, parted_stratum, run_rounds
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
        found = by_rounds(splits) or splits.run()
        if found is not None:
            return found
        around.ledger.forget(splits.record)
    return run_rounds(stratum, seeds, around)


def by_rounds(splits: Splits, counts: bool = False) -> dict[str, Relation] | None:
    """A stratum that splits, by rounds if these are soon done, for they need no compilation.

    `counts`: else only how many rows there are is asked for.
    """
    around = splits.around
    ledger = around.ledger
    for seconds in splits.patience(counts):
        began = perf_counter()
        before = len(ledger.runs)
        rounds = Rounds(splits.stratum, splits.seeds, around)
        try:
            with impatience(around.limits, seconds, TooSlow):
                found = rounds.run()
        except TooSlow:
            ledger.forget(rounds.record, before)
            continue
        spend(splits.rules_key, perf_counter() - began)
        ledger.forget(splits.record)
        return found
    return None


def plan_stratum(
    stratum: Stratum, around: Surroundings
) -> tuple[list[tuple[CheckedRule, RulePlan]], tuple[str, ...]]:
    """The plans that evaluating a stratum would run, without running them.

    And what is worth a word of how its rules became those of the plans.
    """
    splits = Splits(stratum, {}, around).split is not None
    parts = None if splits else parted_stratum(stratum, around)
    if parts is not None:
        stratum, around = parts.stratum, around_parts(stratum, parts, around)
    run = StratumRun(stratum, {}, around)
    plans = [
        (rule, plan)
        for rule in stratum.rules
        for first in (True, False)
        if (plan := run.plan(rule, first=first)).joins
    ]
    return plans, () if parts is None else parts.told
