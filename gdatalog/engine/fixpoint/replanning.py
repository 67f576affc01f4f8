"""Replans recursive rules when the sizes of the relations that they read have changed.

The first plan assumes sizes, because there are no rows yet. After its rounds have read some rows,
and a relation or its delta has become sixteen times larger or smaller, the variable order is
searched again with the current sizes: at most three times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.stratum import DELTA, UNKNOWN, StratumRun
from gdatalog.engine.fixpoint.variants import Variant, alone
from gdatalog.plan.nodes import Join, Version
from gdatalog.planner.check.checked import CheckedRule
from gdatalog.planner.order.sizes import Assumed, RelationStatistics
from gdatalog.planner.rules import plan_rule
from gdatalog.records import replace
from gdatalog.storage.relation import Relation

SAMPLE = 2000  # rows sampled for distinct values


class Replanning:
    """For one rule: the sizes that its plan assumes, and when to plan again."""

    def __init__(self, run: StratumRun, rule: CheckedRule, variants: Sequence[Variant]) -> None:
        self.run = run
        self.rule = rule
        self.variants = variants
        self.tuning = run.context.tuning
        read = {ref.relation for each in variants for ref in each.growing}
        self.planned: dict[tuple[str, Version], int] = dict.fromkeys(
            ((name, "full") for name in read), UNKNOWN
        )
        self.planned |= {(each.follows, "delta"): DELTA for each in variants}
        self.looked = 0
        self.again = 0  # how often it was replanned
        # With at most one other atom there is no order to choose.
        self.chooses = any(
            sum(isinstance(step, Join) for step in each.join.steps) > 1 for each in variants
        )

    def look(self) -> None:
        """Replans the rule if that pays by now."""
        if not self.chooses or self.again >= self.tuning.replanned_times:
            return
        looked = sum(each.looked for each in self.variants)
        if looked - self.looked < self.tuning.replanned_from:
            return
        sizes = {key: self._rows(*key) for key in self.planned}
        times = self.tuning.replanned_shift
        if not any(_shifted(rows, self.planned[key], times) for key, rows in sizes.items()):
            return
        self.looked, self.planned = looked, sizes
        self.again += 1
        run = self.run
        plan = plan_rule(
            self.rule, run.inputs.schemas, run.inputs.param_types, self._size,
            run.stratum.relations, first=False, orders=run.inputs.plans.orders,
            tuning=self.tuning,
        )  # fmt: skip
        old = self.variants[0].whole
        if len(plan.joins) != len(old.joins) or plan.joins == old.joins:
            return
        # An unchanged join stays the same object, so that its cached state stays valid.
        pairs = zip(old.joins, plan.joins, strict=True)
        joins = tuple(before if before == after else after for before, after in pairs)
        whole = replace(plan, joins=joins)
        for each in self.variants:
            each.change(alone(whole, each.number), whole, sizes[each.follows, "delta"])

    def _rows(self, name: str, version: Version) -> int:
        if version == "delta":
            return self.run.deltas[name].length
        return self.run.tables[name].length

    def _size(self, name: str, version: Version) -> RelationStatistics:
        run = self.run
        arity = run.inputs.schemas[name].arity
        rows = max(1, self._rows(name, version) if name in run.tables else 0)
        if name not in run.tables:
            return run.inputs.relation(name).statistics
        table, delta = run.tables[name], run.deltas[name]
        sample = (
            delta if version == "delta" or not isinstance(table, DeltaRelation) else _largest(table)
        )
        each = _different(sample, rows) if sample is not None and sample.length else None
        return Assumed(rows, max(1, rows // 10), arity, each=each)


def _shifted(now: int, before: int, times: float) -> bool:
    low, high = sorted((max(1, now), max(1, before)))
    return high >= times * low


def _largest(table: DeltaRelation) -> Relation | None:
    """A large part of a relation's rows, if available."""
    return max(table.runs.all(), key=lambda run: run.length, default=None)


def _different(sample: Relation, rows: int) -> tuple[int, ...]:
    """The approximate number of distinct values of each column, from some of its rows."""
    counts = []
    for column in sample.rows:
        some = column[:: max(1, len(column) // SAMPLE)]
        found = len(np.unique(some))
        seen = found if 2 * found <= len(some) else found * rows // len(some)
        span = int(some.max()) - int(some.min()) + 1
        counts.append(max(1, min(rows, seen, span)))
    return tuple(counts)
