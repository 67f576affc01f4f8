"""`RuleRows`: a rule is the union of its joins, or their aggregates, and then its head."""

from __future__ import annotations

from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived, Rows
from gdatalog.engine.group_rows import rows_of_groups
from gdatalog.engine.rules.joins import LocalJoins
from gdatalog.engine.rules.operator import TURN, RuleJoins
from gdatalog.executors.gather import Gathering
from gdatalog.executors.reduction import add_rows
from gdatalog.plan.effects import may_fail, one_row_each
from gdatalog.plan.grouped_rows import groups_of
from gdatalog.plan.join_plan import RulePlan
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RuleRows:
    """Runs each join, over whole indexes unless others run them. `reported`: the plan is the one
    that a profile shows."""

    plan: RulePlan
    reported: bool = True

    def run(self, inputs: RuleInputs, joins: RuleJoins | None = None) -> Derived:
        """The distinct rows that a rule derives. `joins`: what runs its joins, if it is not this
        process on one device."""
        plan, limit = self.plan, inputs.limit
        inputs = inputs if self.reported else replace(inputs, report=None)
        joins = joins or LocalJoins(plan, inputs)
        inputs.limits.looked += TURN
        if plan.gathers:
            return _aggregated(plan, inputs, joins)
        if any(may_fail(join.steps) for join in plan.joins):
            limit = None  # errors after the last wanted row count too
        elif not plan.head and limit is None:
            limit = 1  # a proposition: one witness is enough
        if plan.apart and limit is None and isinstance(joins, LocalJoins):
            return joins.all_apart()
        sink = joins.set_of(plan.head, limit)
        if len(plan.joins) == 1 and plan.head and limit is None:
            (join,) = plan.joins
            if one_row_each(join) or groups_of(join) is not None:
                return joins.distinct(sink)
        for number in range(len(plan.joins)):
            joins.into_set(number, sink)
        inputs.tried(sink.given)
        return sink.finish()


def _aggregated(plan: RulePlan, inputs: RuleInputs, joins: RuleJoins) -> Rows:
    ops, scope = inputs.ops, inputs.scope
    gathering = Gathering(plan.gathers, ops, scope, inputs.limits, level=0)
    for group, names in zip(plan.groups, plan.bindings, strict=True):
        if len(group) == 1:
            given = gathering.given
            gathering = joins.into_bag(group[0], gathering)
            inputs.tried(gathering.given - given)
            continue
        union = joins.set_of(names, None)
        for number in group:
            joins.into_set(number, union)
        inputs.tried(union.given)
        for rows in union.pieces():
            add_rows(gathering, plan.keys, names, rows)
    if gathering.spilled is None:
        return rows_of_groups(plan, gathering, gathering.ops, scope)
    sink = joins.set_of(plan.head, None)
    for part in gathering.partitions():
        rows, count = rows_of_groups(plan, part, ops, scope)
        if count:
            sink.add(rows)
    return sink.finish()
