"""`Worklist`: one compiled worklist follows row after row, without rounds.

It is a partitioned fixpoint whose rows have an additional key with a single value. It pays for
linear recursion of many small rounds (`planner/rewrite/linear_recursion.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators import Relations, partitioned
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.partitioned import PartitionedStratum, is_forced
from gdatalog.plan.conditions import SmallRounds, Unsuited, When
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.rewrite.linear_recursion import with_key
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Worklist(LeafOperator):
    """`keyed`: the stratum with a key, and the schemas of its relations. Its rules are planned when
    it runs, because rounds are rarely so many."""

    keyed: Stratum
    schemas: tuple[Schema, ...]

    def __str__(self) -> str:
        return "one worklist"

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        rows = {name: [_zeroed(part) for part in parts] for name, parts in inputs.seeds.items()}
        schemas = {schema.name: schema for schema in self.schemas}
        draft = StratumDraft(self.keyed, replace(inputs, seeds=rows), schemas)
        keyed = partitioned.applies(draft)
        if keyed is None:
            return Unsuited()
        return OneWorklist(keyed.of, keyed.keys, draft.inputs).run() or Unsuited()


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
    return None if keyed is None else Worklist(keyed[0], tuple(keyed[1].values()))


def over(found: Operator, draft: StratumDraft, rounds: Operator) -> Operator:
    """With rounds for what it does not suit; and first, until they are many and small."""
    thresholds = draft.context.thresholds
    suited = WithFallback(found, (Unsuited(),), rounds)
    if is_forced(draft.context):
        return suited
    small = SmallRounds(thresholds.worklist_rounds, thresholds.worklist_round_rows)
    return WithFallback(rounds, (small,), suited)


class OneWorklist(PartitionedStratum):
    """One evaluation; the relations get no key."""

    def _relation(self, name: str, blocks: DistinctBlocks) -> Relation:
        schema = self.inputs.schemas[name]
        rows = [block[1:] for block in blocks.blocks]
        columns, types = schema.columns[1:], schema.types[1:]
        relation = Relation.of_blocks(columns, types, rows, blocks.count, True)
        self.context.limits.charge(name, relation.nbytes)
        return relation

    @property
    def description(self) -> str:
        return "one worklist, for the rounds are many and small"


def _zeroed(part: Derived) -> Derived:
    """Rows with a first column of zeros."""
    blocks = blocks_of(part)
    zeros = [np.zeros(len(block[0]), dtype=np.int32) for block in blocks]
    pairs = zip(zeros, blocks, strict=True)
    return DistinctBlocks([(first, *block) for first, block in pairs], count_of(part))
