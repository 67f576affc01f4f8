"""The ways of a fixpoint, and which one a recursive stratum takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gdatalog.engine.best import Best
from gdatalog.engine.choose import DEEP, ROUNDS, TooDeep, TooSlow, allowing, impatience
from gdatalog.engine.derived import Seeds
from gdatalog.engine.dying import around_parts, parted_stratum, run_rounds
from gdatalog.engine.encoding import encode
from gdatalog.engine.linear import Fixpoint, linear_of, linearised
from gdatalog.engine.one_worklist import one_worklist
from gdatalog.engine.rounds import Rounds
from gdatalog.engine.splits import Splits
from gdatalog.engine.spread import SpreadFixpoint
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.nodes import RulePlan
from gdatalog.planner.checked import CheckedRule, Stratum
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.improving import InPlace

Made = TypeVar("Made")


def run_recursive(stratum: Stratum, seeds: Seeds, around: Surroundings) -> dict[str, Relation]:
    """The relations of a recursive stratum; `seeds`: the rows that they have without any rule."""
    fixpoint = linearised(Fixpoint(stratum, seeds, around))
    splits = Splits(fixpoint.stratum, fixpoint.seeds, fixpoint.around)
    cluster = around.cluster
    if cluster is None:
        return _here(splits)
    seconds = cluster.patience(splits)
    found = tried(splits, seconds, lambda: _here(splits))
    return found or cluster.fixpoint(splits) or _here(splits)


def _here(splits: Splits) -> dict[str, Relation]:
    """A recursive stratum on this machine."""
    stratum, seeds, around = splits.stratum, splits.seeds, splits.around
    before = len(around.ledger.runs)
    if splits.split is not None:
        found = by_rounds(splits) or splits.run()
        if found is not None:
            return found
        around.ledger.forget(splits.record, before)
    best = _in_place(splits)
    if best is not None:
        found = by_rounds(best) or best.run()
        if found is not None:
            return found
        around.ledger.forget(best.record, before)
    return _to_depth(stratum, seeds, around)


def _to_depth(stratum: Stratum, seeds: Seeds, around: Surroundings) -> dict[str, Relation]:
    """By rounds, or by one worklist where these are many and small."""
    worklist = one_worklist(stratum, seeds, around)
    if worklist is None:
        return run_rounds(stratum, seeds, around)
    ledger = around.ledger
    told = len(ledger.runs), len(ledger.strata)
    try:
        if not worklist.forced:
            with around.limits.account.restoring(TooDeep):
                return run_rounds(stratum, seeds, around, deep=False)
    except TooDeep:
        del ledger.runs[told[0] :], ledger.strata[told[1] :]
    found = None if worklist.split is None else worklist.run()
    if found is not None:
        return found
    del ledger.runs[told[0] :], ledger.strata[told[1] :]
    return run_rounds(stratum, seeds, around)


def _in_place(splits: StratumRun) -> InPlace | None:
    """How a stratum of best values is improved in place, if it is one."""
    if not any(isinstance(table, Best) for table in splits.tables.values()):
        return None
    from gdatalog.engine.improving import InPlace

    best = InPlace(splits.stratum, splits.seeds, splits.around)
    return best if best.refusal is None else None


def tried(splits: Splits, seconds: float, way: Callable[[], Made]) -> Made | None:
    """What a way gives if it has come to its end in time, and within memory; what it has told a
    profile by then is forgotten."""
    if not seconds:
        return None
    limits, ledger = splits.around.limits, splits.around.ledger
    told = len(ledger.runs), len(ledger.strata)
    try:
        with (
            limits.account.restoring(TooSlow, MemoryLimitError),
            impatience(limits, seconds),
        ):
            return way()
    except (TooSlow, MemoryLimitError):
        del ledger.runs[told[0] :], ledger.strata[told[1] :]
        splits.__dict__.pop("record", None)
        return None


def by_rounds(way: Splits | InPlace) -> dict[str, Relation] | None:
    """A stratum that has a compiled way, by rounds if these are soon done, uncompiled."""
    around = way.around
    ledger = around.ledger
    if not way.small:
        return None
    before = len(ledger.runs)
    rounds = Rounds(way.stratum, way.seeds, around)
    try:
        with (
            around.limits.account.restoring(TooSlow, MemoryLimitError),
            allowing(around.limits, ROUNDS, TooSlow),
        ):
            found = rounds.run()
    except (TooSlow, MemoryLimitError):  # the other way needs less memory
        ledger.forget(rounds.record, before)
        return None
    ledger.forget(way.record)
    return found


def plan_stratum(
    stratum: Stratum, around: Surroundings
) -> tuple[list[tuple[CheckedRule, RulePlan]], tuple[str, ...], SpreadFixpoint | None]:
    """The plans that evaluating a stratum would run, without running them.

    And what is worth a word of how its rules became those of the plans, and how a cluster would
    do it, if it is recursive.
    """
    told: list[str] = []
    encoded = encode(stratum, {}, around)
    if encoded is not None:
        told += encoded.told()
        stratum, around = encoded.stratum, encoded.around
    plans: list[tuple[CheckedRule, RulePlan]] = []
    linear = linear_of(stratum, around) if stratum.recursive else None
    if linear is not None:
        (name,) = stratum.relations
        told.append(f"{name} is made linear: {name}~first is what it has without recursion")
        plans = _plans(StratumRun(linear.first, {}, around))
        fixpoint = linearised(Fixpoint(stratum, {}, around))
        stratum, around = fixpoint.stratum, fixpoint.around
    splits = Splits(stratum, {}, around)
    spread = None
    if stratum.recursive and around.cluster is not None:
        spread = around.cluster.foreseen_fixpoint(splits)
    if splits.split is not None:
        told.append(f"a fixpoint for each {splits.split_by()}")
        return [*plans, *_plans(splits)], tuple(told), spread
    if stratum.recursive and _in_place(splits) is not None:
        told.append("best values are improved in place")
    elif stratum.recursive and one_worklist(stratum, {}, around) is not None:
        told.append(f"by one worklist if {DEEP} rounds have made few rows")
    parts = parted_stratum(stratum, around)
    if parts is not None:
        stratum, around = parts.stratum, around_parts(stratum, parts, around)
        told += parts.told
    return [*plans, *_plans(StratumRun(stratum, {}, around))], tuple(told), spread


def _plans(run: StratumRun) -> list[tuple[CheckedRule, RulePlan]]:
    return [
        (rule, plan)
        for rule in run.stratum.rules
        for first in ((True, False) if run.recursive(rule) else (True,))
        if (plan := run.plan(rule, first=first)).joins
    ]
