"""Which rows of a column hold one of some values, found by a pass over the column."""

from __future__ import annotations

import numpy as np

from gdatalog.storage.rows import in_sorted
from gdatalog.storage.table import Array
from gdatalog.storage.threads import by_stretches
from gdatalog.values import INT_MAX, INT_MIN

FEW = 4  # values that a column is compared with, one after the other
_ROOM = 1 << 24  # marks for values in a range; a byte each
_BITS = 22  # of a number drawn from a value that is one of many in a long range


def rows_with(column: Array, key: int) -> Array:
    """The rows, ascending, that hold a key."""
    return np.flatnonzero(column == key)


def rows_among(column: Array, values: Array) -> Array:
    """The rows, ascending, that hold one of some sorted distinct values."""
    found = np.zeros(len(column), dtype=np.bool_)
    if len(values) <= FEW:
        for value in values:
            found |= column == value
        return np.flatnonzero(found)
    low, high = int(values[0]), int(values[-1])
    if high - low < max(_ROOM, len(column)) and low > INT_MIN and high < INT_MAX:
        # A mark for each value in the range, and one that is never set on either side.
        marks = np.zeros(high - low + 3, dtype=np.bool_)
        marks[values.astype(np.int64) - (low - 1)] = True

        def look_up(part: slice) -> None:
            places = column[part].astype(np.intp)
            places -= low - 1
            marks.take(places, mode="clip", out=found[part])

        by_stretches(look_up, len(column))
        return np.flatnonzero(found)
    marks = np.zeros(1 << _BITS, dtype=np.bool_)
    marks[_drawn(values)] = True

    def sift(part: slice) -> None:
        found[part] = marks[_drawn(column[part])]

    by_stretches(sift, len(column))
    rows = np.flatnonzero(found)
    return rows[in_sorted(column[rows], values)]


def _drawn(values: Array) -> Array:
    """A number for each value, the same for the same."""
    mixed = values.astype(np.int64).view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return (mixed >> np.uint64(64 - _BITS)).astype(np.int64)
