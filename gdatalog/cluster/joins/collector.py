"""Collects the results of a rule's cells: few are fetched, many stay on the workers.

The driver merges few rows or groups. Many rows stay on the workers as parts of a relation; many
groups are merged there, by an owner for each hash of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.cluster.joins import CellResult
from gdatalog.cluster.pool import Pool, RemoteValue
from gdatalog.cluster.rows import (
    OwnedRows,
    PartSize,
    Shuffle,
    ShuffleBlock,
    columns_of,
    owner_of,
    parts_of,
    size_of,
)
from gdatalog.cluster.rows.texts import makes_texts, placed_texts
from gdatalog.cluster.workers import CallContext
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.derived import Derived, DistinctBlocks, remote_blocks, rows_of_groups
from gdatalog.engine.device import CPU
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan import RulePlan, Slot
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.remote import Keeper, RemotePart, RemoteRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable

SHARE = 8  # results up to this fraction of the memory limit are fetched


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
        if found.left is not None:
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
        sink = RowSet(self.plan.head, CPU.ops, context.scope, context.limits, None, context.tuning)
        sink.add_blocks(blocks)
        return sink.finish()

    def groups(self) -> Derived:
        """The head's rows for all groups; several calls may have given parts of a group."""
        plan, limits, scope = self.plan, self.context.limits, self.context.scope
        if self._few():
            for value in self._brought():
                self.gathering.join(gathering_of(value))
            return rows_of_groups(plan, self.gathering, CPU.ops, scope)
        merging = GroupMerge(plan, CallContext.of(self.context, self.context.memory))
        texts = tells_texts(plan)
        symbols = placed_texts(self.pool, scope.symbols) if texts else SymbolTable()
        values: list[Any] = [kept for kept, _ in self.left]
        if self.gathering.groups:
            values.append(self.gathering)
        nbytes = sum(left.nbytes for _, left in self.left)
        shuffle = Shuffle.over(self.pool, f"{plan.relation}: groups", limits, nbytes)
        pieces = shuffle.partition(values, split_groups, merging, symbols)
        owned = shuffle.merge(pieces, merged_groups, merging, symbols, summary=size_of)
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


def stays_remote(nbytes: int, context: ExecutionContext) -> bool:
    """Whether results of so many bytes stay on the workers."""
    return nbytes > min(context.tuning.fetched_bytes, context.memory // SHARE)


def merges_remotely(plan: RulePlan) -> bool:
    """Whether workers can merge a rule's groups."""
    alone = all(len(group) == 1 for group in plan.groups)
    return alone and bool(plan.keys) and not makes_texts(plan.head)


def tells_texts(plan: RulePlan) -> bool:
    """Whether merging groups needs texts: for aggregates over texts, or for error messages."""
    targets = [target for gather in plan.gathers for target in gather.targets]
    return any(expr.type == "symbol" for expr in (*plan.keys, *targets))


# ------------------------------------------------------------------------------- on a worker


def gathering_of(value: Any) -> Gathering:
    """The groups, or the groups of a cell's result."""
    found: Gathering = value if isinstance(value, Gathering) else value.gathering
    return found


@dataclass(frozen=True, slots=True)
class GroupMerge:
    """What merging a rule's groups needs."""

    plan: RulePlan
    context: CallContext

    def together(self, values: Sequence[Any], symbols: SymbolTable) -> tuple[Gathering, Scope]:
        context = self.context.here(symbols)
        whole = Gathering(self.plan.gathers, CPU.ops, context.scope, context.limits)
        for value in values:
            whole.join(gathering_of(value))
        return whole, context.scope


def split_groups(
    values: Sequence[Any], owners: int, merging: GroupMerge, symbols: SymbolTable
) -> list[Gathering]:
    """Groups by owner."""
    whole, _ = merging.together(values, symbols)
    return whole.dealt(owners, owner_of)


def merged_groups(
    pieces: Sequence[ShuffleBlock], merging: GroupMerge, symbols: SymbolTable
) -> OwnedRows:
    """The head's rows for an owner's groups."""
    whole, scope = merging.together([one.value for one in pieces], symbols)
    rows, _ = rows_of_groups(merging.plan, whole, CPU.ops, scope)
    return OwnedRows(rows, sum(one.moved for one in pieces))
