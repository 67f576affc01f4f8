"""The output of rules: rows as an executor returns them, and the relation that they form.

Columns are arrays of a device or of NumPy; where both meet, all go to the device. Rows from a
cluster may stay there, and so does a relation of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog.executors.ops import Ops
from gdatalog.records import dataclass
from gdatalog.storage.on_device import KnownRows, brought, is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart, RemoteRows
from gdatalog.storage.row_ops import RowOps
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.rows import Columns, row_firsts
from gdatalog.storage.spill import held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import TypeName

# Sorted distinct rows, and their number.
Rows = tuple[Columns, int]


@dataclass(frozen=True, slots=True)
class DistinctBlocks:
    """Unsorted distinct rows from several threads, `count` in all; or rows of a cluster, which may
    contain duplicates, and whose blocks are fetched on first access."""

    near: Sequence[Columns]
    count: int
    far: RemoteRows | None = None

    @property
    def blocks(self) -> Sequence[Columns]:
        return self.near if self.far is None else self.far.distinct()


Derived = Rows | DistinctBlocks

# The rows of relations without rules.
Seeds = Mapping[str, Sequence[Derived]]


def remote_blocks(rows: RemoteRows) -> DistinctBlocks:
    """Wraps rows of a cluster as a rule's output."""
    return DistinctBlocks((), rows.at_most, rows)


def far_rows(derived: Derived) -> RemoteRows | None:
    return derived.far if isinstance(derived, DistinctBlocks) else None


def blocks_of(derived: Derived) -> Sequence[Columns]:
    return derived.blocks if isinstance(derived, DistinctBlocks) else [derived[0]]


def count_of(derived: Derived) -> int:
    """The number of rows, or an upper bound while duplicates are not known."""
    return derived.count if isinstance(derived, DistinctBlocks) else derived[1]


def nbytes_of(derived: Derived) -> int:
    """The bytes of memory that the columns hold."""
    if far_rows(derived) is not None:
        return 0
    return sum(held_bytes(column) for block in blocks_of(derived) for column in block)


def laid(rows: Columns, ops: RowOps) -> Columns:
    """Moves columns to where the operations are."""
    return tuple(map(ops.xp.asarray, rows))


def in_order(derived: Derived, ops: Ops) -> Rows:
    """Returns the rows sorted."""
    if not isinstance(derived, DistinctBlocks):
        return derived
    filled = [laid(block, ops) for block in derived.blocks if block and len(block[0])]
    if not filled:
        return (derived.blocks[0] if derived.blocks else ()), derived.count
    rows = ops.merge_rows(filled)
    return rows, len(rows[0])


def one_after_another(blocks: Sequence[Columns], stretch: int) -> Rows | None:
    """Concatenates sorted blocks of disjoint rows in sorted order if they interleave in few runs,
    as blocks of threads that take one piece of work after the other do. Returns None if runs have
    fewer than `stretch` rows on average."""
    blocks = [block for block in blocks if len(block[0])]
    if not blocks:
        return None
    total = sum(len(block[0]) for block in blocks)
    # Where the first column changes; if that is ambiguous, where the first two do.
    for depth in range(1, min(2, len(blocks[0])) + 1):
        starts = [np.flatnonzero(row_firsts(block[:depth])) for block in blocks]
        if sum(map(len, starts)) * stretch > total:
            return None
        heads = tuple(
            np.concatenate([block[at][start] for block, start in zip(blocks, starts, strict=True)])
            for at in range(depth)
        )
        ordered = np.lexsort(heads[::-1])
        if all(map(bool, row_firsts(tuple(head[ordered] for head in heads)))):
            break
    else:
        return None
    ends = [
        np.append(start[1:], len(block[0])) for block, start in zip(blocks, starts, strict=True)
    ]
    which = np.repeat(np.arange(len(blocks)), list(map(len, starts)))[ordered]
    low, high = np.concatenate(starts)[ordered], np.concatenate(ends)[ordered]
    cuts = np.flatnonzero((which[1:] != which[:-1]) | (low[1:] != high[:-1])) + 1
    first, last = np.append(0, cuts), np.append(cuts, len(which)) - 1
    stretches = list(
        zip(which[first].tolist(), low[first].tolist(), high[last].tolist(), strict=True)
    )

    def column(at: int) -> Array:
        found: Array = np.concatenate(
            [blocks[which][at][low:high] for which, low, high in stretches]
        )
        return found

    columns = tuple(spread(column, range(len(blocks[0])), total >= LONG))
    return columns, total


def together(parts: Sequence[Derived]) -> Derived:
    """Concatenates row sets; the result may have duplicates."""
    if len(parts) == 1:
        return parts[0]
    blocks = [block for part in parts for block in blocks_of(part)]
    return DistinctBlocks(blocks, sum(map(count_of, parts)))


def union_rows(parts: Sequence[Derived], ops: Ops) -> Rows:
    """The sorted distinct rows of several row sets."""
    filled = [part for part in parts if count_of(part)]
    if len(filled) == 1:
        return in_order(filled[0], ops)
    blocks = [block for part in filled or parts[:1] for block in blocks_of(part)]
    return in_order(DistinctBlocks(blocks, min(1, len(filled))), ops)


def relation_of(
    columns: tuple[str, ...], types: tuple[TypeName, ...], parts: Sequence[Derived], ops: Ops
) -> Relation:
    """The union of complete row sets as a relation, which is sorted on demand."""
    filled = [part for part in parts if count_of(part)]
    if len(filled) == 1 and isinstance(filled[0], tuple) and all(map(is_on_host, filled[0][0])):
        rows, count = filled[0]
        return Relation(columns, types, tuple([joined_column([c]) for c in rows]), count)
    far = next((store for part in filled if (store := far_rows(part)) is not None), None)
    if far is not None:
        lying = [one for part in filled for one in _parts_of(part)]
        distinct = len(filled) == 1 and far.known >= KnownRows.DISTINCT
        return Relation.of_parts(columns, types, lying, far.keeper, distinct)
    blocks = [block for part in filled for block in blocks_of(part)]
    count = sum(map(count_of, filled))
    there = ops.on_device
    here = [is_on_host(column) for block in blocks for column in block]
    if there is not None and any(here):
        size = sum(column.nbytes for block in blocks for column in block)
        if all(here) or size > there.driver.free_memory() // 2:
            blocks, there = [tuple(map(brought, block)) for block in blocks], None
    if there is not None:
        blocks = [laid(block, there) for block in blocks]
    if len(filled) == 1 and not isinstance(filled[0], DistinctBlocks):
        rows = blocks[0] if there is not None else tuple(joined_column([c]) for c in blocks[0])
        return Relation(columns, types, rows, count, there)
    return Relation.of_blocks(columns, types, blocks, count, len(filled) == 1, there)


def _parts_of(derived: Derived) -> Sequence[RemotePart]:
    """A rule's output for a remote relation; local rows are sent there when needed."""
    far = far_rows(derived)
    if far is not None:
        return far.parts
    here = [tuple(map(brought, block)) for block in blocks_of(derived) if len(block[0])]
    return list(map(RemotePart.of, here))
