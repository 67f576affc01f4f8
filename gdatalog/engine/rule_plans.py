"""Plans rules: by the planner, or from the files of an earlier process."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gdatalog.parser.syntax import Atom
from gdatalog.plan.join_plan import RulePlan, Version
from gdatalog.planner import rule as planner
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import all_of
from gdatalog.planner.order.search import PlanInputs
from gdatalog.planner.rewrite.algebra import Algebra
from gdatalog.values import TypeName

LONG_TEXT = 600  # characters: the rules of shorter texts are planned sooner than looked up
MANY_ATOMS = 3  # ... except for rules with so many atoms


def plan_rule(
    rule: CheckedRule,
    param_types: Mapping[str, TypeName],
    inputs: PlanInputs,
    recursive: Collection[str] = (),
    *,
    first: bool = True,
    old: Version = "old",
    scans: int | None = None,
    algebra: Algebra | None = None,
    stored: bool = True,
) -> RulePlan:
    """The planner's `plan_rule`, or what it gave in an earlier process. `stored`: plans may be
    stored."""

    def plan(inputs: PlanInputs) -> RulePlan:
        return planner.plan_rule(
            rule, param_types, inputs, recursive,
            first=first, old=old, scans=scans, algebra=algebra,
        )  # fmt: skip

    if inputs.notes is not None or not stored or not looked_up(rule):
        return plan(inputs)
    from gdatalog.engine.plan_files import plan_from_files

    settings = sorted(param_types.items()), tuple(recursive), first, old, scans, algebra
    return plan_from_files(rule, settings, inputs, plan)


def looked_up(rule: CheckedRule) -> bool:
    """Whether the plan of a rule is looked up and stored."""
    if len(rule.span.source.text) >= LONG_TEXT:
        return True
    return len(all_of(Atom, rule.body)) >= MANY_ATOMS
