"""Tables of counts that loops make: those that loops keep for themselves, and counts of edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.account import Account
from gdatalog.records import dataclass, field
from gdatalog.storage.graph import passes
from gdatalog.storage.row_ops import RowOps
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest, Trie, TrieLevel

INDEXING = 128  # most bytes for each edge while an index is built


@dataclass(slots=True, eq=False)
class Tallied:
    """The place of a table of counts among the tries of a plan; loops fill the table. `columns`:
    those that are bound when the table is made, and its key."""

    columns: int


@dataclass(slots=True, eq=False)
class EdgeCounts:
    """A table of counts by edge: `counts` for the entries of a trie that has each edge once, or
    both ways; then the counts of both entries add up, and `once` is the trie that has each edge
    once. Both directions of an edge have the same count, and the sum of all, `total`, fits into 64
    bits. `ops` are the operations of the arrays' device."""

    edges: Trie
    counts: Array
    ops: RowOps
    total: int | None = None  # None: not added up yet
    once: Trie | None = None
    tries: dict[object, Trie] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        own = [level for trie in self.tries.values() for level in trie.levels]
        own = [level for level in own if level not in self.edges.levels]
        return self.counts.nbytes + sum(level.nbytes + 8 * len(level) for level in own)

    def trie(
        self, columns: tuple[int, ...], tests: Sequence[RowTest], weighted: bool, account: Account
    ) -> Trie:
        """An index of the edges, in the directions that pass tests between the two columns."""
        key = columns, tuple(tests), weighted
        if key not in self.tries:
            with account.working("indexes of counts", INDEXING * len(self.counts)):
                if self.once is not None:
                    self.counts = _added_up(self.edges, self.counts, self.ops)
                    self.edges, self.once = self.once, None
                self.tries[key] = self._made(columns, tests, weighted)
        return self.tries[key]

    def _made(self, columns: tuple[int, ...], tests: Sequence[RowTest], weighted: bool) -> Trie:
        xp = self.ops.xp
        root, below = self.edges.levels
        if below.rises is None:  # the first column is always the lesser one, or never
            first = xp.searchsorted(below.offsets, xp.zeros(1, dtype=xp.int64), side="right") - 1
            below.rises = len(below) > 0 and bool((root.values[first] < below.values[:1]).all())
        ways = [way for way in (1, -1) if passes(-way if below.rises else way, tests)]
        if self.total is None:
            self.total = int(self.counts.sum())
        total = self.total * len(ways)
        if not columns:
            return Trie((), total, None)
        if len(columns) == 2 and weighted and ways == [1] and columns == (0, 1):
            return Trie((root, below), total, self.counts)
        some = self.ops.survivors(self.counts != 0) if ways else xp.zeros(0, dtype=xp.int64)
        counts = xp.concatenate([self.counts[some]] * max(1, len(ways)))
        ends = root.values[below.parents()[some]], below.values[some]
        keys = [xp.concatenate([ends[::way][column] for way in ways or [1]]) for column in columns]
        if len(columns) == 1:
            return self._by_one(keys[0], counts, total, weighted)
        order = _order(keys, self.ops)
        keys, counts = [key[order] for key in keys], counts[order]
        left = keys[0]
        starts = self.ops.survivors(self.ops.row_firsts([left]))
        offsets = xp.append(starts, xp.full(1, len(left))).astype(xp.int64)
        levels = self._root(left[starts]), TrieLevel(keys[1], offsets, xp)
        return Trie(levels, total, counts) if weighted else Trie(levels, len(left), None)

    def _root(self, values: Array) -> TrieLevel:
        return TrieLevel(values, self.ops.xp.asarray(np.array([0, len(values)])), self.ops.xp)

    def _by_one(self, keys: Array, counts: Array, total: int, weighted: bool) -> Trie:
        """The sum of the counts of each key."""
        xp = self.ops.xp
        if not len(keys):
            return Trie((self._root(keys),), 0, counts if weighted else None)
        low, high = (int(bound) for bound in xp.stack([keys.min(), keys.max()]).tolist())
        if high - low < 4 * len(keys) + 1024:
            sums = self.ops.sums_by(keys.astype(xp.int64) - low, high - low + 1, counts)
            found = self.ops.survivors(sums != 0)
            values, sums = (found + low).astype(keys.dtype), sums[found]
        else:
            values, numbers = xp.unique(keys, return_inverse=True)
            sums = self.ops.sums_by(numbers, len(values), counts)
        weights = sums if weighted else None
        return Trie((self._root(values),), total if weighted else len(values), weights)


def _added_up(edges: Trie, counts: Array, ops: RowOps) -> Array:
    """The counts of edges from those of both directions, in the order of the entries in which the
    first value is less."""
    root, below = edges.levels
    left, right = root.values[below.parents()], below.values
    if below.turned is None:
        down = ops.survivors(left > right)
        below.turned = down[_order((right[down], left[down]), ops)]
    found: Array = counts[ops.survivors(left < right)] + counts[below.turned]
    return found


def _order(keys: Sequence[Array], ops: RowOps) -> Array:
    """The order that sorts rows by their columns."""
    packing = ops.packing(keys) if len(keys[0]) else None
    if packing is None:
        return ops.order_rows(keys)
    order: Array = ops.xp.argsort(packing.pack(keys))
    return order
