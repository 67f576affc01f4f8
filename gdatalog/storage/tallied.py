"""Tables of counts that loops make: those that they keep for themselves, and counts by edges."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gdatalog.account import Account
from gdatalog.records import dataclass, field
from gdatalog.storage.graph import passes
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

INDEXING = 128  # bytes that making an index takes at the most, for each edge
Test = tuple[int, str, int]  # column, operator, column


@dataclass(slots=True, eq=False)
class Tallied:
    """The place of a table of counts among the tries of a plan: loops fill the table. `columns`:
    those that are bound when the table is made, and its key."""

    columns: int


@dataclass(slots=True, eq=False)
class EdgeCounts:
    """A table of counts by the ends of edges: `counts` for the entries of a trie that holds each
    edge once. The count of both its directions is the same, and the sum of all fits into 64 bits.
    """

    edges: Trie
    counts: Array
    tries: dict[object, Trie] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        own = [level for trie in self.tries.values() for level in trie.levels]
        own = [level for level in own if level not in self.edges.levels]
        return self.counts.nbytes + sum(level.nbytes + 8 * len(level) for level in own)

    def trie(
        self, columns: tuple[int, ...], tests: Sequence[Test], weighted: bool, account: Account
    ) -> Trie:
        """An index of the edges, in the directions that pass tests between the two columns."""
        key = columns, tuple(tests), weighted
        if key not in self.tries:
            with account.working("indexes of counts", INDEXING * len(self.counts)):
                self.tries[key] = self._made(columns, tests, weighted)
        return self.tries[key]

    def _made(self, columns: tuple[int, ...], tests: Sequence[Test], weighted: bool) -> Trie:
        root, below = self.edges.levels  # whose first column is the less one, or is always not
        first = np.searchsorted(below.offsets, 0, side="right") - 1  # of the first entry
        rises = len(below) > 0 and bool(root.values[first] < below.values[0])
        ways = [way for way in (1, -1) if passes(-way if rises else way, tests)]
        total = int(self.counts.sum()) * len(ways)
        if not columns:
            return Trie((), total, None)
        if len(columns) == 2 and weighted and ways == [1] and columns == (0, 1):
            return Trie((root, below), total, self.counts)
        some = np.flatnonzero(self.counts) if ways else np.zeros(0, dtype=np.int64)
        counts = np.concatenate([self.counts[some]] * max(1, len(ways)))
        ends = np.repeat(root.values, np.diff(below.offsets))[some], below.values[some]
        keys = [np.concatenate([ends[::way][column] for way in ways or [1]]) for column in columns]
        if len(columns) == 1 and len(keys[0]):
            return _by_one(keys[0], counts, total, weighted)
        order = _order(keys)
        keys, counts = [key[order] for key in keys], counts[order]
        left = keys[0]
        starts = np.flatnonzero(np.append(True, left[1:] != left[:-1])[: len(left)])
        top = TrieLevel(left[starts], np.array([0, len(starts)], dtype=np.int64))
        if len(columns) == 1:
            return Trie((top,), 0, counts if weighted else None)
        levels = top, TrieLevel(keys[1], np.append(starts, len(left)).astype(np.int64))
        if weighted:
            return Trie(levels, total, counts)
        return Trie(levels, len(left), None)


def _by_one(keys: Array, counts: Array, total: int, weighted: bool) -> Trie:
    """The sums of the counts of each key."""
    low, high = int(keys.min()), int(keys.max())
    if high - low < 4 * len(keys) + 1024:
        sums = np.zeros(high - low + 1, dtype=np.int64)
        np.add.at(sums, keys - low, counts)
        found = np.flatnonzero(sums)
        values, sums = (found + low).astype(keys.dtype), sums[found]
    else:
        values, numbers = np.unique(keys, return_inverse=True)
        sums = np.zeros(len(values), dtype=np.int64)
        np.add.at(sums, numbers, counts)
    level = TrieLevel(values, np.array([0, len(values)], dtype=np.int64))
    return Trie((level,), total if weighted else len(values), sums if weighted else None)


def _order(keys: Sequence[Array]) -> Array:
    """Where rows stand that are sorted by their columns."""
    spans = [(int(key.min()), int(key.max()) + 1) for key in keys] if len(keys[0]) else []
    packed: Array = np.zeros(len(keys[0]), dtype=np.int64)
    if prod(high - low for low, high in spans) >= 1 << 62:
        return np.lexsort(keys[::-1])
    for key, (low, high) in zip(keys, spans, strict=False):
        packed = packed * (high - low) + (key - low)
    return np.argsort(packed)
