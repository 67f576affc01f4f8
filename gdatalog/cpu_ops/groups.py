"""Results by group: sums, and the best row of each group."""

from __future__ import annotations

import numpy as np

from gdatalog.storage.rows import firsts
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN


def add_at(totals: Array, rows: Array, amounts: Array | None) -> None:
    """Adds each amount (1 if None) to `totals[row]`; `rows` ascends."""
    if len(rows) == 0:
        return
    starts = np.flatnonzero(firsts(rows))
    if amounts is None:
        sums = np.diff(np.append(starts, len(rows)))
    else:
        sums = np.add.reduceat(amounts, starts)
    totals[rows[starts]] += sums


def sums_by(groups: Array, count: int, amounts: Array | None) -> Array:
    """The sum of each group's amounts (1 each if None)."""
    if amounts is None:
        return np.bincount(groups, minlength=count)
    if count == 1 and amounts.dtype.kind == "i":
        return np.add.reduce(amounts, dtype=amounts.dtype, keepdims=True)
    totals = np.zeros(count, dtype=amounts.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # inf, or a NaN that the caller reports
        np.add.at(totals, groups, amounts)
    return totals


def best_by(groups: Array, count: int, values: Array, least: bool) -> Array:
    """The first row with the least (or greatest) int of each group. No group is empty.

    >>> best_by(np.array([0, 1, 0, 1]), 2, np.array([5, 7, 3, 7]), least=True).tolist()
    [2, 1]
    """
    values = values.astype(np.int64, copy=False)
    best = np.full(count, INT_MAX if least else INT_MIN, dtype=np.int64)
    (np.minimum if least else np.maximum).at(best, groups, values)
    rows = np.flatnonzero(values == best[groups])[::-1]
    found = np.empty(count, dtype=np.int64)
    found[groups[rows]] = rows  # the last assignment to a group stays
    return found
