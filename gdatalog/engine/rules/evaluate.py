"""Evaluates a rule: composes its operators, for the device and the plan, and runs them."""

from __future__ import annotations

from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.metrics import measured
from gdatalog.engine.rules import index_lookup
from gdatalog.engine.rules.fallback import RuleFallback
from gdatalog.engine.rules.operator import Outcome, Refusal, RuleOperator
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.plan.conditions import NoRoom, Unsuited
from gdatalog.plan.join_plan import RulePlan
from gdatalog.records import dataclass, replace


def run_rule(plan: RulePlan, inputs: RuleInputs, here: RuleOperator | None = None) -> Derived:
    """Returns the distinct rows that a rule derives. `here`: `operator_here`, if it is known."""
    if inputs.report is not None:
        inputs.report.device = inputs.context.device.name
    with measured(inputs.report, inputs.stats):
        found = operator_of(plan, inputs, here).run(inputs)
    assert not isinstance(found, NoRoom | Refusal | Unsuited)
    for what in ("answers", "aggregates", "blocks"):
        inputs.limits.charge(what, 0)
    if not inputs.lasting:
        inputs.limits.charge("rows followed", 0)
    if inputs.report is not None:
        inputs.report.rows += count_of(found)
    return found


def operator_here(plan: RulePlan) -> RuleOperator:
    """How a rule is evaluated on this machine, unless it is profiled."""
    return index_lookup.applies(plan) or over_whole_indexes(plan)


def operator_of(
    plan: RulePlan, inputs: RuleInputs, here: RuleOperator | None = None
) -> RuleOperator:
    """How a rule is evaluated."""
    if inputs.in_cells:
        plan, here = plan.otherwise or plan, None  # sums read whole indexes
    device = inputs.context.device
    if device is CPU and inputs.report is None:
        return here or operator_here(plan)
    whole = over_whole_indexes(plan)
    if device is CPU:
        return whole
    reason = plan.left or device.refuses(plan)
    if reason is not None:
        return RuleOnHost(whole, reason)
    first = whole
    if inputs.resident is not None:
        from gdatalog.engine.rules.in_cells import RuleInCells

        cells = RuleInCells(plan.otherwise or plan)
        first = cells if inputs.in_cells else RuleFallback(whole, NoRoom, cells)
    return RuleFallback(first, Refusal, RuleOnHost(whole))


def over_whole_indexes(plan: RulePlan) -> RuleOperator:
    """How a rule is evaluated on one device that has its indexes."""
    if not plan.terms and not plan.within:
        return RuleRows(plan)
    from gdatalog.engine.rules.over_tables import OverTables
    from gdatalog.engine.rules.signed_sum import SignedSum

    assert plan.otherwise is not None
    counted = SignedSum(plan) if plan.terms else OverTables(plan)
    return RuleFallback(counted, Unsuited, RuleRows(plan.otherwise, reported=False))


@dataclass(frozen=True, slots=True)
class RuleOnHost:
    """`reason`: why, for users; empty if that turns out when the device runs it."""

    then: RuleOperator
    reason: str = ""

    def run(self, inputs: RuleInputs) -> Outcome:
        report, sources = inputs.report, inputs.on_host or inputs.sources
        if report is not None:
            report.device = "cpu"
            report.left, report.in_cells, report.in_pages = self.reason or report.left, None, None
        here = replace(inputs.context, device=CPU)
        return self.then.run(replace(inputs, sources=sources, context=here))
