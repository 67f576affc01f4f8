"""Comparisons between the columns of a row, on any device."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, gathered
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest

# For arrays on any device.
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

STRETCH = 1 << 18  # values in one batch of comparisons


def mask(columns: Columns, tests: Sequence[RowTest]) -> Array:
    """A mask of the rows that pass the tests; there must be a test."""
    left, op, right = tests[0]
    found: Array = COMPARE[op](columns[left], columns[right])
    for left, op, right in tests[1:]:
        found &= COMPARE[op](columns[left], columns[right])
    return found


def passing(
    columns: Columns, used: Sequence[int], tests: Sequence[RowTest], spill: Spill | None
) -> Columns:
    """Some columns of the rows that pass all tests: in files, if there is a `spill`."""

    def kept(start: int) -> Columns:
        part = tuple(column[start : start + STRETCH] for column in columns)
        marks = mask(part, tests)
        return tuple(part[at][marks] for at in used)

    blocks = map(kept, range(0, len(columns[0]), STRETCH))
    return gathered(blocks, [columns[at].dtype for at in used], spill)
