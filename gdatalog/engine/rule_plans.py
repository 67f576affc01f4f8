"""Plans rules: by the planner, or from the files of an earlier process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Unpack

from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner import rule as planner
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.rule import RuleOptions
from gdatalog.values import TypeName

LONG_TEXT = 600  # characters: the rules of shorter texts are planned sooner than looked up
MANY_ATOMS = 3  # ... except for rules with so many atoms


def plan_rule(
    rule: CheckedRule,
    param_types: Mapping[str, TypeName],
    inputs: PlanInputs,
    recursive: Collection[str] = (),
    stored: bool = True,
    **options: Unpack[RuleOptions],
) -> RulePlan:
    """The planner's `plan_rule`, or what it gave in an earlier process. `stored`: plans may be
    stored."""
    if inputs.notes is not None or not stored or not looked_up(rule):
        return planner.plan_rule(rule, param_types, inputs, recursive, **options)
    from gdatalog.engine.plan_files import PlanLookup

    settings = sorted(param_types.items()), tuple(recursive), sorted(options.items())
    lookup = PlanLookup(rule, settings, inputs)
    plan = lookup.found()
    if plan is None:
        plan = planner.plan_rule(rule, param_types, lookup.observed, recursive, **options)
        lookup.store(plan)
    return plan


def looked_up(rule: CheckedRule) -> bool:
    """Whether the plan of a rule is looked up and stored."""
    if len(rule.span.source.text) >= LONG_TEXT:
        return True
    return len(rule.atoms) >= MANY_ATOMS
