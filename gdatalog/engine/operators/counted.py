"""`Counted`: a fixpoint whose rows are only counted, for strata that read nothing else of it.

The closure of a road network has more rows than fit into memory, yet counting them is fast: a
partitioned fixpoint sums up the lengths of its worklists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.derived import relation_of
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.partitioned_run import PartitionedStratum, PreparedFixpoint
from gdatalog.plan.conditions import Unsuited, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.counts_read import counts_of
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass
from gdatalog.storage.table import Array


@dataclass(frozen=True, slots=True)
class Counted(LeafOperator):
    """Returns how many rows each value of a key has, in place of the rows."""

    fixpoint: Partitioned
    by_parts = Partitioned.by_parts

    def __str__(self) -> str:
        return f"{self.fixpoint}, whose rows are only counted"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.fixpoint.rules

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return self.fixpoint.work(expected, context)

    def prepare(self, context: ExecutionContext) -> PreparedFixpoint:
        return self.fixpoint.prepare(context)

    def run(
        self, prepared: PreparedFixpoint, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        splits = self.fixpoint.begun(inputs, prepared)
        counts = splits.counts()
        return Unsuited() if counts is None else counted_relations(splits, counts)


def counted_relations(
    splits: PartitionedStratum, counts: Mapping[str, tuple[Array, Array]]
) -> Relations:
    """For each relation, the relation that counts its rows for each value of its key."""
    found = {}
    for name, rows in counts.items():
        schema = counts_of(splits.inputs.schemas[name], splits.columns[name])
        parts = [(rows, len(rows[0]))]
        found[schema.name] = relation_of(schema.columns, schema.types, parts, splits.ops)
    return found
