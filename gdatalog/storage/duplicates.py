"""Duplicate rows, found by the cheapest test that decides; groups of equal rows, in files if large.

- Rows that lie in order: neighbours are compared.
- A column without equal values: no two rows are equal. A sample finds the column to look at.
- Rows that pack into 31 bits are sorted packed, and so are pairs that look like the edges of a
  graph, for an index of these would sort them again.
- Others get a hash of 32 bits each. The hashes are sorted, and only rows whose hashes are equal
  are compared. Where so many are equal that they tell little, the rows are sorted.

Every load asks this, so no compiler is started for it.

Partial results of groups that do not fit into memory are written to files, as one run sorted by
the hash partition of their keys. At the end each partition is aggregated separately; one that is
still too large is divided again by another hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from gdatalog.cancellation import cancellable, current_watch, working_space
from gdatalog.storage.on_device import KnownRows, rows_among
from gdatalog.storage.rows import (
    Columns,
    RowPacking,
    Span,
    ascending,
    firsts,
    order_rows,
    row_firsts,
    spans_of,
)
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.spill import Spill
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges, sort_values

ROOM = 24  # most bytes for each row of a search for duplicates
_PIECE = 1 << 16  # rows in one batch of comparisons with neighbours
MANY = 1 << 27  # rows: with 32-bit hashes, one in 64 collides
FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
_SAMPLE = 1 << 17  # values of a column: enough to find an equal pair among 2**31 values
_FIRST_SAMPLE = 1 << 11  # enough to find one among 2**20


def distinct_rows(
    rows: Columns, spans: Callable[[], Sequence[Span]] | None = None
) -> tuple[Columns, KnownRows]:
    """The rows without duplicates, and whether they are sorted now. Returns the same arrays if all
    rows differ and no sort was needed to find that out.

    `spans` returns what `spans_of` these rows returns, for a caller that caches it.
    """
    count = len(rows[0])
    if count < 2:
        return rows, KnownRows.SORTED
    marks = _in_order(rows)
    if marks is not None and marks.all():
        return rows, KnownRows.SORTED
    if current_watch().account.spill_for(ROOM * count) is not None:
        return sort_rows(rows), KnownRows.SORTED  # in files, which need less memory
    if marks is not None:
        return tuple(key[marks] for key in rows), KnownRows.SORTED
    if any(map(ascending, rows)):
        return rows, KnownRows.DISTINCT
    if len(rows) == 1:
        return sort_rows(rows), KnownRows.SORTED
    likely = next((key for key in rows if _differs_in_sample(key)), None)
    if likely is not None:
        found = _by_numbers(rows, likely)
        if found is not None:
            return found
    ends = cache(lambda: spans_of([rows])) if spans is None else spans
    packing = RowPacking.within(ends())
    short = packing is not None and sum(packing.bits) < 32
    edges = packing is not None and len(rows) == 2 and _overlap(*ends())
    if not edges and not short:
        with working_space("looking for duplicates", 4 * count):
            found = _by_numbers(rows, _hashes(rows))
        if found is not None:
            return found
    if packing is None:
        return sort_rows(rows), KnownRows.SORTED
    packed = packing.pack(rows)
    if short:  # half the width takes half the time
        packed = packed.astype(np.int32)
    packed = sort_values(packed)
    marks = firsts(packed)
    if marks.all() and not edges:
        return rows, KnownRows.DISTINCT
    packed = packed if marks.all() else packed[marks]
    packed = packed.astype(np.int64, copy=False)
    return packing.unpack(packed, [key.dtype for key in rows]), KnownRows.SORTED


def _overlap(left: Span, right: Span) -> bool:
    """Whether two columns have values in mostly the same range."""
    shared = min(left[1], right[1]) - max(left[0], right[0])
    return 2 * shared >= max(left[1], right[1]) - min(left[0], right[0])


def _in_order(rows: Columns) -> Array | None:
    """Which rows differ from the row before, if the rows are sorted; else None."""
    count = len(rows[0])
    marks = np.ones(count, dtype=np.bool_)
    for start in range(1, count, _PIECE):
        end = min(count, start + _PIECE)
        equal: Array = np.ones(end - start, dtype=np.bool_)
        for key in rows:
            before, here = key[start - 1 : end - 1], key[start:end]
            if (equal & (here < before)).any():
                return None
            equal &= here == before
            if not equal.any():
                break
        marks[start:end] = ~equal
    return marks


def _differs_in_sample(key: Array) -> bool:
    """Whether samples of a column, a small one first, have no value twice."""
    samples = (key[:: max(1, len(key) // size)] for size in (_FIRST_SAMPLE, _SAMPLE))
    return all(bool(firsts(np.sort(sample)).all()) for sample in samples)


def _by_numbers(rows: Columns, numbers: Array) -> tuple[Columns, KnownRows] | None:
    """The rows without duplicates; equal rows have equal `numbers`. None if too many numbers are
    equal to be selective."""
    count = len(numbers)
    ordered = sort_values(numbers)
    equal = ordered[1:] == ordered[:-1]
    many = int(np.count_nonzero(equal))
    if many == 0:
        return rows, KnownRows.DISTINCT
    if many > count // 16:
        return None
    again = ordered[np.flatnonzero(equal)]
    doubtful = rows_among(numbers, again[firsts(again)])
    few = sort_rows([key[doubtful] for key in rows])
    if len(few[0]) == len(doubtful):
        return rows, KnownRows.DISTINCT
    sure = np.ones(count, dtype=np.bool_)
    sure[doubtful] = False
    kept = tuple(np.append(key[sure], more) for key, more in zip(rows, few, strict=True))
    return kept, KnownRows.DISTINCT


def _hashes(rows: Columns) -> Array:
    """A hash of each row: 32 bits, or 64 bits if there are so many rows that 32 bits would always
    collide."""
    count = len(rows[0])
    if count > MANY:
        return row_numbers(rows)
    hashes = np.zeros(count, dtype=np.uint32)

    def fill(part: slice) -> None:
        mine = hashes[part]
        for column in rows:
            mine += _short(column[part])
            mine *= np.uint32(0x9E37_79B1)
            mine ^= mine >> np.uint32(15)  # high bits decide, too

    in_ranges(fill, count)
    return hashes.view(np.int32)


def _short(values: Array) -> Array:
    """A 32-bit number for each value."""
    if values.dtype.itemsize == 4:
        return values.view(np.uint32)
    mixed = values.view(np.uint64) * FACTOR
    mixed >>= np.uint64(32)
    return mixed.astype(np.uint32)


def row_numbers(rows: Columns) -> Array:
    """A 64-bit hash of each row, which does not depend on the width of its columns."""
    numbers = np.empty(len(rows[0]), dtype=np.uint64)

    def fill(part: slice) -> None:
        mine: Array = np.zeros(part.stop - part.start, dtype=np.uint64)
        for column in rows:
            mine ^= column[part].astype(np.int64).view(np.uint64)
            mix(mine)
        numbers[part] = mine

    in_ranges(fill, len(numbers))
    return numbers.view(np.int64)


def mix(numbers: Array) -> None:
    """Mixes 64-bit numbers in place, so that each bit depends on all bits."""
    numbers *= FACTOR
    numbers ^= numbers >> np.uint64(32)


# Numbers groups of equal rows: with a table if there are few possible rows, else with a sort.

# Maximum entries of a table for groups: per row, or in all.
COUNTED, SMALL = 2, 1 << 12


def group_rows(columns: Sequence[Array], length: int) -> tuple[Array, Array]:
    """(first, groups): the first row of each distinct row, and for each row its group's number.

    Groups are numbered in the order of the rows' values.
    """
    if not columns:
        return np.zeros(min(1, length), dtype=np.int64), np.zeros(length, dtype=np.int64)
    with working_space("grouping", 48 * length):
        return cancellable(length, lambda: _group_rows(columns, length))


def _group_rows(columns: Sequence[Array], length: int) -> tuple[Array, Array]:
    packing, row_bits = RowPacking.of(columns), (length - 1).bit_length()
    bits = 0 if packing is None else sum(packing.bits)
    if packing is not None and 1 << bits <= max(COUNTED * length, SMALL):
        return _counted_groups(packing.pack(columns), length)
    if packing is None or bits + row_bits > 63:
        order = order_rows(columns)
        marks = row_firsts([column[order] for column in columns])
        return order[marks], _numbered(order, marks)
    packed = packing.pack(columns)
    # A sort of plain integers is faster than one that also moves the rows' numbers.
    packed <<= row_bits
    packed |= np.arange(length)
    packed = sort_values(packed, own=True)
    order = packed & ((1 << row_bits) - 1)
    marks = firsts(packed >> row_bits)
    return order[marks], _numbered(order, marks)


def _counted_groups(packed: Array, length: int) -> tuple[Array, Array]:
    """Groups rows with small numbers: each number is looked up in a table."""
    counts = np.bincount(packed)
    present = np.flatnonzero(counts)
    groups = packed
    if len(present) < len(counts):
        numbers = np.empty(len(counts), dtype=np.int64)
        numbers[present] = np.arange(len(present))
        groups = numbers[packed]
    few = 16 * len(present)  # rows: usually enough to find each group
    first = _first_of(groups[:few], len(present))
    if few < length and int(first.min()) < 0:
        first = _first_of(groups, len(present))
    return first, groups


def _first_of(groups: Array, count: int) -> Array:
    """The first row of each group; -1 where there is none."""
    first = np.full(count, -1, dtype=np.int64)
    first[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)  # the last assignment stays
    return first


def _numbered(order: Array, marks: Array) -> Array:
    """The group number of each row, from the sorted order and the first row of each group."""
    groups, numbers = np.empty(len(order), dtype=np.int64), np.cumsum(marks) - 1

    def fill(part: slice) -> None:  # one large call would hold the GIL
        groups[order[part]] = numbers[part]

    in_ranges(fill, len(order))
    return groups


# Groups that do not fit into memory: files of partial results, partitioned by key hash.


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
