"""Groups that do not fit into memory: files of partial results, partitioned by key hash.

Partial results are written as one run sorted by the hash partition of their keys. At the end each
partition is aggregated separately; one that is still too large is divided again by another hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gdatalog.storage.rows import FACTOR, Columns, mix
from gdatalog.storage.spill import Spill
from gdatalog.storage.table import Array

PARTITION_BITS = 4  # of a hash that say the partition
DEALT_AT_ONCE = 1 << 17  # rows that are dealt, or read back, at a time


class SpilledGroups:
    """`width`: the number of key columns, which come first. `level`: how often the rows have been
    divided before."""

    def __init__(self, width: int, level: int) -> None:
        self.width = width
        self.level = level
        # Of partial results under None, and of distinct rows by the place of their aggregate: rows
        # by partition, and where the partitions' rows begin.
        self.files: list[tuple[int | None, Columns, Array]] = []

    def write(self, what: int | None, blocks: Sequence[Columns], spill: Spill) -> None:
        """Writes the rows of blocks, partition by partition."""
        rows = spill.columns(np.result_type(*parts) for parts in zip(*blocks, strict=True))
        dealt = [self._dealt(block[: self.width]) for block in blocks]
        bounds = [0]
        for number in range(1 << PARTITION_BITS):
            for block, (order, begins) in zip(blocks, dealt, strict=True):
                low, high = int(begins[number]), int(begins[number + 1])
                for start in range(low, high, DEALT_AT_ONCE):
                    part = order[start : min(high, start + DEALT_AT_ONCE)]
                    rows.append([column[part] for column in block])
            bounds.append(len(rows))
        self.files.append((what, rows.finish(), np.array(bounds)))

    def _dealt(self, keys: Sequence[Array]) -> tuple[Array, Array]:
        """The rows sorted by partition, and the start of each partition."""
        mixed = np.full(len(keys[0]), np.uint64(self.level + 1) * FACTOR)
        for key in keys:
            mixed ^= key.astype(np.int64).view(np.uint64)
            mix(mixed)
        owner = (mixed >> np.uint64(64 - PARTITION_BITS)).astype(np.uint8)
        order = np.argsort(owner, kind="stable").astype(np.int32)
        return order, np.searchsorted(owner[order], np.arange((1 << PARTITION_BITS) + 1))

    def partitions(self) -> Iterator[Iterator[tuple[int | None, Columns]]]:
        """Yields each partition's rows in blocks."""
        return (self._rows(number) for number in range(1 << PARTITION_BITS))

    def _rows(self, number: int) -> Iterator[tuple[int | None, Columns]]:
        for what, columns, bounds in self.files:
            low, high = int(bounds[number]), int(bounds[number + 1])
            for start in range(low, high, DEALT_AT_ONCE):
                part = slice(start, min(high, start + DEALT_AT_ONCE))
                yield what, tuple(column[part] for column in columns)


def lengths_of_groups(keys: Columns) -> Array:
    """The row count of each group, for rows sorted by group."""
    starts = [np.zeros(min(1, len(keys[0])), dtype=np.int64)]
    for start in range(1, len(keys[0]), DEALT_AT_ONCE):
        new = np.zeros(min(DEALT_AT_ONCE, len(keys[0]) - start), dtype=np.bool_)
        for key in keys:
            new |= key[start : start + DEALT_AT_ONCE] != key[start - 1 : start - 1 + len(new)]
        starts.append(np.flatnonzero(new) + start)
    lengths: Array = np.diff(np.append(np.concatenate(starts), len(keys[0])))
    return lengths
