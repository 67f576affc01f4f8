"""Tables of counts that loops make: those that they keep for themselves, and counts by edges."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gdatalog.records import dataclass, field
from gdatalog.storage.graph import passes
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

MOST = (1 << 63) - 1
Test = tuple[int, str, int]  # column, operator, column


@dataclass(slots=True, eq=False)
class Tallied:
    """The place of a table of counts among the tries of a plan: loops fill the table. `columns`:
    those that are bound when the table is made, and its key."""

    columns: int


@dataclass(slots=True, eq=False)
class EdgeCounts:
    """A table of counts by the ends of edges: `counts` for the entries of a trie that holds each
    edge once. The count of both its directions is the same."""

    edges: Trie
    counts: Array
    tries: dict[object, Trie] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        own = [level for trie in self.tries.values() for level in trie.levels]
        own = [level for level in own if level not in self.edges.levels]
        return self.counts.nbytes + sum(level.nbytes + 8 * len(level) for level in own)

    def trie(self, columns: tuple[int, ...], tests: Sequence[Test], weighted: bool) -> Trie:
        """An index of the edges, in the directions that pass tests between the two columns."""
        key = columns, tuple(tests), weighted
        if key not in self.tries:
            self.tries[key] = self._made(columns, tests, weighted)
        return self.tries[key]

    def _made(self, columns: tuple[int, ...], tests: Sequence[Test], weighted: bool) -> Trie:
        root, below = self.edges.levels  # whose first column is the less one, or is always not
        ends = np.repeat(root.values, np.diff(below.offsets)), below.values
        rises = len(below) > 0 and bool(ends[0][0] < ends[1][0])
        ways = [ends[::way] for way in (1, -1) if passes(-way if rises else way, tests)]
        total = _sum(self.counts) * len(ways)
        if not columns:
            return Trie((), min(MOST, total), None)
        if len(columns) == 2 and weighted and len(ways) == 1 and ways[0] is ends:
            return Trie((root, below), min(MOST, total), self.counts)
        left, right = (np.concatenate(each) for each in zip(*(ways or [ends]), strict=True))
        counts = np.concatenate([self.counts] * max(1, len(ways)))
        some = (counts != 0) & bool(ways)
        pair = left[some], right[some]
        keys, counts = [pair[column] for column in columns], counts[some]
        if len(columns) == 1 and len(keys[0]):
            return _by_one(keys[0], counts, min(MOST, total), weighted)
        order = _order(keys)
        keys, counts = [key[order] for key in keys], counts[order]
        first = keys[0]
        starts = np.flatnonzero(np.append(True, first[1:] != first[:-1])[: len(first)])
        top = TrieLevel(first[starts], np.array([0, len(starts)], dtype=np.int64))
        if len(columns) == 1:
            return Trie((top,), 0, counts if weighted else None)
        levels = top, TrieLevel(keys[1], np.append(starts, len(first)).astype(np.int64))
        if weighted:
            return Trie(levels, min(MOST, total), counts)
        return Trie(levels, len(first), None)


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


def _sum(counts: Array) -> int:
    """The sum, exactly."""
    if len(counts) and float(counts.max()) * len(counts) >= 2.0**62:
        return sum(map(int, counts))
    return int(counts.sum())
