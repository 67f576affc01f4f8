"""The degrees of a graph whose edges lie on workers, counted there: the ranks of its vertices, and
how often ranks stand where.

Each worker counts what it has; the counts go to owners by the key that they are of, and are added
up there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.shuffle import ShuffleBlock, rows_by_owner
from gdatalog.storage.duplicates import group_rows
from gdatalog.storage.graph import Ranking, passes
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest

# How the rows tell each edge once: all of them, those that ascend, or once turned to ascend.
Way = Literal["all", "ascending", "turned"]
# What is counted: ends of edges; the lower key's rank; the lower rank; ranks in a column of both
# ways of every edge that pass tests.
What = Literal["ends", "keys", "ranks"] | tuple[int, tuple[RowTest, ...]]


def edges_of(value: Any, way: Way) -> Columns:
    """The edges of a part, from the lower key to the higher."""
    left, right = columns_of(value)
    if way == "ascending":
        rows = np.flatnonzero(left <= right)
        return left[rows], right[rows]
    return np.minimum(left, right), np.maximum(left, right)


def counts_of(value: Any, way: Way, what: What, ranking: Ranking | None) -> Columns:
    """Keys or ranks, and how often each stands in a part."""
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
    least, most = np.minimum(low, high), np.maximum(low, high)
    if what in ("keys", "ranks"):
        lower: Array = (low if what == "keys" else least)[apart]
        return lower
    assert not isinstance(what, str)
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
    """The counts of some parts, dealt out by what they are of."""
    rows = _added(concatenate(parts))
    return rows_by_owner(rows[:1], rows, owners)


def counts_together(pieces: Sequence[ShuffleBlock]) -> Columns:
    return _added(concatenate([piece.value for piece in pieces]))


def _added(rows: Columns) -> Columns:
    """Each key once, with the sum of its counts."""
    keys, counts = rows
    first, groups = group_rows([keys], len(keys))
    sums = np.bincount(groups, weights=counts, minlength=len(first))
    return keys[first], sums.astype(np.int64)


def how_often(counts: Columns) -> Columns:
    """The different counts, ascending, and how many keys have each."""
    return tuple(np.unique(counts[1], return_counts=True))
