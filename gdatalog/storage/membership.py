"""Tests which rows are in a set: with a bit for each possible row, or by searching.

The bitmap of a dense set, such as a closure, takes a fraction of its memory, and a test is one
access. Other sets are sorted and searched. For a few rows an unsorted set is not sorted: one pass
finds the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gdatalog.storage.on_device import KnownRows, rows_among
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, in_sorted, sorted_set, spans_of
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.values import INT_MAX, INT_MIN

MANY = 1 << 15  # rows: smaller sets are not worth a bitmap
MOST = 1 << 22  # most bits that `rows_with` tests
FEW = 4096  # rows: for fewer, a pass over a column is faster than a sort of all


class RowBits:
    """A bitmap with one bit for each possible row between the least and the greatest values."""

    __slots__ = ("_bits", "_high", "_low")

    def __init__(self, blocks: Sequence[Columns], low: Sequence[int], high: Sequence[int]) -> None:
        self._low, self._high = tuple(low), tuple(high)
        marks = np.zeros(_room(low, high), dtype=np.bool_)
        for rows in blocks:

            def mark(part: slice, rows: Columns = rows) -> None:
                marks[self._places([column[part] for column in rows])] = True

            in_ranges(mark, len(rows[0]))
        self._bits = np.packbits(marks, bitorder="little")

    @staticmethod
    def of(store: RowStore, more: Columns = ()) -> RowBits | None:
        """The bitmap of a set of rows, with room for `more` and some others; None if it takes too
        much memory, compared with the rows."""
        if store.at_most <= MANY:
            return None
        spans = [store.spans, spans_of([more] if more else [])]
        low = [min(ends)[0] for ends in zip(*filter(None, spans), strict=True)]
        high = [max(b for _, b in ends) for ends in zip(*filter(None, spans), strict=True)]
        spare = [((b - a) >> 5) + 16 for a, b in zip(low, high, strict=True)]
        for room in (spare, [0] * len(spare)):
            bounds = [max(INT_MIN, a - s) for a, s in zip(low, room, strict=True)]
            ends = [min(INT_MAX, b + s) for b, s in zip(high, room, strict=True)]
            if _room(bounds, ends) <= store.nbytes:
                return RowBits(store.blocks, bounds, ends)
        return None

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    def fits(self, rows: Columns) -> bool:
        """Whether each of these rows has a bit."""
        return all(
            int(column.min()) >= low and int(column.max()) <= high
            for column, low, high in zip(rows, self._low, self._high, strict=True)
        )

    def add(self, rows: Columns) -> Array:
        """Adds distinct rows that fit; returns the indices of the rows that are new."""
        places = self._places(rows)
        at, bit = places >> 3, np.left_shift(np.uint8(1), (places & 7).astype(np.uint8))
        new: Array = np.flatnonzero((self._bits[at] & bit) == 0)
        np.bitwise_or.at(self._bits, at[new], bit[new])
        return new

    def rows_with(self, column: int, values: Array) -> Columns | None:
        """The rows with one of some distinct values in a column; None if that takes long."""
        sizes = [high - low + 1 for low, high in zip(self._low, self._high, strict=True)]
        low, size = self._low[column], sizes[column]
        strides = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
        values = values[(values >= low) & (values <= self._high[column])]
        if prod(sizes) // size * len(values) > MOST:
            return None
        places = (values.astype(np.int64) - low) * strides[column]
        for at, (other, stride) in enumerate(zip(sizes, strides, strict=True)):
            if at != column:
                places = (places[:, None] + np.arange(other, dtype=np.int64) * stride).ravel()
        places = places[(self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 > 0]
        return tuple(
            places // stride % other + least
            for stride, other, least in zip(strides, sizes, self._low, strict=True)
        )

    def _places(self, rows: Sequence[Array]) -> Array:
        places: Array = np.zeros(len(rows[0]), dtype=np.int64)
        for column, low, high in zip(rows, self._low, self._high, strict=True):
            places *= high - low + 1
            places += column
            places -= low
        return places


def _room(low: Sequence[int], high: Sequence[int]) -> int:
    """The number of possible rows."""
    return prod(b - a + 1 for a, b in zip(low, high, strict=True))


def held_by(store: RowStore, rows: Columns) -> Array:
    """A mask of the rows that are in a set, by searching."""
    if store.known < KnownRows.SORTED and len(rows[0]) <= FEW < store.at_most:
        candidates = _candidates(store.as_they_are(), rows)
        return _search(sort_rows(candidates), rows)
    return _search(store.sorted(), rows)


def _candidates(among: Columns, rows: Columns) -> Columns:
    """The rows of a set, in any order, whose value in each column occurs there in `rows`."""
    wanted = [sorted_set(column) for column in rows]
    kept = rows_among(among[0], wanted[0])
    for column, values in zip(among[1:], wanted[1:], strict=True):
        kept = kept[in_sorted(column[kept], values)]
    return tuple(column[kept] for column in among)


def _search(among: Columns, rows: Columns) -> Array:
    """A mask of the rows that are among sorted rows."""
    return places_in(among, rows)[1]


def places_in(among: Columns, rows: Columns) -> tuple[Array, Array]:
    """The position of each row among sorted rows with columns of the same width, and whether it is
    there. Narrows the bounds column by column."""
    count = len(rows[0])
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
