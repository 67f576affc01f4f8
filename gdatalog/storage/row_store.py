"""The rows of a relation as they arrived, made distinct and sorted on demand.

Rows arrive in blocks: from data (in any order, perhaps with duplicates), or from the threads of an
executor (distinct). Sorting millions of rows costs more than most queries on them, and is often
unnecessary: an export takes any order, and an index sorts only its own columns.

Rows that a device has made stay there until code on the host needs them; then they are copied once.
Counting needs no copy, and the device builds its own tries from them in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, current_watch
from gdatalog.overhead import spending
from gdatalog.storage.duplicates import distinct_rows
from gdatalog.storage.kept import Kept
from gdatalog.storage.on_device import DeviceStore, KnownRows
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.rows import DENSE, INT32_MAX, INT32_MIN, Columns, Span, mix, spans_of
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.spill import held_bytes, is_spilled
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, in_ranges, spread
from gdatalog.storage.trie import Trie, TrieName

# Fewer rows than these are sorted when they are made: it costs nothing, and people read them in
# order.
SORTED_BELOW = 1 << 14

Fingerprint = tuple[int, tuple[tuple[str, int], ...]]  # the number of rows, and hashes of columns


class RowStore:
    """A set of rows of at least one column."""

    def __init__(
        self, blocks: Sequence[Columns], count: int, known: KnownRows, ops: DeviceOps | None = None
    ) -> None:
        """`ops`: the operations of the device on which the blocks lie, if they lie on one."""
        self.on_device = None if ops is None else DeviceStore(ops, blocks, count, known)
        self.on_host = ops is None  # whether the rows are in host memory, perhaps on both
        self._blocks = list(blocks) if self.on_host else []
        self._plain = known == KnownRows.SORTED  # one block, in 32 bits if they suffice
        self._count = count
        self._known = known
        self._spans: list[Span] | None = None
        self._lock = RLock()
        self.tries_there: Mapping[TrieName, Trie] = {}  # the tries that a device caches
        self.kept: dict[Kept[Any], Any] = {}

    @staticmethod
    def lying(rows: DeviceStore) -> RowStore:
        """The store of rows that a device has."""
        found = RowStore([], rows.count, rows.known, rows.ops)
        found.on_device = rows
        return found

    def __reduce__(self) -> tuple[type[RowStore], tuple[list[Columns], int, KnownRows]]:
        with self._lock:
            self._bring()
            return RowStore, (self._blocks, self._count, self._known)

    # ------------------------------------------------------------------------------ on a device

    @property
    def _there(self) -> DeviceStore | None:
        """The rows on a device, if they are only there."""
        return None if self.on_host else self.on_device

    def lay(self, ops: DeviceOps) -> DeviceStore:
        """The rows on a device: copied there at the first call, then cached."""
        with self._lock:
            found = self.on_device
            if found is None or found.ops is not ops:
                self._bring()
                rows = self.as_they_are()
                with spending("moving", sum(column.nbytes for column in rows)):
                    rows = tuple(map(ops.xp.asarray, rows))
                found = DeviceStore(ops, [rows], self._count, self._known)
                self.on_device = found
            return found

    def let_go(self) -> None:
        """Frees the rows on a device; rows that are only there are copied to the host first."""
        with self._lock:
            self._bring()
            for answer in list(self.on_device.answers) if self.on_device is not None else ():
                answer.leave()
            self.on_device = None

    def _bring(self) -> None:
        """Copies the rows to the host, if they are not there."""
        if self.on_host:
            return
        with self._lock:
            device_rows = self._there
            if device_rows is None:
                return
            if device_rows.count < SORTED_BELOW:
                device_rows.sorted()
            self._blocks = [device_rows.fetched()]
            self._count, self._known = device_rows.count, device_rows.known
            self._plain = True
            self.on_host = True

    # ----------------------------------------------------------------------------------- rows

    @property
    def known(self) -> KnownRows:
        device_rows = self._there
        return self._known if device_rows is None else device_rows.known

    @property
    def at_most(self) -> int:
        """The number of rows, duplicates counted."""
        device_rows = self.on_device
        return self._count if device_rows is None else min(self._count, device_rows.count)

    @property
    def count(self) -> int:
        """The number of distinct rows; a device that has them makes them distinct."""
        device_rows = self.on_device
        if device_rows is None:
            self.distinct()
        elif self._known < KnownRows.DISTINCT:
            with self._lock:
                device_rows.distinct()
        return self.at_most

    @property
    def blocks(self) -> list[Columns]:
        self._bring()
        return self._blocks

    @property
    def nbytes(self) -> int:
        device_rows = self._there
        if device_rows is not None:
            return device_rows.nbytes
        return sum([held_bytes(column) for block in self._blocks for column in block])

    def where_they_lie(self) -> tuple[list[Columns], DeviceStore | None]:
        """The rows in any order, in blocks; and the device, if they are only there."""
        device_rows = self._there
        if device_rows is None:
            return self.distinct(), None
        with self._lock:
            return [
                device_rows.sorted() if device_rows.count < SORTED_BELOW else device_rows.distinct()
            ], device_rows

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Identifies the rows within this process. None if there are many rows, or if it would take
        a sort or a copy."""
        if not self.on_host or self.known != KnownRows.SORTED or self.at_most >= SORTED_BELOW:
            return None
        return self.count, tuple((c.dtype.str, hash(c.tobytes())) for c in self.sorted())

    @property
    def spans(self) -> list[Span]:
        """The least and the greatest value of each column; empty if there are no rows."""
        if self._spans is None:
            self._spans = spans_of(self.blocks)
        return self._spans

    @property
    def spilled(self) -> bool:
        """Whether the rows are in temporary files."""
        return self.on_host and bool(self._blocks) and is_spilled(self._blocks[0][0])

    def keep_as_it_is(self) -> None:
        """Marks one block's columns as having their final width."""
        self._plain = self.on_host and len(self._blocks) == 1

    def as_they_are(self) -> Columns:
        """The rows in any order; there may be duplicates."""
        self._bring()
        if not self._plain:
            with self._lock:
                blocks = self._blocks
                self._blocks = [cancellable(self._count, lambda: _joined(blocks))]
                self._plain = True
        return self._blocks[0]

    def distinct(self) -> list[Columns]:
        """The rows in any order, in blocks."""
        if self.on_host and self._known >= KnownRows.DISTINCT:
            return self._blocks
        device_rows = self._there
        if device_rows is not None:  # removes duplicates before the copy
            with self._lock:
                device_rows.distinct()
        self._bring()
        with self._lock:
            if self._known < KnownRows.DISTINCT:
                self._make_distinct()
        return self._blocks

    def sorted(self) -> Columns:
        """The rows, sorted."""
        if self.on_host and self._known == KnownRows.SORTED:
            return self._blocks[0]
        device_rows = self._there
        if device_rows is not None:
            with self._lock:
                device_rows.sorted()
        self._bring()
        with self._lock:
            if self._known < KnownRows.SORTED:
                self._hold(sort_rows(self.as_they_are()), KnownRows.SORTED)
        return self._blocks[0]

    def mirrored(self) -> bool:
        """Whether two columns may have the same values, each equally often: a quick test that each
        symmetric relation passes. It sorts only to remove duplicates."""
        left, _ = self.as_they_are()
        if len(left) == 0:
            return True
        if len(left) >= cancellation.LATE:
            return cancellable(len(left), self._mirrored)
        return self._mirrored()

    def _mirrored(self) -> bool:
        (left, right), (span, other) = self.as_they_are(), self.spans
        if not _alike(left, right, span, other):
            return False
        self.distinct()
        return len({_mixed_sum(column) for column in self.as_they_are()}) == 1

    def _hold(self, rows: Columns, known: KnownRows) -> None:
        # In this order, because threads read `known` without the lock.
        self._blocks = [rows]
        self._count = len(rows[0])
        self._known = known

    def _make_distinct(self) -> None:
        rows = self.as_they_are()
        if self._count < SORTED_BELOW:
            self._hold(sort_rows(rows), KnownRows.SORTED)
        else:
            found = cancellable(self._count, lambda: distinct_rows(rows, lambda: self.spans))
            self._hold(*found)


