"""Plans recursive rules again when the sizes of the relations that they read have changed.

The first plan assumes sizes, because there are no rows yet. After its rounds have read some rows,
and a relation or its delta has become sixteen times larger or smaller, the variable order is
searched again with the current sizes: at most three times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.engine.draft import DELTA, UNKNOWN
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.rule_plans import plan_rule
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.engine.variants import Variant
from gdatalog.plan.join_plan import Join, Version
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.statistics import Assumed, RelationStatistics
from gdatalog.records import replace
from gdatalog.storage.relation import Relation

SAMPLE = 2000  # rows sampled for distinct values


class Replanning:
    """For one rule: the sizes that its plan assumes, and when to plan again."""

    def __init__(self, run: StratumRun, rule: CheckedRule, variants: Sequence[Variant]) -> None:
        self.run = run
        self.rule = rule
        self.variants = variants
        self.thresholds = run.context.thresholds
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
        if not self.chooses or self.again >= self.thresholds.replanned_times:
            return
        looked = sum(each.looked for each in self.variants)
        if looked - self.looked < self.thresholds.replanned_from:
            return
        sizes = {key: self._rows(*key) for key in self.planned}
        pairs = [(max(1, rows), max(1, self.planned[key])) for key, rows in sizes.items()]
        if not any(max(pair) >= self.thresholds.replanned_shift * min(pair) for pair in pairs):
            return
        self.looked, self.planned = looked, sizes
        self.again += 1
        run = self.run
        given = PlanInputs(self._size, run.inputs.plans.orders, self.thresholds)
        types, recursive = run.inputs.param_types, run.stratum.relations
        stored = not run.context.scope.bounded
        plan = plan_rule(self.rule, types, given, recursive, first=False, stored=stored)
        old = self.variants[0].whole
        if len(plan.joins) != len(old.joins) or plan.joins == old.joins:
            return
        # An unchanged join stays the same object, so that its cached state stays valid.
        both = zip(old.joins, plan.joins, strict=True)
        joins = tuple(before if before == after else after for before, after in both)
        whole = replace(plan, joins=joins)
        for each in self.variants:
            each.change(whole, sizes[each.follows, "delta"])

    def _rows(self, name: str, version: Version) -> int:
        if version == "delta":
            return self.run.deltas[name].length
        return self.run.tables[name].length

    def _size(self, name: str, version: Version) -> RelationStatistics:
        run = self.run
        if name not in run.tables:
            return run.inputs.relation(name).statistics
        arity, rows = run.inputs.schemas[name].arity, max(1, self._rows(name, version))
        table = run.tables[name]
        sample: Relation | None = run.deltas[name]
        if version != "delta" and isinstance(table, DeltaRelation):
            sample = max(table.runs.all(), key=lambda run: run.length, default=None)
        each = _different(sample, rows) if sample is not None and sample.length else None
        return Assumed(rows, max(1, rows // 10), arity, each=each)


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
