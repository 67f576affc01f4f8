"""The degrees of a graph whose edges are on workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.storage.graph import Ranking, passes
from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.rows import (
    Columns,
    concatenate,
)
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest

# How to read each edge once: all rows, ascending rows, or all rows turned to ascend.
Way = Literal["all", "ascending", "turned"]
# What to count: ends of edges; the lower key's rank; or the ranks in a column of both directions of
# each edge, for rows that pass tests.
What = Literal["ends", "keys"] | tuple[int, tuple[RowTest, ...]]


def edges_of(value: object, way: Way) -> Columns:
    """The edges of a part, each with its lower key first."""
    left, right = columns_of(value)
    if way == "ascending":
        rows = np.flatnonzero(left <= right)
        return left[rows], right[rows]
    return np.minimum(left, right), np.maximum(left, right)


def counts_of(value: object, way: Way, what: What, ranking: Ranking | None) -> Columns:
    """Keys or ranks of a part, and how often each occurs."""
    low, high = edges_of(value, way)
    if what == "ends":
        keys = np.concatenate([low, high[low != high]])
    else:
        assert ranking is not None
        low, high = ranking.ranks(low), ranking.ranks(high)
        keys = _ranks(low, high, what)
    found, often = np.unique(keys, return_counts=True)
    return found, often.astype(np.int64)


def _ranks(low: Array, high: Array, what: What) -> Array:
    apart = low != high
    if isinstance(what, str):
        lower: Array = low[apart]
        return lower
    least, most = np.minimum(low, high), np.maximum(low, high)
    column, tests = what
    parts = [
        ranks
        for ranks, sign in (
            ((least, most)[column][apart], -1),
            ((most, least)[column][apart], 1),
            (low[~apart], 0),
        )
        if passes(sign, tests)
    ]
    return np.concatenate([low[:0], *parts])


def split_counts(parts: Sequence[Columns], owners: int) -> list[Columns]:
    """The sums of some parts' counts, by owner."""
    rows = _added(concatenate(parts))
    return rows_by_owner(rows[:1], rows, owners)


def counts_together(pieces: Sequence[ShuffleBlock]) -> Columns:
    return _added(concatenate([piece.value for piece in pieces]))


def _added(rows: Columns) -> Columns:
    """The sum of counts for each key."""
    keys, counts = rows
    first, groups = group_rows([keys], len(keys))
    sums = np.bincount(groups, weights=counts, minlength=len(first))
    return keys[first], sums.astype(np.int64)


def how_often(counts: Columns) -> Columns:
    """The distinct counts, ascending, and how many keys have each."""
    return tuple(np.unique(counts[1], return_counts=True))
