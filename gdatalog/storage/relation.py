"""A relation: a set of rows that never changes, and the tries made of it.

Changing a relation means making another one, so that whoever holds this one is not disturbed:
an interrupted query leaves the database as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.keys import decode_column, encode_column, narrow
from gdatalog.storage.rows import Columns, sort_rows
from gdatalog.storage.statistics import COMPARE, RowTest, Statistics
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.storage.trie import Trie, build_trie
from gdatalog.values import TypeName


class Relation:
    """Rows as columns of keys, sorted lexicographically, without duplicates."""

    __slots__ = ("_tries", "columns", "keys", "length", "statistics", "types")

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
        self._tries: dict[tuple[object, ...], Trie] = {}
        self.statistics = Statistics(keys, types, length, self._tries)

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
        """The same rows (and tries, and statistics) under other column names."""
        other = Relation(columns, self.types, self.keys, self.length)
        other._tries, other.statistics = self._tries, self.statistics
        return other

    @property
    def nbytes(self) -> int:
        return sum(key.nbytes for key in self.keys)

    @property
    def trie_nbytes(self) -> int:
        return sum({id(trie): trie.nbytes for trie in self._tries.values()}.values())

    # ---------------------------------------------------------------------------------- tries

    def trie(
        self, order: tuple[int, ...], tests: tuple[RowTest, ...] = (), weighted: bool = False
    ) -> Trie:
        """The trie of the rows that pass `tests`, its levels the columns of `order`."""
        name = (order, tests, weighted)
        trie = self._tries.get(name)
        if trie is None:
            trie = self._share_or_build(order, tests, weighted)
            self._tries[name] = trie
        return trie

    def _share_or_build(
        self, order: tuple[int, ...], tests: tuple[RowTest, ...], weighted: bool
    ) -> Trie:
        trie = self._build(order, tests, weighted)
        if order == (1, 0) and len(self.types) == 2 and not tests:
            # A symmetric relation needs one trie for both orders.
            straight = self.trie((0, 1), (), weighted)
            if all(
                np.array_equal(mine.values, other.values)
                for mine, other in zip(trie.levels, straight.levels, strict=True)
            ) and np.array_equal(trie.levels[1].offsets, straight.levels[1].offsets):
                return straight
        return trie

    def _build(self, order: tuple[int, ...], tests: tuple[RowTest, ...], weighted: bool) -> Trie:
        keys = self.keys
        length = self.length
        if tests:
            keep = np.ones(length, dtype=np.bool_)
            for left, op, right in tests:
                keep &= COMPARE[op](keys[left], keys[right])
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

    @property
    def symmetric(self) -> bool:
        """Whether a binary relation holds (y, x) wherever it holds (x, y)."""
        if len(self.types) != 2 or self.types[0] != self.types[1]:
            return False
        return self.trie((1, 0)) is self.trie((0, 1))
