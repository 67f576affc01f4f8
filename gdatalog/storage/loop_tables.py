"""Tables that compiled loops fill: hash tries, and tables of counts.

A hash trie is the index of a relation to which rows are added in place. Each level has the children
of the nodes above it: an unordered list for each node, and one hash table of all (parent, value)
pairs. A root of dense values has an array by value instead. So a round of a fixpoint adds its new
rows without sorting, merging or copying; a join walks lists and looks values up in constant time.
Columns have 32 bits.

Adding is compiled (`codegen/helpers/hash_tables.py`): `functions` returns a compiled function by
its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdatalog.account import Account
from gdatalog.records import dataclass, field
from gdatalog.storage.graph import passes
from gdatalog.storage.on_device import RowOps
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest, Trie, TrieLevel

LISTS = 34  # entries of `counts` (codegen/helpers/hash_tables.py)
LEAST = 16  # least entries of an array
PIECE = 1 << 16  # rows in one batch
# Maximum entries of a root's array by value: in all, or per row.
DENSE, DENSE_EACH = 1 << 20, 16
MOST_CHILDREN = (1 << 31) - 1  # children of a level

_NOTHING: Array = np.empty(0, dtype=np.int32)
_NO_KEYS: Array = np.empty(0, dtype=np.int64)


Functions = Callable[[str], Any]


class TooLong(Exception):
    """A level has more children than its 32-bit positions can number."""


class HashLevel:
    """One level. `keys` and `ids`: its hash table, if it has one; `index`: the children by value,
    from `low` on, of a root of dense values. `below`: the child of each value, except on the last
    level."""

    def __init__(self, root: bool, last: bool, functions: Functions) -> None:
        self.functions = functions
        self.root, self.last = root, last
        self.values: Array = np.empty(LEAST, dtype=np.int32)
        self.below: Array = _NOTHING if last else np.empty(LEAST, dtype=np.int32)
        self.spans: Array = np.zeros(2 * LEAST, dtype=np.int32)
        self.keys: Array = _NO_KEYS
        self.ids: Array = _NOTHING
        self.index: Array = _NOTHING
        self.low = 0
        self.counts: Array = np.zeros(LISTS, dtype=np.int64)
        if not (root or last):
            self.make_table()

    @property
    def nbytes(self) -> int:
        parts = (self.values, self.below, self.spans, self.keys, self.ids, self.index, self.counts)
        return sum(part.nbytes for part in parts)

    @property
    def dense(self) -> bool:
        return self.root and not len(self.keys)

    def dense_index(self) -> tuple[int, Array]:
        return self.low, self.index

    def make_table(self, nodes: int = 0) -> None:
        """Builds the hash table; on the last level from the lists of `nodes` nodes."""
        count = int(self.spans[1 : 2 * nodes : 2].sum())
        self._clear_table(count)
        if nodes:
            self.functions("fill_table")(self.spans, nodes, self.values, self.keys)
            self.counts[0] = count

    def _clear_table(self, count: int) -> None:
        """Allocates an empty table for `count` children."""
        size = max(LEAST, 1 << (4 * count - 1).bit_length()) if count else LEAST
        self.keys = np.zeros(size, dtype=np.int64)
        self.ids = np.empty(0 if self.last else size, dtype=np.int32)

    def widen(self, value: int, rows: int) -> None:
        """Extends the array of a dense root to a value, or replaces it by a table."""
        low, high = (
            (self.low, self.low + len(self.index) - 1) if len(self.index) else (value, value)
        )
        span = max(high, value) - min(low, value) + 1
        if span > max(DENSE, DENSE_EACH * rows):
            at = np.flatnonzero(self.index >= 0)
            children, values = self.index[at], (at + self.low).astype(np.int64)
            self.index = _NOTHING
            self._clear_table(len(at))
            pairs: Array = (values & 0xFFFF_FFFF) + 1  # of node 0, in the form of `keys`
            ids = _NOTHING if self.last else children.astype(np.int32)
            self.functions("move_pairs")(pairs, ids, self.keys, self.ids)
            return
        # With spare room, so that growing values rarely exceed it.
        room = min(span, 1 << 16)
        bottom = min(low, value) - (room if value < low else 0)
        top = max(high, value) + (room if value >= high else 0)
        index = np.full(top - bottom + 1, -1, dtype=np.int32)
        index[self.low - bottom : self.low - bottom + len(self.index)] = self.index
        self.low, self.index = bottom, index

    def grow(self) -> None:
        """Enlarges the array that is full."""
        if len(self.keys) and 2 * int(self.counts[0]) >= len(self.keys):
            keys, ids = self.keys, self.ids
            self.keys = np.zeros(2 * len(keys), dtype=np.int64)
            self.ids = np.empty(2 * len(ids), dtype=np.int32)
            self.functions("move_pairs")(keys, ids, self.keys, self.ids)
            return
        size = 2 * len(self.values)
        if size > MOST_CHILDREN:
            raise TooLong
        self.values = _longer(self.values, size)
        if not self.last:
            self.below = _longer(self.below, size)


class HashTrie:
    """`columns`: the relation's columns, in the order of the levels. `arity`: the relation's number
    of columns."""

    def __init__(self, columns: Sequence[int], arity: int, functions: Functions) -> None:
        self.columns = tuple(columns)
        self.whole = len(columns) == arity
        last = len(columns) - 1
        self.levels = [HashLevel(at == 0, at == last, functions) for at in range(len(columns))]
        self.total = 0  # rows that have been added
        self.layouts: dict[object, Any] = {}
        self._nbytes: int | None = None  # None: it may have changed
        if self.levels[-1].root or not self.whole:
            self.table(last)

    @property
    def nbytes(self) -> int:
        if self._nbytes is None:
            self._nbytes = sum(level.nbytes for level in self.levels)
        return self._nbytes

    def table(self, depth: int) -> Array:
        """The hash table of a level; the last level builds it on first use."""
        level = self.levels[depth]
        if not (len(level.keys) or level.root):
            level.make_table(int(self.levels[depth - 1].counts[0]))
            self._nbytes = None
        return level.keys

    def add(self, rows: Sequence[Array]) -> None:
        """Adds rows, which must be new."""
        self._nbytes, count = None, len(rows[0])
        columns = [np.ascontiguousarray(rows[at], dtype=np.int32) for at in self.columns]
        for start in range(0, count, PIECE):
            piece = [column[start : start + PIECE] for column in columns]
            self.total += len(piece[0])
            nodes: Array | None = None
            for level, column in zip(self.levels, piece, strict=True):
                nodes = self._add(level, column, nodes)

    def _add(self, level: HashLevel, column: Array, nodes: Array | None) -> Array:
        count = len(column)
        if nodes is None:
            nodes = np.zeros(count, dtype=np.int32)
        out: Array = np.empty(count, dtype=np.int32)
        done = 0
        while True:
            done = self._rows(level, column, nodes, done, count, out)
            if done == count:
                break
            if level.dense:
                value = int(column[done])
                if not 0 <= value - level.low < len(level.index):
                    level.widen(value, self.total)
                    continue
            level.grow()
        if not level.last:
            below, count = self.levels[self.levels.index(level) + 1], int(level.counts[0])
            if 2 * count > len(below.spans):  # makes room for the lists of the nodes
                below.spans = _longer(below.spans, 4 * count, True)
        return out

    def _rows(
        self, level: HashLevel, column: Array, nodes: Array, lo: int, hi: int, out: Array
    ) -> int:
        lists = level.spans, level.values, level.below, level.counts
        if level.dense:
            add = level.functions("add_indexed")
            return int(add(column, level.low, level.index, lo, hi, *lists, out))
        if len(level.keys):
            add = level.functions("add_children")
            return int(add(column, nodes, lo, hi, level.keys, level.ids, *lists, out))
        return int(level.functions("add_different")(column, nodes, lo, hi, *lists))


def _longer(array: Array, size: int, zeros: bool = False) -> Array:
    made = (np.zeros if zeros else np.empty)(size, dtype=array.dtype)
    made[: len(array)] = array
    return made


# Tables of counts that loops make: those that loops keep for themselves, and counts of edges.


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
        root, below = self.edges.levels  # the first column is always the lesser one, or never
        first = xp.searchsorted(below.offsets, xp.zeros(1, dtype=xp.int64), side="right") - 1
        rises = len(below) > 0 and bool((root.values[first] < below.values[:1]).all())
        ways = [way for way in (1, -1) if passes(-way if rises else way, tests)]
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
