"""The rows of an aggregated rule: its head, computed for each group."""

from __future__ import annotations

from typing import Any

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.derived import Rows
from gdatalog.executors.failure import describe_failure
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.gather import Gathering, neutral
from gdatalog.executors.ops import Ops
from gdatalog.plan.nodes import RulePlan


def rows_of_groups(plan: RulePlan, gathering: Gathering, ops: Ops, scope: Scope) -> Rows:
    """Evaluates a rule's head for each group."""
    xp = ops.xp
    keys, values = gathering.finish(plan.keys)
    count = len(values[0])
    if count == 0 and not plan.keys:
        empty = [neutral(gather) for gather in plan.gathers]
        if any(value is None for value in empty):
            count = 0
        else:
            values = [xp.full(1, value, dtype=xp.int64) for value in empty]
            count = 1
    if count == 0:
        return tuple(xp.empty(0, dtype=xp.int32) for _ in plan.head), 0
    names = [*(key.name for key in plan.keys), *(gather.variable for gather in plan.gathers)]
    columns: dict[Any, Any] = dict(zip(names, (*keys, *values), strict=True))
    return _heads(plan, Frontier(count, columns=columns), ops, scope)


def _heads(plan: RulePlan, frontier: Frontier, ops: Ops, scope: Scope) -> Rows:
    """The head's expressions over keys and aggregates."""
    heads = []
    for expr in plan.head:
        keys, failed = ops.evaluate(expr, frontier.column, frontier.size, scope)
        if failed is not None and bool(failed.any()):
            bad = ops.survivors(failed)[:1]
            raise describe_failure(expr, frontier.take(bad), ops, scope)
        heads.append(keys)
    rows = ops.sort_rows(heads)
    return rows, len(rows[0])
