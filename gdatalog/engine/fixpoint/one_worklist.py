"""Linear recursion of many small rounds as one worklist (`planner/rewrite/one_worklist.py`)."""

from __future__ import annotations

import numpy as np

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.planner.check.checked import Stratum
from gdatalog.planner.rewrite.one_worklist import with_key
from gdatalog.records import replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns


class OneWorklist(PartitionedStratum):
    """A stratum whose rows have an additional key column with a single value."""

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


def one_worklist(stratum: Stratum, inputs: StratumInputs) -> OneWorklist | None:
    """The same fixpoint as one worklist; None if that is impossible, or rows are only counted."""
    context = inputs.context
    forbidden = context.knobs.split == "never" or context.knobs.strategy == "levelwise"
    if forbidden or context.device is not CPU or context.cluster is not None:
        return None
    counted = {*context.limit_sizes, *(context.limits.most_rows or ())[:1]}
    if counted & {*stratum.relations}:
        return None
    keyed = with_key(stratum, inputs.schemas)
    if keyed is None:
        return None
    rows = {name: [_with_zeros(part) for part in parts] for name, parts in inputs.seeds.items()}
    schemas = {**inputs.schemas, **keyed.schemas}
    return OneWorklist(keyed.stratum, replace(inputs, schemas=schemas, seeds=rows))


def _with_zeros(part: Derived) -> Derived:
    blocks = part.blocks if isinstance(part, DistinctBlocks) else [part[0]]
    count = part.count if isinstance(part, DistinctBlocks) else part[1]
    return DistinctBlocks([_zeros(block) for block in blocks], count)


def _zeros(block: Columns) -> Columns:
    return np.zeros(len(block[0]), dtype=np.int32), *block
