"""Numbers groups of equal rows: with a table if there are few possible rows, else with a sort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, working_space
from gdatalog.storage.rows import RowPacking, firsts, order_distinct
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges, sort_values

# Maximum entries of a table for groups: per row, or in all.
COUNTED, SMALL = 2, 1 << 12


def group_rows(columns: Sequence[Array], length: int) -> tuple[Array, Array]:
    """(first, groups): the first row of each distinct row, and for each row its group's number.

    Groups are numbered in the order of the rows' values.
    """
    if not columns:
        return np.zeros(min(1, length), dtype=np.int64), np.zeros(length, dtype=np.int64)
    with working_space("grouping", 48 * length):
        if length < cancellation.LATE:
            return _group_rows(columns, length)
        return cancellable(length, lambda: _group_rows(columns, length))


def _group_rows(columns: Sequence[Array], length: int) -> tuple[Array, Array]:
    packing, row_bits = RowPacking.of(columns), (length - 1).bit_length()
    bits = 0 if packing is None else sum(packing.bits)
    if packing is not None and 1 << bits <= max(COUNTED * length, SMALL):
        return _counted_groups(packing.pack(columns), length)
    if packing is None or bits + row_bits > 63:
        order, marks = order_distinct(columns)
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
