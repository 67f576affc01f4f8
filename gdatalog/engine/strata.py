"""Plans a stratum, and runs the plan.

`plan_stratum` decides by the rules, sizes, forced settings and the device. The plan runs as it is:
its strategy, and when a condition of its fallback is met, the next one. Modules of recursive
strategies are imported only for recursive strata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from gdatalog.account import default_limit
from gdatalog.engine.choose import FallbackMet, allowing
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.facts.encoding import Encoded, encode
from gdatalog.engine.fixpoint.stratum import StratumRun
from gdatalog.engine.session.folding import copied, copy_of
from gdatalog.engine.session.remembered import settled
from gdatalog.errors import EvaluationError, MemoryLimitError
from gdatalog.plan.conditions import CONDITIONS, Bytes, Grown, TooManyRows, Unsuited, When
from gdatalog.plan.nodes import RulePlan
from gdatalog.plan.placement import Local
from gdatalog.plan.stratum import (
    Again,
    Copy,
    DictionaryCodes,
    Fallback,
    Incremental,
    Once,
    OnTheHost,
    Strategy,
    StratumPlan,
)
from gdatalog.planner.check.checked import CheckedRule, Stratum
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation

Relations = Mapping[str, Relation]


@dataclass(frozen=True, slots=True)
class Since:
    """A stratum's old relations, the rows that were added to others since, and the rules that were
    added. Its own new rows are the `seeds` of its inputs."""

    known: Relations
    rows: Relations
    rules: tuple[CheckedRule, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """A planned stratum that is ready to run.

    `stratum` and `inputs` have the plan's rewrites applied. `rules` are those of the plan's
    `before` and `rules`, in this order. `limit`: at most this many rows are needed. `encoded`: the
    dictionaries of the codes that it runs on. `since`: its old relations and what was added. `run`:
    what planned it, if that can run it. `anew` plans it without either. `smaller` plans it with
    less memory on the device, or for the CPU, in case it does not fit the device.
    """

    plan: StratumPlan
    stratum: Stratum
    inputs: StratumInputs
    rules: tuple[CheckedRule, ...]
    limit: int | None = None
    encoded: Encoded | None = None
    since: Since | None = None
    run: StratumRun | None = None
    anew: Callable[[], Ready] | None = None
    smaller: Callable[[], Ready] | None = None

    @property
    def planned(self) -> list[tuple[CheckedRule, RulePlan]]:
        """Each rule with its plans."""
        return list(zip(self.rules, (*self.plan.before, *self.plan.rules), strict=True))


# --------------------------------------------------------------------------------- planning


def plan_stratum(
    stratum: Stratum,
    inputs: StratumInputs,
    limit: int | None = None,
    counted: bool = False,
) -> Ready:
    """Plans a stratum.

    `limit`: at most this many rows of its one relation are needed. `counted`: if it is partitioned,
    only the number of rows of each value is needed.
    """
    context = inputs.context
    copy = None if limit is not None or any(inputs.seeds.values()) else copy_of(stratum)
    if copy is not None:
        plan = StratumPlan(stratum.relations, False, copy, placement=Local(context.device.name))
        return Ready(plan, stratum, inputs, ())
    encoded = None if limit is not None else encode(stratum, inputs)
    if encoded is not None:
        coded = _planned(encoded.stratum, encoded.inputs, None, counted)
        rewrites = (DictionaryCodes(encoded.names()), *coded.plan.rewrites)
        no_codes = replace(context, knobs=replace(context.knobs, encode="never"))
        return replace(
            coded,
            plan=replace(coded.plan, rewrites=rewrites),
            encoded=encoded,
            anew=partial(plan_stratum, stratum, replace(inputs, context=no_codes), None, counted),
        )
    return _planned(stratum, inputs, limit, counted)


def _planned(stratum: Stratum, inputs: StratumInputs, limit: int | None, counted: bool) -> Ready:
    if stratum.recursive:
        from gdatalog.engine.fixpoint.strategies import plan_recursive

        return plan_recursive(stratum, inputs, counted)
    run = StratumRun(stratum, inputs)
    planned = rule_plans(run)
    plans, here = tuple(plan for _, plan in planned), Local(inputs.context.device.name)
    plan = StratumPlan(stratum.relations, False, Once(), plans, placement=here)
    return Ready(plan, stratum, inputs, tuple(rule for rule, _ in planned), limit, run=run)


def plan_incremental(
    stratum: Stratum, inputs: StratumInputs, since: Since, anew: Callable[[], Ready]
) -> Ready:
    """Plans the incremental maintenance of a stratum. `anew` plans it with all rows."""
    grown = Grown(inputs.context.tuning.news_derived_most)
    strategy = Incremental(tuple(sorted(since.rows)), Fallback((grown,), Again()))
    here = Local(inputs.context.device.name)
    plan = StratumPlan(stratum.relations, stratum.recursive, strategy, placement=here)
    return Ready(plan, stratum, inputs, (), since=since, anew=anew)


def rule_plans(run: StratumRun) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans of a stratum's rules: for all rows and, if recursive, for new ones."""
    return [
        (rule, plan)
        for rule in run.stratum.rules
        for first in ((True, False) if run.recursive(rule) else (True,))
        if (plan := run.plan(rule, first=first)).joins
    ]


# ---------------------------------------------------------------------------------- running


def run_stratum(stratum: Stratum, inputs: StratumInputs, limit: int | None = None) -> Relations:
    """The stratum's relations; at most `limit` rows of the only one, if given."""
    return run(plan_stratum(stratum, inputs, limit))


