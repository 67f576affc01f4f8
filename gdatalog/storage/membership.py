"""Tests which rows are in a set, by searching.

The set is sorted, unless the rows are few: then one pass finds the candidates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, in_sorted, sorted_set
from gdatalog.storage.selection import rows_among
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.table import Array

SEARCHED_ALONE = 8  # rows up to which each is searched for by itself
LEAST_SORTED = 4096  # rows: for fewer, a pass over a column is faster than a sort of all


def held_by(store: RowStore, rows: Columns) -> Array:
    """A mask of the rows that are in a set, by searching."""
    if store.known < KnownRows.SORTED and len(rows[0]) <= LEAST_SORTED < store.at_most:
        return places_in(sort_rows(_candidates(store.as_they_are(), rows)), rows)[1]
    return places_in(store.sorted(), rows)[1]


def _candidates(among: Columns, rows: Columns) -> Columns:
    """The rows of a set, in any order, whose value in each column occurs there in `rows`."""
    wanted = [sorted_set(column) for column in rows]
    kept = rows_among(among[0], wanted[0])
    for column, values in zip(among[1:], wanted[1:], strict=True):
        kept = kept[in_sorted(column[kept], values)]
    return tuple(column[kept] for column in among)


def places_in(among: Columns, rows: Columns) -> tuple[Array, Array]:
    """The position of each row among sorted rows with columns of the same width, and whether it is
    there. Narrows the bounds column by column."""
    count = len(rows[0])
    if count <= SEARCHED_ALONE:
        searched = [column.data for column in among]  # bisected faster than an array
        places_of = [
            _place_of(searched, row) for row in zip(*[c.tolist() for c in rows], strict=True)
        ]
        places = np.array([at for at, _ in places_of], dtype=np.int64)
        return places, np.array([there for _, there in places_of], dtype=np.bool_)
    inside = np.ones(count, dtype=np.bool_)
    start: Array = np.zeros(count, dtype=np.int64)
    end: Array = np.full(count, len(among[0]), dtype=np.int64)
    for at, (column, values) in enumerate(zip(among, rows, strict=True)):
        wanted = values
        if wanted.dtype != column.dtype:  # NumPy would widen the long column
            if column.dtype == np.int32:
                inside &= (wanted >= INT32_MIN) & (wanted <= INT32_MAX)
            wanted = wanted.astype(column.dtype)
        if at == 0:
            start = np.searchsorted(column, wanted, side="left")
            end = np.searchsorted(column, wanted, side="right")
        else:
            left = _bound(column, wanted, start, end, False)
            end = _bound(column, wanted, left, end, True)
            start = left
    inside &= start < end
    return start, inside


def _place_of(among: Sequence[memoryview], row: Sequence[int]) -> tuple[int, bool]:
    """The position of one row among sorted rows, and whether it is there."""
    low, high = 0, len(among[0])
    for column, key in zip(among, row, strict=True):
        low = bisect_left(column, key, low, high)
        if low == high or column[low] != key:
            return low, False
        high = bisect_right(column, key, low, high)
    return low, True


def _bound(column: Array, wanted: Array, start: Array, end: Array, behind: bool) -> Array:
    """The position of each value between its bounds: before equal values, or after them if
    `behind`."""
    low, high = start, end
    last = len(column) - 1
    for _ in range(int((end - start).max(initial=0)).bit_length()):
        unsure = low < high
        middle = (low + high) >> 1
        there = column[np.minimum(middle, last)]
        onwards = ((there <= wanted) if behind else (there < wanted)) & unsure
        low = np.where(onwards, middle + 1, low)
        high = np.where(unsure & ~onwards, middle, high)
    return low
