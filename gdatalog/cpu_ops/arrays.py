"""Array operations of the executors, on NumPy.

`executors/levelwise.py` calls only these functions, which each device implements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gdatalog.storage.rows import in_sorted
from gdatalog.storage.table import Array


def survivors(mask: Array) -> Array:
    """The indices of the rows that pass a test."""
    return np.flatnonzero(mask)


def totals(*lists: Array) -> list[int]:
    """The sum of each array of ints."""
    return [int(values.sum()) for values in lists]


def shortest(lists: Sequence[Array]) -> tuple[list[int], int]:
    """The sum of each array of lengths, and the sum of each row's least length."""
    best = np.minimum(lists[0], lists[1])
    for other in lists[2:]:
        np.minimum(best, other, out=best)
    return totals(*lists), int(best.sum())


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
