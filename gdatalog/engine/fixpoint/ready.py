"""A planned stratum, and the functions that run its strategies until one completes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gdatalog.account import default_limit
from gdatalog.engine.choose import FallbackMet, allowing
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.facts.encoding import Encoded
from gdatalog.engine.fixpoint import StratumRun
from gdatalog.errors import MemoryLimitError
from gdatalog.plan import RulePlan
from gdatalog.plan.stratum import OnTheHost, Strategy, StratumPlan
from gdatalog.plan.tuning import CONDITIONS, Bytes, TooManyRows, Unsuited, When
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation

Relations = Mapping[str, Relation]
# Functions that run strategies, by class; one returns None if its strategy does not apply.
Runners = Mapping[type[Strategy], "Callable[[Any, Ready], Relations | None]"]


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
    `before` and `rules`, in this order. `runners` run its strategies, by class. `limit`: at most
    this many rows are needed. `encoded`: the dictionaries of the codes that it runs on. `since`:
    its old relations and what was added. `run`: the object that planned it and can run it. `anew`
    plans it without codes, or with all rows. `smaller` plans it with less memory on the device, or
    for the CPU, in case it does not fit the device.
    """

    plan: StratumPlan
    stratum: Stratum
    inputs: StratumInputs
    rules: tuple[CheckedRule, ...]
    runners: Runners
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


def rule_plans(run: StratumRun) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans of a stratum's rules: for all rows and, if recursive, for new ones."""
    return [
        (rule, plan)
        for rule in run.stratum.rules
        for first in ((True, False) if run.recursive(rule) else (True,))
        if (plan := run.plan(rule, first=first)).joins
    ]


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
        # After the handler, because the error keeps device memory alive.
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
    context, plan = ready.inputs.context, ready.plan
    metrics = context.metrics
    began, runs = len(metrics.strata), len(metrics.runs)
    left = next((one.reason for one in plan.rewrites if isinstance(one, OnTheHost)), None)
    how = [*([] if plan.chosen is None else [plan.chosen]), *map(str, plan.rewrites)]
    for strategy in plan.strategies:
        runner = partial(ready.runners[type(strategy)], strategy, ready)
        fallback = strategy.fallback
        found = runner() if fallback is None else attempt(runner, fallback.when, context)
        assert found is not None
        if not isinstance(found, CONDITIONS):
            metrics.devices.append(context.device.name)
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
    charges and profile records are undone."""
    limits, metrics = context.limits, context.metrics
    runs, strata = len(metrics.runs), len(metrics.strata)
    rows = next((each for each in until if isinstance(each, TooManyRows)), None)
    nbytes = next((each for each in until if isinstance(each, Bytes)), None)
    errors = (FallbackMet,) if nbytes is None else (FallbackMet, MemoryLimitError)
    met: When = Unsuited()
    try:
        with (
            limits.account.restoring(*errors),
            allowing(limits, rows.most if rows else None, FallbackMet(rows or Unsuited())),
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
