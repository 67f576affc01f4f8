"""The rows of an aggregated rule: its head, computed for each group."""

from __future__ import annotations

from typing import Any

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.derived import Rows
from gdatalog.executors.failures import describe_failure
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.gather import Gathering, neutral
from gdatalog.executors.ops import Ops
from gdatalog.plan.join_plan import RulePlan
from gdatalog.storage.table import Array


def rows_of_groups(plan: RulePlan, gathering: Gathering, ops: Ops, scope: Scope) -> Rows:
    """Evaluates a rule's head for each group."""
    xp = ops.xp
    keys, values = gathering.finish(plan.keys)
    count = len(values[0])
    if count == 0 and not plan.keys:
        empty = [neutral(gather) for gather in plan.gathers]
        if None not in empty:
            values, count = [xp.full(1, value, dtype=xp.int64) for value in empty], 1
    if count == 0:
        return tuple(xp.empty(0, dtype=xp.int32) for _ in plan.head), 0
    names = [*(key.name for key in plan.keys), *(gather.variable for gather in plan.gathers)]
    columns: dict[Any, Any] = dict(zip(names, (*keys, *values), strict=True))
    frontier = Frontier(count, columns=columns)
    heads: list[Array] = []
    for expr in plan.head:
        column, failed = ops.evaluate(expr, frontier.read_by(expr), frontier.size, scope)
        if failed is not None and bool(failed.any()):
            bad = ops.survivors(failed)[:1]
            raise describe_failure(expr, frontier.take(bad), ops, scope)
        heads.append(column)
    rows = ops.sort_rows(heads)
    return rows, len(rows[0])
