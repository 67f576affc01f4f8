"""How a stratum is evaluated: its plan, and the run of its plan.

`plan_stratum` decides by the rules, by sizes, by what the user forces, and by the device. The plan
is run as it stands: its strategy, and where a condition of its fallback is met, the next one.
Strategies of recursive strata are imported for a recursive stratum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from gdatalog.engine.choose import FallbackMet, allowing
from gdatalog.engine.derived import Seeds
from gdatalog.engine.encoding import Encoded, encode
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Surroundings
from gdatalog.errors import EvaluationError, MemoryLimitError
from gdatalog.plan.nodes import RulePlan
from gdatalog.plan.stratum import (
    CONDITIONS,
    Bytes,
    DictionaryCodes,
    Once,
    Rows,
    Strategy,
    StratumPlan,
    Unsuited,
    When,
)
from gdatalog.planner.checked import CheckedRule, Stratum
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.spread import SpreadFixpoint

Relations = Mapping[str, Relation]


@dataclass(frozen=True, slots=True)
class Ready:
    """A stratum with its plan, ready to run.

    `stratum`, `seeds` and `around` are as the plan's rewrites have left them. `rules` are those of
    the plan's `before` and `rules`, in this order. `limit`: how many rows are asked for at most.
    `spread`: over which workers it runs. `encoded`: the dictionaries of the codes that it runs on,
    and `plain` plans it without them.
    """

    plan: StratumPlan
    stratum: Stratum
    seeds: Seeds
    around: Surroundings
    rules: tuple[CheckedRule, ...]
    limit: int | None = None
    spread: SpreadFixpoint | None = None
    encoded: Encoded | None = None
    plain: Callable[[], Ready] | None = None

    @property
    def planned(self) -> list[tuple[CheckedRule, RulePlan]]:
        """Each rule with its plans."""
        return list(zip(self.rules, (*self.plan.before, *self.plan.rules), strict=True))


# --------------------------------------------------------------------------------- planning


def plan_stratum(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    limit: int | None = None,
    counted: bool = False,
) -> Ready:
    """How a stratum is evaluated. `seeds`: the rows that its relations have without any rule.

    `limit`: at most so many rows of its one relation are asked for. `counted`: how many rows there
    are of each value suffices, where it is partitioned by values.
    """
    encoded = None if limit is not None else encode(stratum, seeds, around)
    if encoded is not None:
        coded = _planned(encoded.stratum, encoded.seeds, encoded.around, None, counted)
        rewrites = (DictionaryCodes(encoded.names()), *coded.plan.rewrites)
        no_codes = replace(around, knobs=replace(around.knobs, encode="never"))
        return replace(
            coded,
            plan=replace(coded.plan, rewrites=rewrites),
            encoded=encoded,
            plain=partial(plan_stratum, stratum, seeds, no_codes, None, counted),
        )
    return _planned(stratum, seeds, around, limit, counted)


def _planned(
    stratum: Stratum, seeds: Seeds, around: Surroundings, limit: int | None, counted: bool
) -> Ready:
    if stratum.recursive:
        from gdatalog.engine.fixpoint import plan_recursive

        return plan_recursive(stratum, seeds, around, counted)
    planned = rule_plans(StratumRun(stratum, seeds, around))
    plans, device = tuple(plan for _, plan in planned), around.device.name
    plan = StratumPlan(stratum.relations, False, Once(), plans, device=device)
    return Ready(plan, stratum, seeds, around, tuple(rule for rule, _ in planned), limit)


def rule_plans(run: StratumRun) -> list[tuple[CheckedRule, RulePlan]]:
    """The plans of a stratum's rules: for all rows, and for new ones where they are recursive."""
    return [
        (rule, plan)
        for rule in run.stratum.rules
        for first in ((True, False) if run.recursive(rule) else (True,))
        if (plan := run.plan(rule, first=first)).joins
    ]


# ---------------------------------------------------------------------------------- running


def run_stratum(
    stratum: Stratum,
    seeds: Seeds,
    around: Surroundings,
    limit: int | None = None,
) -> Relations:
    """The stratum's relations; at most `limit` rows of the one there is, if given.

    `seeds`: the rows that they have without any rule.
    """
    return run(plan_stratum(stratum, seeds, around, limit))


def run(ready: Ready) -> Relations:
    """The relations that a planned stratum has, or how many rows they have where it counts them."""
    if ready.encoded is None:
        return _run(ready)
    try:
        found = _run(ready)
    except EvaluationError:  # its message would show codes
        assert ready.plain is not None
        return run(ready.plain())
    return ready.encoded.decoded(found)


def _run(ready: Ready) -> Relations:
    if ready.spread is None:
        return run_here(ready)
    from gdatalog.engine.fixpoint import run_on_workers

    return run_on_workers(ready)


def run_here(ready: Ready) -> Relations:
    """What the first strategy gives that meets no condition of its fallback.

    A profile is told of that one alone, and of what the others met.
    """
    plan, ledger = ready.plan, ready.around.ledger
    runs, strata = len(ledger.runs), len(ledger.strata)
    how = [str(rewrite) for rewrite in plan.rewrites]
    for strategy in plan.strategies:
        found = _attempt(strategy, ready)
        if not isinstance(found, CONDITIONS):
            for record in ledger.strata[strata:]:
                record.how = (*how, *getattr(strategy, "projections", ()))
            return found
        how.append(f"given up {found}: {strategy}")
        del ledger.runs[runs:], ledger.strata[strata:]
    raise AssertionError("the last strategy has no fallback")


def _attempt(strategy: Strategy, ready: Ready) -> Relations | When:
    """What a strategy gives, or the condition of its fallback that was met."""
    limits, runner = ready.around.limits, _runner(strategy)
    if strategy.fallback is None:
        found = runner(strategy, ready)
        assert found is not None
        return found
    rows, nbytes = strategy.fallback.on(Rows), strategy.fallback.on(Bytes)
    given_up = (FallbackMet,) if nbytes is None else (FallbackMet, MemoryLimitError)
    try:
        with (
            limits.account.restoring(*given_up),
            nullcontext() if rows is None else allowing(limits, rows.most, FallbackMet(rows)),
        ):
            found = runner(strategy, ready)
    except FallbackMet as error:
        return error.when
    except MemoryLimitError:
        if nbytes is None:
            raise
        return nbytes
    return Unsuited() if found is None else found


def _runner(strategy: Strategy) -> Callable[[Any, Ready], Relations | None]:
    """What runs a strategy, by its class."""
    if isinstance(strategy, Once):
        return _once
    from gdatalog.engine.fixpoint import RUNNERS

    return RUNNERS[type(strategy)]


def _once(_: Once, ready: Ready) -> Relations:
    run = StratumRun(ready.stratum, ready.seeds, ready.around)
    run.planned = ready.planned
    run.given = {id(rule): plan for rule, plan in ready.planned}
    return run.once(ready.limit)
