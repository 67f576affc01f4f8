"""Duplicate rows, found by the cheapest test that decides; numbers of groups of equal rows.

- Rows that lie in order: neighbours are compared.
- A column without equal values: no two rows are equal. A sample finds the column to look at.
- Rows that pack into 31 bits are sorted packed, and so are pairs that look like the edges of a
  graph, for an index of these would sort them again.
- Others get a hash of 32 bits each. The hashes are sorted, and only rows whose hashes are equal
  are compared. Where so many are equal that they tell little, the rows are sorted.

Every load asks this, so no compiler is started for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from gdatalog.cancellation import current_watch, working_space
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.rows import (
    FACTOR,
    Columns,
    RowPacking,
    Span,
    ascending,
    firsts,
    mix,
    spans_of,
)
from gdatalog.storage.selection import rows_among
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges, sort_values

ROOM = 24  # most bytes for each row of a search for duplicates
_PIECE = 1 << 16  # rows in one batch of comparisons with neighbours
MANY = 1 << 27  # rows: with 32-bit hashes, one in 64 collides
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
