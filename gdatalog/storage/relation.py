"""A relation: a set of rows that never changes, and the tries made of it.

Changing a relation means making another one, so that whoever holds this one is not disturbed:
an interrupted query leaves the database as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.graph import Graph, Ranking
from gdatalog.storage.keys import decode_column, encode_column, narrow
from gdatalog.storage.rows import Columns, firsts, sort_rows, sorted_set
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.storage.trie import Trie, build_trie
from gdatalog.values import TypeName

# A test between two columns of a row, as (left column, operator, right column).
RowTest = tuple[int, str, int]

_COMPARE = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _onwards(test: RowTest) -> RowTest:
    """The same test with the lower column first: one index has one name."""
    left, op, right = test
    return test if left <= right else (right, _FLIPPED[op], left)


class Relation:
    """Rows as columns of keys, sorted lexicographically, without duplicates."""

    __slots__ = ("_distinct", "_graph", "_rises", "_tries", "columns", "keys", "length", "types")

    def __init__(
        self,
        columns: tuple[str, ...],
        types: tuple[TypeName, ...],
        keys: Columns,
        length: int,
    ) -> None:
        self.columns = columns
        self.types = types
        self.keys = keys
        self.length = length
        self._tries: dict[object, Trie] = {}
        self._distinct: dict[int, int] = {}
        self._rises: dict[tuple[int, int], bool] = {}
        self._graph: Graph | None = None

    def __len__(self) -> int:
        return self.length

    def __getstate__(self) -> object:
        return self.columns, self.types, self.keys, self.length

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @staticmethod
    def empty(columns: tuple[str, ...], types: tuple[TypeName, ...]) -> Relation:
        return Relation(columns, types, tuple(np.empty(0, dtype=np.int32) for _ in types), 0)

    @staticmethod
    def from_rows(
        columns: tuple[str, ...], types: tuple[TypeName, ...], keys: Sequence[Array], length: int
    ) -> Relation:
        """The relation of rows in any order, duplicates and all."""
        if not types:
            return Relation(columns, types, (), min(1, length))
        rows = sort_rows([narrow(key) for key in keys])
        return Relation(columns, types, rows, len(rows[0]))

    @staticmethod
    def from_table(table: Table, symbols: SymbolTable) -> Relation:
        keys = [
            encode_column(column, kind, symbols)
            for column, kind in zip(table.columns, table.types, strict=True)
        ]
        return Relation.from_rows(table.names, table.types, keys, table.length)

    def to_table(self, symbols: SymbolTable) -> Table:
        columns = tuple(
            decode_column(key, kind, symbols)
            for key, kind in zip(self.keys, self.types, strict=True)
        )
        return Table(self.columns, self.types, columns, self.length)

    def renamed(self, columns: tuple[str, ...]) -> Relation:
        """The same rows (and tries) under other column names."""
        other = Relation(columns, self.types, self.keys, self.length)
        other._tries, other._distinct, other._graph = self._tries, self._distinct, self.graph
        return other

    @property
    def nbytes(self) -> int:
        return sum(key.nbytes for key in self.keys)

    @property
    def trie_nbytes(self) -> int:
        ranks = 0 if self._graph is None else self._graph.nbytes
        return ranks + sum({id(trie): trie.nbytes for trie in self._tries.values()}.values())

    def distinct(self, column: int) -> int:
        """How many distinct values a column has: exactly, or from a sample if it is long."""
        found = self._distinct.get(column)
        if found is None:
            key = self.keys[column]
            if self.length == 0:
                found = 0
            elif column == 0:
                found = int(np.count_nonzero(firsts(key)))
            elif self.length <= 1_000_000 or int(key.max()) - int(key.min()) < self.length:
                found = len(sorted_set(key))
            else:
                # If most of a spread-out sample are new values, so are most of the rest.
                step = self.length // 50_000
                sample = np.sort(key[::step])
                seen = np.flatnonzero(firsts(sample))
                once = int(np.count_nonzero(np.diff(np.append(seen, len(sample))) == 1))
                found = int(len(seen) * (1 + once / len(sample) * (step - 1)))
            self._distinct[column] = found
        return found

    def rises(self, left: int, right: int) -> bool:
        """Whether one column is less than another in every row; symbols have no order."""
        found = self._rises.get((left, right))
        if found is None:
            a, b = self.keys[left], self.keys[right]
            found = (
                self.types[left] == self.types[right] != "symbol"
                and self.length > 0
                # a few rows tell most of the time
                and bool((a[:1000] < b[:1000]).all())
                and bool((a < b).all())
            )
            self._rises[left, right] = found
        return found

    @property
    def graph(self) -> Graph | None:
        """What is known of the rows as edges, if they can be: both columns have one type."""
        if self._graph is None and len(self.types) == 2 and self.types[0] == self.types[1]:
            self._graph = Graph(*self.keys)
        return self._graph

    @property
    def symmetric(self) -> bool:
        """Whether a binary relation holds (y, x) wherever it holds (x, y)."""
        return self.graph is not None and self.graph.symmetric

    @property
    def loops(self) -> bool:
        """Whether a binary relation holds some (x, x)."""
        return self.graph is not None and self.graph.loops

    def ranking(self) -> Ranking:
        """The vertices of a binary relation over one type, by degree."""
        assert self.graph is not None, self.types
        return self.graph.ranking()

    # ---------------------------------------------------------------------------------- tries

    def trie(
        self,
        order: tuple[int, ...],
        tests: tuple[RowTest, ...] = (),
        weighted: bool = False,
        ranked: bool = False,
    ) -> Trie:
        """The trie of the rows that pass `tests`, its levels the columns of `order`.

        `ranked`: of both ways of every row of a graph, with ranks for vertices.
        """
        if order[:1] == (1,) and (ranked or (len(self.types) == 2 and self.symmetric)):
            # One trie serves both orders.
            order = tuple(1 - column for column in order)
            tests = tuple((1 - left, op, 1 - right) for left, op, right in tests)
        tests = tuple(_onwards(test) for test in tests)
        name = (order, tests, weighted, ranked)
        trie = self._tries.get(name)
        if trie is None:
            build = self._build_ranked if ranked else self._build
            trie = build(order, tests, weighted)
            self._tries[name] = trie
        return trie

    def _build_ranked(
        self, order: tuple[int, ...], tests: tuple[RowTest, ...], weighted: bool
    ) -> Trie:
        assert self.graph is not None, self.types
        rows = self.graph.ranked(tests)
        trie = build_trie(rows, len(order), len(rows[0]), weighted)
        trie.labels = self.graph.ranking().labels
        return trie

    def _build(self, order: tuple[int, ...], tests: tuple[RowTest, ...], weighted: bool) -> Trie:
        keys = self.keys
        length = self.length
        if tests:
            keep = np.ones(length, dtype=np.bool_)
            for left, op, right in tests:
                keep &= _COMPARE[op](keys[left], keys[right])
            rows = np.flatnonzero(keep)
            keys = tuple(key[rows] for key in keys)
            length = len(rows)
        if order == tuple(range(len(order))):
            return build_trie(keys, len(order), length, weighted)
        if not weighted:
            ordered = sort_rows([keys[column] for column in order])
            return build_trie(ordered, len(order), len(ordered[0]), False)
        # Rows that differ only in dropped columns must stay apart, to be counted.
        rest = [column for column in range(len(keys)) if column not in order]
        ordered = sort_rows([keys[column] for column in (*order, *rest)])
        return build_trie(ordered, len(order), length, True)
