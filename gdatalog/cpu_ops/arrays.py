"""The verbs that executors need, on NumPy; counts and sums become Python's ints where they
overflow.

`executors/levelwise.py` is written over these names alone; another device gives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gdatalog.errors import EvaluationError
from gdatalog.storage.keys import narrow
from gdatalog.storage.rows import Columns, RowPacking, firsts, in_sorted
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN


def survivors(mask: Array) -> Array:
    """The indices that are left after a test."""
    return np.flatnonzero(mask)


def totals(*lists: Array) -> list[int]:
    """The sum of each array of ints."""
    return [int(values.sum()) for values in lists]


def shortest(lists: Sequence[Array]) -> tuple[list[int], int, Array | None]:
    """The sum of each array of lengths, the sum of each row's least length, and that itself."""
    best = np.minimum(lists[0], lists[1])
    for other in lists[2:]:
        np.minimum(best, other, out=best)
    return totals(*lists), int(best.sum()), best


def expand(starts: Array, lengths: Array, size: int | None = None) -> tuple[Array, Array]:
    """Every position of every list: (row, position), row by row, by load-balancing search.

    `size` is how many there are, where that is known: another device need not ask.

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

    Each piece is (first row, last row + 1, entries to skip, entries to take, its size): whole
    rows with skip 0 and take -1, or one row whose list is longer than a piece, by offsets.
    `total` is how many entries there are, where that is known: another device need not ask.

    >>> list(pieces(np.array([2, 2, 7, 1]), 4))
    [(0, 2, 0, -1, 4), (2, 3, 0, 4, 4), (2, 3, 4, 3, 3), (3, 4, 0, -1, 1)]
    """
    # A list longer than a piece counts as just that: all lengths together may not fit an int.
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
    """Values common to sorted lists, and where each stands in each list (sorted search)."""
    shortest = min(range(len(lists)), key=lambda at: len(lists[at]))
    values = lists[shortest]
    for at, other in enumerate(lists):
        if at != shortest and other is not lists[shortest]:
            values = values[in_sorted(values, other)]
    return values, [
        np.arange(len(values)) if len(values) == len(other) else np.searchsorted(other, values)
        for other in lists
    ]


def sort_across(columns: Sequence[Array]) -> list[Array]:
    """The values of each row in ascending order, the least in the first column.

    >>> [column.tolist() for column in sort_across([np.array([3, 1]), np.array([2, 4])])]
    [[2, 1], [3, 4]]
    """
    found = list(columns)
    for end in range(len(found) - 1, 0, -1):
        for at in range(end):
            low, high = found[at], found[at + 1]
            found[at], found[at + 1] = np.minimum(low, high), np.maximum(low, high)
    return found


# ----------------------------------------------------------------------- results by group


def add_at(totals: Array, rows: Array, amounts: Array | None) -> None:
    """Adds to `totals[row]` each amount (1 where None); `rows` ascends."""
    if len(rows) == 0:
        return
    starts = np.flatnonzero(firsts(rows))
    if amounts is None:
        sums = np.diff(np.append(starts, len(rows)))
    else:
        sums = np.add.reduceat(amounts, starts)
    totals[rows[starts]] += sums


def sums_by(groups: Array, count: int, amounts: Array | None) -> Array:
    """The sum of the amounts (1 where None) of each group."""
    if amounts is None:
        return np.bincount(groups, minlength=count)
    totals = np.zeros(count, dtype=amounts.dtype)
    np.add.at(totals, groups, amounts)
    return totals


def best_by(groups: Array, count: int, values: Array, least: bool) -> Array:
    """The first row that holds the least (or greatest) of each group of ints; none is empty.

    >>> best_by(np.array([0, 1, 0, 1]), 2, np.array([5, 7, 3, 7]), least=True).tolist()
    [2, 1]
    """
    values = values.astype(np.int64, copy=False)
    best = np.full(count, INT_MAX if least else INT_MIN, dtype=np.int64)
    (np.minimum if least else np.maximum).at(best, groups, values)
    rows = np.flatnonzero(values == best[groups])[::-1]
    found = np.empty(count, dtype=np.int64)
    found[groups[rows]] = rows  # of equal places the last one stays
    return found


# Sorted runs of packed rows: what a set of rows that grows is kept as.


def packing(columns: Sequence[Array], spare: int = 0) -> RowPacking | None:
    """A packing for these columns, with `spare` bits of room above each; None if too wide."""
    return RowPacking.of(columns, spare)


def holds(found: RowPacking, columns: Sequence[Array]) -> bool:
    """Whether these columns' values fit into a packing as well."""
    return found.holds(columns)


def merged(runs: Sequence[Array]) -> Array:
    """Sorted arrays as one."""
    if len(runs) == 1:
        return runs[0]
    both = np.concatenate(runs)
    both.sort(kind="stable")  # which finds the runs sorted and merges them
    return both


def narrowed(columns: Sequence[Array]) -> Columns:
    """The same integers in 32 bits where a column's fit, else in 64."""
    return tuple(map(narrow, columns))


# Counts and sums that may leave 64 bits: Python's ints where they do.
#
# Sums of ints are kept in two halves that cannot overflow; what comes near is an array of objects.


def times(counts: Array, weight: Array) -> Array:
    """Counts multiplied; an error if that does not fit into 64 bits."""
    if float(counts.max(initial=1)) * float(weight.max(initial=1)) >= 2.0**63:
        return _fitting(counts.astype(object) * weight.astype(object))
    product: Array = counts * weight
    return product


def add_counts(totals: Array, rows: Array, amounts: Array | None) -> Array:
    """The totals with the amounts (1 where None) added to those of `rows`, which ascend.

    An error if one does not fit into 64 bits. The totals themselves may be changed.
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
    """Counts that Python's ints have worked out; an error if they do not fit into 64 bits."""
    if len(counts) and counts.max() >= 1 << 63:
        raise EvaluationError("a count does not fit into 64 bits")
    return counts.astype(np.int64)


def exact_sums(groups: Array, count: int, amounts: Array | None) -> Array:
    """Sums of ints by group: Python's ints, where 64 bits might not do."""
    if amounts is not None and float(np.abs(amounts.astype(float)).sum()) >= 2.0**62:
        amounts = amounts.astype(object)
    return sums_by(groups, count, amounts)


def counts_by(groups: Array, count: int, weight: Array | None) -> Array:
    """How many rows each group has; an error if that does not fit into 64 bits."""
    counts = exact_sums(groups, count, weight)
    return _fitting(counts) if counts.dtype == object else counts


def halves(values: Array, weight: Array | None) -> tuple[Array, Array]:
    """value * weight as high * 2^32 + low, each half far from an overflow."""
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
    """The sum of value * weight of each group as high * 2^32 + low, which cannot overflow."""
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
    """The place of each symbol among all texts in the order of code points."""
    found: Array = symbols.ranks()[codes]
    return found
