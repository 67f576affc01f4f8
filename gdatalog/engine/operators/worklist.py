"""`Worklist`: one compiled worklist follows row after row, without rounds.

It is a partitioned fixpoint whose rows have an additional key with a single value. It pays for
linear recursion of many small rounds (`planner/rewrite/linear_recursion.py`).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.derived import DistinctBlocks, blocks_of, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.partitioned_run import (
    Key,
    PartitionedStratum,
    PreparedFixpoint,
    is_forced,
)
from gdatalog.engine.operators.when_compiled import when_compiled
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.plan.conditions import SmallRounds, Unsuited, When
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.linear_recursion import KEY, partitioning_of, with_key
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import joined_column


@dataclass(frozen=True, slots=True)
class Worklist(LeafOperator):
    """`of`: the rules, as rounds run them. `keyed`: the stratum with a key, and the `schemas` of
    its relations. Its recursive rules are planned when it first runs, because rounds are rarely so
    many."""

    of: PlannedRules
    keyed: Stratum
    schemas: tuple[Schema, ...]

    def __str__(self) -> str:
        return "one worklist"

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return Work(expected.looked, turns=max(1, len(self.of.stratum.rules)))

    def prepare(self, context: ExecutionContext) -> PreparedWorklist:
        return PreparedWorklist()

    def run(
        self, prepared: PreparedWorklist, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        if prepared.fixpoint is None:
            planned = self._planned(inputs)
            if planned is None:
                return Unsuited()
            prepared.fixpoint = PreparedFixpoint(PreparedRules(planned))
        return OneWorklist(prepared.fixpoint, self.keys, inputs).run() or Unsuited()

    @property
    def keys(self) -> list[Key]:
        return [Key(schema.name, 0, KEY) for schema in self.schemas]

    def _planned(self, inputs: StratumInputs) -> PlannedRules | None:
        """The rules that begin as they are, and the recursive ones with a key; None if the plan of
        one does not pass the key on."""
        draft = StratumDraft(self.keyed, inputs, {schema.name: schema for schema in self.schemas})
        split = partitioning_of(draft.later, {each.name: each.arity for each in self.schemas})
        if split is None or any(split.columns.values()):
            return None
        rules, plans = [], []
        for own, keyed, (first, _) in zip(
            self.of.stratum.rules, self.keyed.rules, self.of.plans, strict=True
        ):
            recursive = draft.recursive(keyed)
            rules.append(keyed if recursive else own)
            plans.append((first, draft.plan(keyed, first=False) if recursive else None))
        return PlannedRules(replace(self.keyed, rules=tuple(rules)), tuple(plans))


@dataclass(slots=True, eq=False)
class PreparedWorklist:
    """What the fixpoint of the planned rules has prepared."""

    fixpoint: PreparedFixpoint | None = None


def applies(draft: StratumDraft) -> Worklist | None:
    """If the recursion is linear, and all its rows are wanted."""
    context, names = draft.context, {*draft.stratum.relations}
    if context.device is not CPU or context.cluster is not None:
        return None
    if names & {*(context.limits.most_rows or ())[:1]}:
        return None
    if (
        draft.limited
        or context.settings.split == "never"
        or context.settings.strategy == "levelwise"
    ):
        return None
    inputs = draft.inputs
    make = partial(with_key, draft.stratum, inputs.schemas)
    keyed = inputs.plans.rewritten("keyed", draft.stratum.rules, make)
    return None if keyed is None else Worklist(draft.planned, keyed[0], tuple(keyed[1].values()))


def over(found: Operator, draft: StratumDraft, rounds: Operator) -> Operator:
    """With rounds for what it does not suit; and first, until they are many and small."""
    thresholds = draft.context.thresholds
    suited = WithFallback(found, (Unsuited(),), rounds)
    if is_forced(draft.context):
        return suited
    small = SmallRounds(thresholds.worklist_rounds, thresholds.worklist_round_rows)
    first = WithFallback(rounds, (small,), suited)
    return when_compiled(found, first) if draft.met((small,)) else first


class OneWorklist(PartitionedStratum):
    """One evaluation, as the fixpoint of a single key; the relations get no key."""

    def arity(self, name: str) -> int:
        return 1 + super().arity(name)

    def _group(self, name: str) -> RowsByColumn | None:
        """The rows that come first. There may be duplicates, which the worklist drops."""
        parts = [part for part in self.first(name) if count_of(part)]
        if not parts:
            return None
        columns = zip(*(block for part in parts for block in blocks_of(part)), strict=True)
        rows = [np.ascontiguousarray(joined_column(column)) for column in columns]
        starts = np.array([0, len(rows[0])], dtype=np.int64)
        return RowsByColumn(np.zeros(1, dtype=np.int32), starts, dict(enumerate(rows, 1)))

    def _relation(self, name: str, blocks: DistinctBlocks) -> Relation:
        schema = self.inputs.schemas[name]
        rows = [block[1:] for block in blocks.blocks]
        relation = Relation.of_blocks(schema.columns, schema.types, rows, blocks.count, True)
        self.context.limits.charge(name, relation.nbytes)
        return relation

    @property
    def description(self) -> str:
        return "one worklist, for the rounds are many and small"
