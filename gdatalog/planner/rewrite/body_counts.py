"""Counts in bodies, decorrelated.

`f(x, c) <- P(x), c = count : { ... x ... }` counts separately for each x. If one grouped count is
expected to cost less, it becomes a table by x, which the body joins.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.plan.join_plan import Gather, JoinPlan, RulePlan, Slot, Version
from gdatalog.planner import aggregate_items
from gdatalog.planner import items as n
from gdatalog.planner.order.edges import types_of
from gdatalog.planner.order.loop_work import work_of
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.rewrite.algebra import Algebra, signed_sum
from gdatalog.planner.statistics import Assumed, RelationStatistics, Statistics
from gdatalog.records import dataclass, replace

ROWS = "~rows"


@dataclass(frozen=True, slots=True)
class Tabled:
    """A body that reads tables, the rules that derive them, and their sizes and cost."""

    items: n.Conjunction
    rules: tuple[RulePlan, ...]
    sizes: Statistics
    cost: float


def tabled(
    items: n.Conjunction,
    plan_join: Callable[[n.Conjunction, frozenset[str]], JoinPlan],
    inputs: PlanInputs,
    algebra: Algebra,
) -> Tabled | None:
    """The body with tables in place of counts; None if no count becomes a table. `plan_join` plans
    the join of a body grouped by some variables."""
    sizes = inputs.sizes
    read: list[n.Item] = []
    rules: list[RulePlan] = []
    tables: dict[str, Assumed] = {}
    cost = 0.0
    for item in items:
        if not isinstance(item, n.AggregateItem) or not _may_be_tabled(item):
            read.append(item)
            continue
        (name,) = item.reads
        (body,) = item.alternatives
        types = types_of(body)
        atoms = (i for i in body if isinstance(i, n.AtomItem))
        rows = max([sizes(i.relation, i.version).rows for i in atoms], default=0)
        found = None
        if name in types and (rows >= inputs.thresholds.algebra_rows or algebra.mode != "auto"):
            whole = plan_join(body, item.reads)
            found = signed_sum(body, whole, inputs, algebra, (name,))
        if found is None:
            read.append(item)
            continue
        joins, terms, work = found
        table, key = f"~by{len(rules) + 1}", Slot(name, types[name])
        count = Slot(f"{ROWS}{len(rules) + 1}", "int")
        gathers = (Gather("count", (), count.name, "int", item.span),)
        numbers = (tuple(range(len(joins))),)
        rules.append(RulePlan(table, joins, (key, count), (key,), gathers, numbers, ((),), terms))
        places = n.places_of(name, body)
        every = (sizes(a.relation, a.version).distinct(frozenset((at,))) for a, at in places)
        values = max(1, int(min(work, *every)))
        tables[table] = Assumed(values, values, 2, each=(values, values))
        alternatives = ((n.AtomItem(table, (key, count)),),)
        read.append(replace(item, alternatives=alternatives, bindings=((count.name,),)))
        cost += work
    if not rules:
        return None

    def known(relation: str, version: Version) -> RelationStatistics:
        return tables[relation] if relation in tables else sizes(relation, version)

    return Tabled(tuple(read), tuple(rules), known, cost)


def pays(plan: RulePlan, other: RulePlan, found: Tabled) -> bool:
    """Whether the plan with tables is expected to cost less than the other."""
    before = sum([work_of(join, found.sizes) for join in other.joins])
    return found.cost + sum([work_of(join, found.sizes) for join in plan.joins]) < before


def _may_be_tabled(item: n.AggregateItem) -> bool:
    alone = len(item.reads) == len(item.alternatives) == 1 and not item.exports
    return item.kind == "count" and alone and aggregate_items.may_be_early(item)
