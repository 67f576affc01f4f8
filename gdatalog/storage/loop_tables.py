"""Hash tries, which compiled loops fill.

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
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.codegen.native_calls import Bound

# The length of `counts`, and two of its entries (codegen/helpers/hash_tables.py).
COUNTS, ADDED, LOW = 36, 34, 35
LEAST = 16  # least entries of an array
PIECE = 1 << 16  # rows in one batch
# Maximum entries of a root's array by value: in all, or per row.
DENSE, DENSE_EACH = 1 << 20, 16
MOST_CHILDREN = (1 << 31) - 1  # children of a level

_NOTHING: Array = np.empty(0, dtype=np.int32)
_NO_KEYS: Array = np.empty(0, dtype=np.int64)


Functions = Callable[[str], Any]

versions = numbers(1)  # of arrays that loops read in place


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
        self.counts: Array = np.zeros(COUNTS, dtype=np.int64)
        self.adding: Bound | None = None  # the function that adds rows; None: an array is another
        if not (root or last):
            self.make_table()

    @property
    def nbytes(self) -> int:
        parts = (self.values, self.below, self.spans, self.keys, self.ids, self.index, self.counts)
        return sum(part.nbytes for part in parts)

    @property
    def dense(self) -> bool:
        return self.root and not len(self.keys)

    def add(self, column: Array, nodes: Array, out: Array) -> int:
        """Adds values to nodes until an array is full; returns how many have been added. The nodes
        and `out`, which gets the child of each row, are the same until `adding` is None."""
        if self.adding is None:
            from gdatalog.codegen.native_calls import Bound

            lists = {name: getattr(self, name) for name in ("spans", "values", "below", "counts")}
            given: dict[str, Array] = {"column": column}
            if self.dense:
                name, given = "add_indexed", {**given, "index": self.index, **lists, "out": out}
            elif len(self.keys):
                name, table = "add_children", {"keys": self.keys, "ids": self.ids}
                given = {**given, "nodes": nodes, **table, **lists, "out": out}
            else:
                name, given = "add_different", {**given, "nodes": nodes, **lists}
            self.adding = Bound(self.functions(name), given)
        self.adding.lend("column", column)
        return self.adding()

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
        self.counts[LOW] = bottom

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
    of columns. `version` is another one whenever an array has been replaced; no two tries share
    one."""

    def __init__(self, columns: Sequence[int], arity: int, functions: Functions) -> None:
        self.columns = tuple(columns)
        self.whole = len(columns) == arity
        last = len(columns) - 1
        self.levels = [HashLevel(at == 0, at == last, functions) for at in range(len(columns))]
        self.total = 0  # rows that have been added
        # For a piece of rows: the root, and the child of each row on each level.
        self._nodes: list[Array] = [_NOTHING] * (len(columns) + 1)
        self.layouts: dict[object, Any] = {}
        self._changed()
        if self.levels[-1].root or not self.whole:
            self.table(last)

    def _changed(self) -> None:
        """Called when an array is to be another one."""
        self.version = next(versions)
        self._nbytes: int | None = None
        for level in self.levels:
            level.adding = None

    @property
    def nbytes(self) -> int:
        if self._nbytes is None:
            levels = sum(level.nbytes for level in self.levels)
            self._nbytes = levels + sum(nodes.nbytes for nodes in self._nodes)
        return self._nbytes

    def table(self, depth: int) -> Array:
        """The hash table of a level; the last level builds it on first use."""
        level = self.levels[depth]
        if not (len(level.keys) or level.root):
            level.make_table(int(self.levels[depth - 1].counts[0]))
            self._changed()
        return level.keys

    def add(self, rows: Sequence[Array]) -> None:
        """Adds rows, which must be new."""
        columns = [np.ascontiguousarray(rows[at], dtype=np.int32) for at in self.columns]
        count = len(rows[0])
        if (most := min(count, PIECE)) > len(self._nodes[0]):
            self._changed()
            size = 1 << (most - 1).bit_length()
            self._nodes = [np.zeros(size, dtype=np.int32) for _ in self._nodes]
        for start in range(0, count, PIECE):
            self.total += min(PIECE, count - start)
            for at, column in enumerate(columns):
                self._add(at, column[start : start + PIECE] if count > PIECE else column)

    def _add(self, at: int, column: Array) -> None:
        level, (nodes, out) = self.levels[at], self._nodes[at : at + 2]
        while (done := level.add(column, nodes, out)) < len(column):
            level.counts[ADDED] = done
            self._changed()
            value = int(column[done])
            if level.dense and not 0 <= value - level.low < len(level.index):
                level.widen(value, self.total)
            else:
                level.grow()
        level.counts[ADDED] = 0
        if not level.last:
            below, count = self.levels[at + 1], int(level.counts[0])
            if 2 * count > len(below.spans):  # makes room for the lists of the nodes
                self._changed()
                below.spans = _longer(below.spans, 4 * count, True)


def _longer(array: Array, size: int, zeros: bool = False) -> Array:
    made = (np.zeros if zeros else np.empty)(size, dtype=array.dtype)
    made[: len(array)] = array
    return made