def _joined(blocks: Sequence[Columns]) -> Columns:
    """All rows in one block; columns take 32 bits where they fit."""
    count = sum(len(block[0]) for block in blocks)
    columns = range(len(blocks[0]))
    return tuple(
        spread(lambda at: joined_column([block[at] for block in blocks]), columns, count >= LONG)
    )


def joined_column(parts: Sequence[Array]) -> Array:
    """The parts of a column, concatenated; in 32 bits where they fit."""
    long = [part for part in parts if part.dtype != np.int32 and len(part)]
    fits = all(int(part.min()) >= INT32_MIN and int(part.max()) <= INT32_MAX for part in long)
    dtype = np.dtype(np.int32 if fits else np.int64)
    if len(parts) == 1 and parts[0].dtype == dtype:
        return parts[0]
    length = sum(map(len, parts))
    spill = current_watch().account.spill_for(length * dtype.itemsize)
    if spill is not None:
        return spill.joined(parts, dtype)
    whole = np.empty(length, dtype=dtype)
    np.concatenate(parts, out=whole, casting="unsafe")
    return whole


def _alike(left: Array, right: Array, span: Span, other: Span) -> bool:
    """Whether two columns may have the same values; False if they certainly differ."""
    if span != other:
        return False
    low, high = span
    if high - low >= DENSE * len(left):
        return True
    marks = np.zeros((2, high - low + 1), dtype=np.bool_)
    for mine, column in zip(marks, (left, right), strict=True):
        mine[column - low if low else column] = True
    return bool((marks[0] == marks[1]).all())


def _mixed_sum(column: Array) -> int:
    """A hash that is equal for two columns with the same values, each occurring as often."""
    sums: list[int] = []

    def add(part: slice) -> None:
        mine = column[part].astype(np.int64).view(np.uint64)
        mix(mine)
        sums.append(int(mine.sum()))

    in_ranges(add, len(column))
    return sum(sums) % (1 << 64)
