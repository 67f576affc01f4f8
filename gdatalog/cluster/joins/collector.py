"""The results of a rule's calls: few rows or groups are fetched, many stay on the workers.

Many rows become parts of a relation; many groups are merged, by an owner for each hash of their
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.cluster.joins.cells import CellResult
from gdatalog.cluster.pool.calls import RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.rows.shuffle import (
    OwnedRows,
    PartSize,
    Shuffle,
    ShuffleBlock,
    columns_of,
    owner_of,
    parts_of,
    size_of,
    stays_remote,
)
from gdatalog.cluster.rows.texts import makes_texts, placed_texts
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.derived import Derived, DistinctBlocks, remote_blocks
from gdatalog.engine.device import CPU
from gdatalog.engine.group_rows import rows_of_groups
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.join_plan import RulePlan, Slot
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.remote import Keeper, RemotePart, RemoteRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable


@dataclass(slots=True)
class Collector:
    """Collects the results of one rule's calls, and makes them a relation's rows."""

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    context: ExecutionContext
    blocks: list[Columns] = field(default_factory=list)  # fetched rows
    gathering: Gathering = field(init=False)  # fetched groups
    left: list[tuple[RemoteValue, PartSize]] = field(default_factory=list)
    held: int = 0  # bytes of fetched rows
    moved: int = 0  # bytes moved between workers to merge results

    def __post_init__(self) -> None:
        context = self.context
        self.gathering = Gathering(self.plan.gathers, CPU.ops, context.scope, context.limits)

    def add(self, found: CellResult) -> None:
        if found.blocks:
            self.blocks += found.blocks
            self.held += found.row_bytes
            self.context.limits.charge("answers", self.held)
        if found.gathering is not None:
            self.gathering.join(found.gathering)
        if found.left is not None and found.kept is not None:
            self.left.append((found.kept, found.left))

    def rows(self, distinct: bool) -> Derived:
        """The rows, of at least one column. `distinct`: calls gave disjoint rows."""
        if not self._few():
            parts = self._parts()
            if not distinct:
                nbytes = sum(part.nbytes for part in parts)
                told = f"{self.plan.relation}: distinct"
                shuffle = Shuffle.over(self.pool, told, self.context.limits, nbytes)
                owned = shuffle.distinct([part.value for part in parts])
                self.moved = sum(kept.summary.moved for kept in owned)
                parts, distinct, self.blocks = parts_of(owned), True, []
                self.left = [(kept, kept.summary) for kept in owned]
            if not self._few():
                return remote_blocks(RemoteRows(parts, self.keeper, KnownRows.DISTINCT))
        blocks = [*self.blocks, *map(columns_of, self._brought())]
        blocks = [block for block in blocks if len(block[0])]
        if distinct and len(blocks) > 1:
            return DistinctBlocks(blocks, sum(len(block[0]) for block in blocks))
        context = self.context
        sink = RowSet(
            self.plan.head, CPU.ops, context.scope, context.limits, None, context.thresholds
        )
        sink.add_blocks(blocks)
        return sink.finish()

    def groups(self) -> Derived:
        """The head's rows for all groups; several calls may have given parts of a group."""
        plan, limits, scope = self.plan, self.context.limits, self.context.scope
        if self._few():
            for value in self._brought():
                self.gathering.join(gathering_of(value))
            return rows_of_groups(plan, self.gathering, CPU.ops, scope)
        texts = tells_texts(plan)
        symbols = placed_texts(self.pool, scope.symbols) if texts else SymbolTable()
        merging = plan, CallContext.of(self.context, self.context.memory), symbols
        values: list[object] = [kept for kept, _ in self.left]
        if self.gathering.groups:
            values.append(self.gathering)
        nbytes = sum(left.nbytes for _, left in self.left)
        shuffle = Shuffle.over(self.pool, f"{plan.relation}: groups", limits, nbytes)
        pieces = shuffle.partition(values, split_groups, *merging)
        owned = shuffle.merge(pieces, merged_groups, *merging, summary=size_of)
        parts, self.moved = parts_of(owned), sum(kept.summary.moved for kept in owned)
        names = {expr.name for expr in plan.head if isinstance(expr, Slot)}
        apart = names.issuperset(key.name for key in plan.keys)
        return remote_blocks(
            RemoteRows(parts, self.keeper, KnownRows.DISTINCT if apart else KnownRows.NOTHING)
        )

    def _few(self) -> bool:
        return not stays_remote(sum(told.nbytes for _, told in self.left), self.context)

    def _parts(self) -> list[RemotePart]:
        left = (RemotePart(kept, told.rows, told.nbytes) for kept, told in self.left)
        return [*left, *map(RemotePart.of, self.blocks)]

    def _brought(self) -> list[Any]:
        values = [kept for kept, _ in self.left]
        told = f"{self.plan.relation}: fetch"
        return self.pool.bring(values, told, self.context.limits) if values else []


def merges_remotely(plan: RulePlan) -> bool:
    """Whether workers can merge a rule's groups."""
    alone = all(len(group) == 1 for group in plan.groups)
    return alone and bool(plan.keys) and not makes_texts(plan.head)


def tells_texts(plan: RulePlan) -> bool:
    """Whether merging groups needs texts: for aggregates over texts, or for error messages."""
    targets = [target for gather in plan.gathers for target in gather.targets]
    return any(expr.type == "symbol" for expr in (*plan.keys, *targets))


def gathering_of(value: Gathering | CellResult) -> Gathering:
    """The groups, or the groups of a cell's result."""
    found = value if isinstance(value, Gathering) else value.gathering
    assert found is not None
    return found


def _together(
    values: Sequence[Gathering | CellResult],
    plan: RulePlan,
    there: CallContext,
    symbols: SymbolTable,
) -> tuple[Gathering, Scope]:
    """All groups of some values."""
    context = there.here(symbols)
    whole = Gathering(plan.gathers, CPU.ops, context.scope, context.limits)
    for value in values:
        whole.join(gathering_of(value))
    return whole, context.scope


def split_groups(
    values: Sequence[Gathering | CellResult], owners: int, *merging: Any
) -> list[Gathering]:
    """Groups by owner. `merging`: the plan, the context and the symbols."""
    whole, _ = _together(values, *merging)
    return whole.dealt(owners, owner_of)


def merged_groups(pieces: Sequence[ShuffleBlock], plan: RulePlan, *merging: Any) -> OwnedRows:
    """The head's rows for an owner's groups."""
    whole, scope = _together([one.value for one in pieces], plan, *merging)
    rows, _ = rows_of_groups(plan, whole, CPU.ops, scope)
    return OwnedRows(rows, sum(one.moved for one in pieces))
