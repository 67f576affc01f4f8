"""Runs a rule: by a signed sum, over whole indexes, in cells, or on the CPU instead of a GPU."""

from __future__ import annotations

from contextlib import suppress

from gdatalog.calls import NotOnDevice
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.derived import Derived, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.metrics import RuleRound, RuleRun, measured
from gdatalog.engine.run import TURN, PlanRun
from gdatalog.plan import RulePlan
from gdatalog.plan.effects import may_fail
from gdatalog.records import replace
from gdatalog.storage.on_device import RowMarks


def _rows(run: PlanRun, limit: int | None) -> Derived:
    plan = run.plan
    if not plan.terms and not plan.within:
        return run.rows(limit)
    from gdatalog.engine.sums import Sum, over_tables

    run.limits.looked += TURN
    if plan.terms:
        return Sum(run).rows()
    return over_tables(run, None if any(may_fail(join.steps) for join in plan.joins) else limit)


def run_rule(
    plan: RulePlan,
    sources: Sources,
    context: ExecutionContext,
    limit: int | None = None,
    report: RuleRun | None = None,
    lasting: dict[int, RowMarks] | None = None,
    on_host: Sources | None = None,
    stats: RuleRound | None = None,
    resident: Sources | None = None,
    in_cells: bool = False,
) -> Derived:
    """Returns the distinct rows that a rule derives.

    `lasting`: what the rounds of a fixpoint remember of processed rows. `on_host`: the sources for
    the CPU, which runs what the device refuses. `resident`: the host's tries for a rule that runs
    in cells, because it is not expected to fit (`in_cells`) or did not fit.
    """
    found: Derived | None = None
    with measured(report, stats):
        reason = plan.left or context.device.refuses(plan)
        if report is not None:
            report.device = context.device.name if reason is None else "cpu"
        if reason is None:
            try:
                if not in_cells:
                    run = PlanRun(plan, sources, context, report, lasting, stats)
                    # What does not fit as a whole may fit in cells.
                    too_large = () if resident is None else (MemoryError,)
                    with suppress(*too_large), context.limits.account.restoring(MemoryError):
                        found = _rows(run, limit)
                if found is None and resident is not None:
                    from gdatalog.engine.cells import rows_in_cells

                    whole = plan.otherwise or plan
                    found = rows_in_cells(whole, resident, context, limit, report, stats)
            except NotOnDevice as refused:
                reason = str(refused)
                if lasting is not None:
                    lasting.clear()  # rows recorded as processed have led nowhere yet
                    lasting = {}
        if found is None:
            if report is not None:
                report.left, report.in_cells, report.in_pages = reason, None, None
                report.device = "cpu"
            here = replace(context, device=CPU)
            found = _rows(PlanRun(plan, on_host or sources, here, report, lasting, stats), limit)
    for what in ("answers", "aggregates", "blocks"):
        context.limits.charge(what, 0)
    if not lasting:
        context.limits.charge("rows followed", 0)
    if report is not None:
        report.rows += count_of(found)
    return found
