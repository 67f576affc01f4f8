"""The rows with one of some values in a column, found by a pass over the column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.storage.rows import in_sorted
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.values import INT_MAX, INT_MIN

COMPARED_SINGLY = 4  # values: a column is compared with each of so few
_ROOM = 1 << 24  # most marks for the values of a range; a byte each
# Marks for hashes of values in a larger range: so many for each value, as powers of two, but at
# most as many as fit in a cache.
_SPARE, _LEAST_BITS, _MOST_BITS = 6, 16, 22


def rows_with(column: Array, key: int) -> Array:
    """The rows with a key, ascending."""
    return np.flatnonzero(column == key)


def rows_among(column: Array, values: Array) -> Array:
    """The rows with one of some sorted distinct values, ascending."""
    if len(values) <= COMPARED_SINGLY:
        equal = np.zeros(len(column), dtype=np.bool_)
        for value in values:
            equal |= column == value
        return np.flatnonzero(equal)
    low, high = int(values[0]), int(values[-1])
    if high - low < max(_ROOM, len(column)) and low > INT_MIN and high < INT_MAX:
        # A mark for each value in the range, and an unset one on either side.
        marks = np.zeros(high - low + 3, dtype=np.bool_)
        marks[values.astype(np.int64) - (low - 1)] = True

        def look_up(keys: Array) -> Array:
            places = keys.astype(np.intp)
            places -= low - 1
            return np.flatnonzero(marks.take(places, mode="clip"))

        return _rows_of(column, look_up)
    wanted = values.astype(column.dtype)  # values that do not fit wrap; `sift` excludes them
    bits = min(max((len(values) - 1).bit_length() + _SPARE, _LEAST_BITS), _MOST_BITS)
    first, second = np.zeros((2, 1 << bits), dtype=np.bool_)
    first[_drawn(wanted, bits)] = True
    second[_drawn(wanted, bits, again=True)] = True

    def sift(keys: Array) -> Array:
        rows = np.flatnonzero(first.take(_drawn(keys, bits), mode="clip"))
        rows = rows[second.take(_drawn(keys[rows], bits, again=True), mode="clip")]
        return rows[in_sorted(keys[rows], values)]

    return _rows_of(column, sift)


def _rows_of(column: Array, look: Callable[[Array], Array]) -> Array:
    """The rows, ascending, that `look` returns for batches of a column."""
    matches: dict[int, Array] = {}

    def one(part: slice) -> None:
        matches[part.start] = look(column[part]) + part.start

    in_ranges(one, len(column))
    return np.concatenate([matches[start] for start in sorted(matches)] or [np.empty(0, np.intp)])


def _drawn(values: Array, bits: int, again: bool = False) -> Array:
    """A hash of each value with so many bits; `again`: another one."""
    if values.dtype.itemsize == 4:
        short: Array = values.view(np.uint32) * np.uint32(0x9E37_79B1)
        return short & np.uint32((1 << bits) - 1) if again else short >> np.uint32(32 - bits)
    mixed = values.astype(np.int64, copy=False).view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = mixed << np.uint64(bits) if again else mixed
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)
