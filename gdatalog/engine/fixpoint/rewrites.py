"""Strata evaluated as other strata: split at dead variables, linearised, or as one worklist."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.engine.fixpoint.stratum import StratumRun
from gdatalog.planner.check.checked import Stratum
from gdatalog.planner.rewrite.dead_variables import SplitStratum, split_at_dead_variables
from gdatalog.planner.rewrite.linear import LinearStratum, first_of, made_linear
from gdatalog.planner.rewrite.one_worklist import with_key
from gdatalog.records import replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns


def split_stratum(stratum: Stratum, inputs: StratumInputs) -> SplitStratum | None:
    """The stratum with split rules, cached; None if splitting gains nothing."""
    way = inputs.context.knobs.dead_variables

    def make(relation: Callable[[str], Relation]) -> SplitStratum | None:
        return split_at_dead_variables(
            stratum, inputs.schemas, lambda name: relation(name).statistics, way
        )

    return inputs.plans.parted(stratum, way, inputs.relation, make)


def with_parts(parts: SplitStratum, inputs: StratumInputs) -> StratumInputs:
    """The same inputs, with the relations of the parts."""
    return replace(inputs, schemas={**inputs.schemas, **parts.schemas})


def over(
    parts: SplitStratum | None, stratum: Stratum, inputs: StratumInputs
) -> tuple[Stratum, StratumInputs]:
    """A stratum with split rules, and its inputs."""
    return (stratum, inputs) if parts is None else (parts.stratum, with_parts(parts, inputs))


# A closure by a quadratic rule, evaluated by its linear rule (`planner/rewrite/linear.py`).


def linearised(linear: LinearStratum, inputs: StratumInputs) -> StratumInputs:
    """The inputs of the linear rule. The rows that it starts from are evaluated first."""
    ((name, first),) = StratumRun(linear.first, inputs).once().items()
    schema = first_of(inputs.schemas[name])
    inputs.context.limits.account.rename(name, schema.name)

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else inputs.relation(asked)

    schemas = {**inputs.schemas, schema.name: schema}
    return replace(inputs, schemas=schemas, relation=relation, seeds={})


def linear_of(stratum: Stratum, inputs: StratumInputs) -> LinearStratum | None:
    """The strata that replace a closure, cached together with their plans."""
    never = inputs.context.knobs.split == "never"
    if never or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = inputs.schemas[name]
    return inputs.plans.rewritten("linear", stratum.rules, lambda: made_linear(stratum, schema))


# Linear recursion of many small rounds as one worklist (`planner/rewrite/one_worklist.py`).


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
