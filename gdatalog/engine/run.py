"""Running one rule's plan: its joins by an executor, then aggregates, then the head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from gdatalog import cpu_ops as ops
from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.executors.failure import describe_failure
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.gather import Gathering, neutral
from gdatalog.executors.levelwise import Levelwise, Seen
from gdatalog.executors.limits import Limits
from gdatalog.executors.reduction import add_rows
from gdatalog.executors.sinks import Bag, RowSet, Sink
from gdatalog.plan.effects import may_fail
from gdatalog.plan.nodes import JoinPlan, RulePlan, TrieRef
from gdatalog.storage.marked import MarkedRows
from gdatalog.storage.rows import Columns, sort_rows
from gdatalog.storage.trie import Trie

TrieOf = Callable[[TrieRef], Trie]


@dataclass(slots=True)
class RuleRun:
    """What running a rule did, for a profile: what each step saw, rows out, time."""

    plan: RulePlan
    seen: dict[int, Seen] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0


def run_rule(
    plan: RulePlan,
    trie_of: TrieOf,
    scope: Scope,
    limits: Limits,
    limit: int | None = None,
    report: RuleRun | None = None,
    lasting: dict[int, MarkedRows] | None = None,
) -> tuple[Columns, int]:
    """The rows that a rule gives, sorted and distinct, and how many they are.

    `lasting` is what the rounds of a fixpoint remember of rows that have been followed.
    """
    started = perf_counter()
    if any(may_fail(join.steps) for join in plan.joins):
        limit = None  # a failure that comes after the last wanted row is one as well
    if plan.gathers:
        rows, count = _aggregated(plan, trie_of, scope, limits, report)
    else:
        if not plan.head and limit is None and not any(may_fail(j.steps) for j in plan.joins):
            limit = 1  # a proposition: one witness is enough
        sink = RowSet(plan.head, ops, scope, limits, limit)
        for join in plan.joins:
            sink.outputs = join.outputs
            _run_join(join, trie_of, scope, limits, sink, report, lasting)
        rows, count = sink.finish()
    limits.charge("answers", 0)
    limits.charge("aggregates", 0)
    if not lasting:
        limits.charge("rows followed", 0)
    if report is not None:
        report.rows += count
        report.seconds += perf_counter() - started
    return rows, count


def _run_join(
    join: JoinPlan,
    trie_of: TrieOf,
    scope: Scope,
    limits: Limits,
    sink: Sink,
    report: RuleRun | None,
    lasting: dict[int, MarkedRows] | None = None,
) -> None:
    if sink.done:
        return
    tries = [trie_of(ref) for ref in join.tries]
    seen = report.seen if report is not None else None
    walk = Levelwise(tries, ops, scope, limits, seen, {} if lasting is None else lasting)
    walk.run(join.steps, 0, Frontier(1), sink)


def _aggregated(
    plan: RulePlan, trie_of: TrieOf, scope: Scope, limits: Limits, report: RuleRun | None
) -> tuple[Columns, int]:
    gathering = Gathering(plan.gathers, ops, scope, limits)
    for group, names in zip(plan.groups, plan.bindings, strict=True):
        if len(group) == 1:
            join = plan.joins[group[0]]
            bag = Bag(plan.keys, gathering, join.orbit)
            _run_join(join, trie_of, scope, limits, bag, report)
            continue
        union = RowSet(names, ops, scope, limits, None)
        for number in group:
            _run_join(plan.joins[number], trie_of, scope, limits, union, report)
        rows, _ = union.finish()
        add_rows(gathering, plan.keys, names, rows)
    keys, values = gathering.finish()
    count = len(values[0])
    if count == 0 and not plan.keys:
        empty = [neutral(gather) for gather in plan.gathers]
        if any(value is None for value in empty):
            count = 0
        else:
            values = [np.array([value], dtype=np.int64) for value in empty]
            count = 1
    if count == 0:
        return tuple(np.empty(0, dtype=np.int32) for _ in plan.head), 0
    columns: dict[Any, Any] = {
        key.name: column for key, column in zip(plan.keys, keys, strict=False)
    }
    columns.update(
        {gather.variable: value for gather, value in zip(plan.gathers, values, strict=True)}
    )
    return _heads(plan, Frontier(count, columns=columns), scope)


def _heads(plan: RulePlan, frontier: Frontier, scope: Scope) -> tuple[Columns, int]:
    """The head's expressions of keys and gathered values."""
    heads = []
    for expr in plan.head:
        keys, failed = ops.evaluate(expr, frontier.column, frontier.size, scope)
        if failed is not None and bool(failed.any()):
            bad = np.flatnonzero(failed)[:1]
            raise describe_failure(expr, frontier.take(bad), ops, scope)
        heads.append(keys)
    rows = sort_rows(heads)
    return rows, len(rows[0])


def union_rows(parts: Sequence[tuple[Columns, int]]) -> tuple[Columns, int]:
    """The distinct rows of several sets of rows, sorted."""
    filled = [rows for rows, count in parts if count]
    if not filled:
        return (parts[0][0], 0) if parts else ((), 0)
    if not filled[0]:
        return (), 1
    if len(filled) == 1:
        return filled[0], len(filled[0][0])
    rows = sort_rows(ops.concatenate(filled))
    return rows, len(rows[0])
