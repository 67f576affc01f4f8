"""Array operations of the executors, on NumPy; counts and sums that overflow become Python's ints.

`executors/levelwise.py` calls only these functions, which each device implements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gdatalog.errors import EvaluationError
from gdatalog.storage.keys import narrow
from gdatalog.storage.rows import Columns, RowPacking, firsts, in_sorted
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN


def survivors(mask: Array) -> Array:
    """The indices of the rows that pass a test."""
    return np.flatnonzero(mask)


def totals(*lists: Array) -> list[int]:
    """The sum of each array of ints."""
    return [int(values.sum()) for values in lists]


def shortest(lists: Sequence[Array]) -> tuple[list[int], int, Array | None]:
    """The sum of each array of lengths, the sum of each row's least length, and these least
    lengths."""
    best = np.minimum(lists[0], lists[1])
    for other in lists[2:]:
        np.minimum(best, other, out=best)
    return totals(*lists), int(best.sum()), best


def expand(starts: Array, lengths: Array, size: int | None = None) -> tuple[Array, Array]:
    """Each position of each list as (row, position), row by row, by load-balancing search.

    `size` is the total length if it is known, which saves a round trip on other devices.

    >>> [part.tolist() for part in expand(np.array([5, 0]), np.array([2, 1]))]
    [[0, 0, 1], [5, 6, 0]]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    rows = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.arange(total)
    positions += (starts - (ends - lengths))[rows]
    return rows, positions


def pieces(
    lengths: Array, limit: int, total: int | None = None
) -> Iterator[tuple[int, int, int, int, int]]:
    """Cuts rows with lists of these lengths into pieces of at most `limit` list entries.

    Each piece is (first row, last row + 1, entries to skip, entries to take, its size): whole rows
    with skip 0 and take -1, or a part of one row whose list is longer than a piece. `total` is the
    total length if it is known, which saves a round trip on other devices.

    >>> list(pieces(np.array([2, 2, 7, 1]), 4))
    [(0, 2, 0, -1, 4), (2, 3, 0, 4, 4), (2, 3, 4, 3, 3), (3, 4, 0, -1, 1)]
    """
    # Long lists are clipped: the sum of all lengths may overflow.
    ends = np.cumsum(np.minimum(lengths, limit + 1))
    rows = len(lengths)
    row = 0
    while row < rows:
        before = int(ends[row - 1]) if row else 0
        stop = int(np.searchsorted(ends, before + limit, side="right"))
        if stop > row:
            size = int(ends[stop - 1]) - before
            if size:
                yield row, stop, 0, -1, size
            row = stop
        else:
            long = int(lengths[row])
            for skip in range(0, long, limit):
                take = min(limit, long - skip)
                yield row, row + 1, skip, take, take
            row += 1


def intersect(lists: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The values common to sorted lists and their positions in each list (sorted search)."""
    shortest = min(range(len(lists)), key=lambda at: len(lists[at]))
    values = lists[shortest]
    for at, other in enumerate(lists):
        if at != shortest and other is not lists[shortest]:
            values = values[in_sorted(values, other)]
    return values, [
        np.arange(len(values)) if len(values) == len(other) else np.searchsorted(other, values)
        for other in lists
    ]


def sort_across(columns: Sequence[Array], xp: Any = np) -> list[Array]:
    """The values of each row in ascending order, the least in the first column.

    >>> [column.tolist() for column in sort_across([np.array([3, 1]), np.array([2, 4])])]
    [[2, 1], [3, 4]]
    """
    found = list(columns)
    for end in range(len(found) - 1, 0, -1):
        for at in range(end):
            low, high = found[at], found[at + 1]
            found[at], found[at + 1] = xp.minimum(low, high), xp.maximum(low, high)
    return found


# ----------------------------------------------------------------------- results by group


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
    totals = np.zeros(count, dtype=amounts.dtype)
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


# Sorted runs of packed rows, which represent a growing set of rows.


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


# Counts and sums that may leave 64 bits become Python's ints.
#
# Sums of ints have two halves that cannot overflow; values near the limit are in an array of
# objects.


def times(counts: Array, weight: Array) -> Array:
    """Multiplies counts; an error if a product does not fit into 64 bits."""
    if float(counts.max(initial=1)) * float(weight.max(initial=1)) >= 2.0**63:
        return _fitting(counts.astype(object) * weight.astype(object))
    product: Array = counts * weight
    return product


def add_counts(totals: Array, rows: Array, amounts: Array | None) -> Array:
    """The totals, with the amounts (1 each if None) added to those of `rows`, which ascend.

    An error if one does not fit into 64 bits. May change `totals` in place.
    """
    if amounts is None or (
        float(totals.max(initial=0)) + float(amounts.sum(dtype=float)) < 2.0**62
    ):
        add_at(totals, rows, amounts)
        return totals
    exact = totals.astype(object)
    add_at(exact, rows, amounts.astype(object))
    return _fitting(exact)


def _fitting(counts: Array) -> Array:
    """Counts from Python's ints; an error if one does not fit into 64 bits."""
    if len(counts) and counts.max() >= 1 << 63:
        raise EvaluationError("a count does not fit into 64 bits")
    return counts.astype(np.int64)


def exact_sums(groups: Array, count: int, amounts: Array | None) -> Array:
    """Sums of ints by group, with Python's ints if 64 bits may not suffice."""
    if amounts is not None and float(np.abs(amounts.astype(float)).sum()) >= 2.0**62:
        amounts = amounts.astype(object)
    return sums_by(groups, count, amounts)


def counts_by(groups: Array, count: int, weight: Array | None) -> Array:
    """The number of rows of each group; an error if it does not fit into 64 bits."""
    counts = exact_sums(groups, count, weight)
    return _fitting(counts) if counts.dtype == object else counts


def halves(values: Array, weight: Array | None) -> tuple[Array, Array]:
    """value * weight as high * 2^32 + low, with both halves far from an overflow."""
    high, low = values >> 32, values & 0xFFFF_FFFF
    if weight is None:
        return high, low
    # (h * 2^32 + l) * w = (h * w + (l * w >> 32)) * 2^32 + (l * w & mask), w below 2^31
    if len(weight) and int(weight.max()) >= 1 << 31:
        # Rare (products of large counts), so let Python's ints do it.
        exact = values.astype(object) * weight.astype(object)
        return exact >> 32, (exact & 0xFFFF_FFFF).astype(np.int64)
    product = low * weight
    return high * weight + (product >> 32), product & 0xFFFF_FFFF


def split_sums(
    groups: Array, count: int, values: Array, weight: Array | None
) -> tuple[Array, Array]:
    """The sum of value * weight of each group, as high * 2^32 + low, which cannot overflow."""
    if weight is None and len(values):
        most = max(-int(values.min()), int(values.max()))
        if most * len(values) < 1 << 63:
            whole = sums_by(groups, count, values.astype(np.int64, copy=False))
            return whole >> 32, whole & 0xFFFF_FFFF
    high, low = halves(values.astype(np.int64, copy=False), weight)
    return exact_sums(groups, count, high), sums_by(groups, count, low)


def means(high: Array, low: Array, counts: Array) -> Array:
    """(high * 2^32 + low) / count, rounded once."""
    rows = zip(high.tolist(), low.tolist(), counts.tolist(), strict=True)
    return np.array([((h << 32) + lo) / n for h, lo, n in rows], dtype=np.float64)


def ranks_of(symbols: SymbolTable, codes: Array) -> Array:
    """The rank of each symbol among all texts, in the order of code points."""
    found: Array = symbols.ranks()[codes]
    return found
