"""Sorted runs of packed rows, which represent a growing set of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.keys import narrow
from gdatalog.storage.rows import Columns, RowPacking
from gdatalog.storage.table import Array


def packing(columns: Sequence[Array], spare: int = 0) -> RowPacking | None:
    """A packing for these columns, with up to `spare` more bits for each; None if too wide."""
    return RowPacking.of(columns, spare)


def holds(found: RowPacking, columns: Sequence[Array]) -> bool:
    """Whether these columns' values fit a packing."""
    return found.holds(columns)


def merged(runs: Sequence[Array]) -> Array:
    """Sorted arrays as one."""
    if len(runs) == 1:
        return runs[0]
    both = np.concatenate(runs)
    both.sort(kind="stable")  # merges sorted runs
    return both


def narrowed(columns: Sequence[Array]) -> Columns:
    """The same integers in 32 bits where a column's fit, else in 64."""
    return tuple(map(narrow, columns))
