"""Sets of rows, held as columns of keys: sorting, duplicates, difference, merging.

Rows whose columns fit together into 63 bits are packed into one integer each, so that one sort
or one search of plain integers does the work; wider rows are sorted column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gdatalog.storage.table import Array

Columns = tuple[Array, ...]
Poll = Callable[[], None]  # raises if what is under way is to stop

# A set of values in a range this many times as long as the set is marked rather than sorted.
DENSE = 16
PART = 1 << 22  # values that are sorted at once, where somebody may want to stop
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each column's bits lie in a packed row; the order of rows is kept."""

    least: tuple[int, ...]
    bits: tuple[int, ...]

    @staticmethod
    def of(columns: Sequence[Array], spare: int = 0) -> Packing | None:
        """A packing for these columns, with `spare` bits of room above each; None if too wide."""
        least, bits = [], []
        for column in columns:
            low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
            least.append(low)
            bits.append((high - low).bit_length())
        total = sum(bits)
        if total > 63:
            return None
        room = min(spare, (63 - total) // max(1, len(bits)))
        return Packing(tuple(least), tuple(width + room for width in bits))

    def holds(self, columns: Sequence[Array]) -> bool:
        """Whether these columns' values fit as well."""
        return all(
            len(column) == 0
            or (int(column.min()) >= low and (int(column.max()) - low) >> width == 0)
            for column, low, width in zip(columns, self.least, self.bits, strict=True)
        )

    def pack(self, columns: Sequence[Array]) -> Array:
        packed: Array = np.zeros(len(columns[0]), dtype=np.int64)
        for column, low, width in zip(columns, self.least, self.bits, strict=True):
            if width:
                packed <<= width
                packed |= column.astype(np.int64) - low
        return packed

    def unpack(self, packed: Array, dtypes: Sequence[np.dtype[np.generic]]) -> Columns:
        columns: list[Array] = []
        rest = packed
        for low, width, dtype in reversed(list(zip(self.least, self.bits, dtypes, strict=True))):
            columns.append(((rest & ((1 << width) - 1)) + low).astype(dtype))
            rest = rest >> width
        return tuple(reversed(columns))


def ascending(values: Array) -> bool:
    """Whether the values are sorted and all different."""
    return len(values) < 2 or bool((values[1:] > values[:-1]).all())


def firsts(values: Array) -> Array:
    """Which entries of a sorted array differ from the one before."""
    marks = np.empty(len(values), dtype=np.bool_)
    marks[:1] = True
    np.not_equal(values[1:], values[:-1], out=marks[1:])
    return marks


def sorted_set(values: Array, poll: Poll | None = None) -> Array:
    """The sorted distinct values of an array of ints.

    A long array is sorted part by part, by value, with a call of `poll` before each part, which
    may raise: so a user who stops a query does not wait for its sort.
    """
    if ascending(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low < DENSE * len(values):
        # Few possible values: marking them is a pass, sorting would be many.
        marks = np.zeros(high - low + 1, dtype=np.bool_)
        marks[values.astype(np.int64, copy=False) - low] = True
        found = np.flatnonzero(marks)
        found += low
        return found.astype(values.dtype, copy=False)
    if values.dtype == np.int64 and low >= INT32_MIN and high <= INT32_MAX:
        values = values.astype(np.int32)  # half as long to sort
        values.sort()
        return values[firsts(values)].astype(np.int64)
    if poll is not None and len(values) > PART and high - low < 1 << 62:
        return _sorted_by_parts(values, low, high, poll)
    values = np.sort(values)
    return values[firsts(values)]


def _sorted_by_parts(values: Array, low: int, high: int, poll: Poll) -> Array:
    parts = min(200, len(values) // (PART // 2))
    width = (high - low) // parts + 1
    poll()
    which = ((values.astype(np.int64, copy=False) - low) // width).astype(np.uint8)
    found = []
    for part in range(parts):
        poll()
        mine = np.sort(values[which == part])
        found.append(mine[firsts(mine)])
    return np.concatenate(found)


def row_firsts(columns: Sequence[Array]) -> Array:
    """Which rows of lexicographically sorted columns differ from the row before."""
    marks = firsts(columns[0])
    for column in columns[1:]:
        marks[1:] |= column[1:] != column[:-1]
    return marks


def sort_rows(columns: Sequence[Array], poll: Poll | None = None) -> Columns:
    """The same set of rows, sorted lexicographically and without duplicates."""
    columns = tuple(columns)
    if not columns or len(columns[0]) < 2:
        return columns
    if len(columns) == 1:
        return (sorted_set(columns[0], poll),)
    packing = Packing.of(columns)
    if packing is not None:
        packed = packing.pack(columns)
        distinct = sorted_set(packed, poll)
        if distinct is packed:
            return columns
        return packing.unpack(distinct, [column.dtype for column in columns])
    order = np.lexsort(columns[::-1])
    columns = tuple(column[order] for column in columns)
    marks = row_firsts(columns)
    return tuple(column[marks] for column in columns)


def first_rows(columns: Sequence[Array]) -> Array:
    """The indices, ascending, of one row of each set of equal rows: the first of them."""
    packing = Packing.of(columns)
    if packing is not None:
        packed = packing.pack(columns)
        if ascending(packed):
            return np.arange(len(packed))
        order = np.argsort(packed, kind="stable")
        return np.sort(order[firsts(packed[order])])
    order = np.lexsort(tuple(columns)[::-1])
    return np.sort(order[row_firsts([column[order] for column in columns])])


def group_rows(columns: Sequence[Array], length: int) -> tuple[Array, Array]:
    """(first, groups): the first row of each distinct row, and for each row its group's number.

    Groups are numbered in the order of the rows' values.
    """
    if not columns:
        return np.zeros(min(1, length), dtype=np.int64), np.zeros(length, dtype=np.int64)
    packing = Packing.of(columns)
    if packing is not None:
        packed = packing.pack(columns)
        order = np.argsort(packed, kind="stable")
        marks = firsts(packed[order])
    else:
        order = np.lexsort(tuple(columns)[::-1])
        marks = row_firsts([column[order] for column in columns])
    groups = np.empty(length, dtype=np.int64)
    groups[order] = np.cumsum(marks) - 1
    return order[marks], groups


def concatenate(blocks: Sequence[Columns]) -> Columns:
    """The rows of all blocks, one after the other; there is at least one block."""
    if len(blocks) == 1:
        return blocks[0]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def in_sorted(values: Array, among: Array) -> Array:
    """Which of `values` occur in the sorted array `among`."""
    if len(among) == 0:
        return np.zeros(len(values), dtype=np.bool_)
    at = np.searchsorted(among, values)
    at[at == len(among)] = 0
    found: Array = among[at] == values
    return found