def run(ready: Ready) -> Relations:
    """Runs a planned stratum; returns its relations, or their sizes if it only counts."""
    if ready.encoded is None:
        return _run(ready)
    try:
        found = _run(ready)
    except EvaluationError:  # its message would show codes instead of values
        assert ready.anew is not None
        return run(ready.anew())
    return ready.encoded.decoded(found)


def _run(ready: Ready) -> Relations:
    if isinstance(ready.plan.placement, Local) or ready.plan.placement.refusal is not None:
        return run_here(ready)
    from gdatalog.engine.fixpoint.strategies import run_on_workers

    return run_on_workers(ready, ready.plan.placement)


def run_here(ready: Ready) -> Relations:
    """Runs a stratum; with less memory, or on the CPU, if it turns out not to fit the device."""
    context = ready.inputs.context
    metrics, account = context.metrics, context.limits.account
    while ready.smaller is not None:
        runs, strata = len(metrics.runs), len(metrics.strata)
        try:
            with account.restoring(MemoryError):
                return _by_strategies(ready)
        except MemoryError:
            del metrics.runs[runs:], metrics.strata[strata:]
        # After the handler, because the error references device memory.
        context.device.make_room(context.limits)
        ready = ready.smaller()
    if not any(isinstance(rewrite, OnTheHost) for rewrite in ready.plan.rewrites):
        return _by_strategies(ready)
    with account.other_limit(default_limit()):  # the limit was the device's
        return _by_strategies(ready)


def _by_strategies(ready: Ready) -> Relations:
    """Runs the strategies in order until one meets no condition of its fallback.

    A profile shows only that one, and the conditions that the others met.
    """
    metrics, plan = ready.inputs.context.metrics, ready.plan
    began, runs = len(metrics.strata), len(metrics.runs)
    left = next((one.reason for one in plan.rewrites if isinstance(one, OnTheHost)), None)
    how = [str(rewrite) for rewrite in plan.rewrites]
    for strategy in plan.strategies:
        runner = partial(_runner(strategy), strategy, ready)
        when = () if strategy.fallback is None else strategy.fallback.when
        found = attempt(runner, when, ready.inputs.context)
        if not isinstance(found, CONDITIONS):
            for record in metrics.strata[began:]:
                record.how = (*how, *record.how, *getattr(strategy, "projections", ()))
            for run in metrics.runs[runs:]:
                run.left = run.left or left
            return found
        how.append(f"given up {found}: {strategy}")
    raise AssertionError("the last strategy has no fallback")


def attempt(
    run: Callable[[], Relations | None], until: tuple[When, ...], context: ExecutionContext
) -> Relations | When:
    """Returns the result of `run`, or the first of these conditions that it meets: then its memory
    charges and profile records are undone. Returns None if the strategy does not apply."""
    limits, metrics = context.limits, context.metrics
    runs, strata = len(metrics.runs), len(metrics.strata)
    rows = next((each for each in until if isinstance(each, TooManyRows)), None)
    nbytes = next((each for each in until if isinstance(each, Bytes)), None)
    errors = (FallbackMet,) if nbytes is None else (FallbackMet, MemoryLimitError)
    met: When = Unsuited()
    try:
        with (
            limits.account.restoring(*errors),
            nullcontext() if rows is None else allowing(limits, rows.most, FallbackMet(rows)),
        ):
            found = run()
            if found is not None:
                return found
    except FallbackMet as error:
        met = error.when
        if met not in until:  # the condition of an outer strategy
            raise
    except MemoryLimitError:
        if nbytes is None:
            raise
        met = nbytes
    assert met in until
    del metrics.runs[runs:], metrics.strata[strata:]
    return met


def _runner(strategy: Strategy) -> Callable[[Any, Ready], Relations | None]:
    """The function that runs a strategy, by its class."""
    if isinstance(strategy, Once):
        return _once
    if isinstance(strategy, Copy):
        return _copy
    if isinstance(strategy, Incremental):
        return _incremental
    if isinstance(strategy, Again):
        return _again
    from gdatalog.engine.fixpoint.strategies import RUNNERS

    return RUNNERS[type(strategy)]


def _copy(strategy: Copy, ready: Ready) -> Relations | None:
    inputs, (rule,) = ready.inputs, ready.stratum.rules
    name = rule.head.name
    source = inputs.relation(strategy.relation)
    found = copied(strategy, rule, inputs.schemas[name], source, inputs.context.scope)
    return None if found is None else {name: found}


def _incremental(strategy: Incremental, ready: Ready) -> Relations:
    from gdatalog.engine.fixpoint.maintenance import Maintenance

    assert ready.since is not None and strategy.fallback is not None
    going_on = Maintenance(ready.stratum, ready.inputs, ready.since.known, ready.since.rows)
    return going_on.follow(ready.since.rules, strategy.fallback.when)


def _again(_: Again, ready: Ready) -> Relations:
    """Replaces recomputed relations by the old ones if the rows are the same."""
    assert ready.since is not None and ready.anew is not None
    return {
        name: settled(ready.since.known[name], relation)
        for name, relation in run(ready.anew()).items()
    }


def _once(_: Once, ready: Ready) -> Relations:
    run = ready.run or StratumRun(ready.stratum, ready.inputs)
    run.planned = ready.planned
    run.given = {id(rule): plan for rule, plan in ready.planned}
    return run.once(ready.limit)
