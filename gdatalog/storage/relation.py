"""A relation: an immutable set of rows, with the tries built of it.

A change makes a new relation, so readers of this one are not affected: an interrupted query leaves
the database as it was. A relation that extends another keeps the new rows in a separate part, and
can tell which rows are new since a version of the other (`history.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, current_watch
from gdatalog.storage import parts, remote
from gdatalog.storage.coded import Coded
from gdatalog.storage.deferred_rows import DeferredRows
from gdatalog.storage.dictionary import Dictionary
from gdatalog.storage.history import History, Version, extended, rows_since, stacked
from gdatalog.storage.kept import carry, kept_nbytes
from gdatalog.storage.keys import check_no_nulls, decode_blocks, narrow
from gdatalog.storage.kinds import Kinds
from gdatalog.storage.load_options import Names, Types
from gdatalog.storage.membership import held_by
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_store import SORTED_BELOW, RowStore, joined_column
from gdatalog.storage.row_tests import mask
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, Span, few_sorted
from gdatalog.storage.statistics import Statistics
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table
from gdatalog.storage.threads import LONG, spread
from gdatalog.storage.trie import RowTest, Tests, Trie, TrieName, first_levels, trie_name
from gdatalog.storage.trie_builder import build_trie, ranked_trie, trie_of_rows

SORTED_TRIE = 24  # most bytes for each row and level while a trie is built
SORTED_TOGETHER = 1 << 12  # rows that are merged by sorting them together


class Relation:
    """A set of rows as columns of keys."""

    def __init__(
        self, columns: Names, types: Types, keys: Columns, length: int, ops: DeviceOps | None = None
    ) -> None:
        """A relation of sorted distinct rows; `length` is their number, for rows without columns.

        `ops`: the operations of the columns' device, unless they are NumPy arrays.
        """
        self._over(
            columns, types, RowStore([keys], length, KnownRows.SORTED, ops if keys else None)
        )

    def _over(self, columns: Names, types: Types, store: RowStore) -> None:
        self.columns = columns
        self.types = types
        self.store = store  # the rows as they arrived: on the host, on a device, or both
        self._tries: dict[TrieName, Trie] = {}
        self._asked: dict[TrieName, Trie] = {}  # the same, by the arguments of `trie`
        deferred = isinstance(store, DeferredRows)
        kind = parts.DeferredStatistics if deferred else Statistics
        self.statistics = kind(store, types, self._tries)
        self.version = Version()
        self.lineage: History[Relation] = ()
        # The rows added to the relation that this one extends; None if it extends none.
        self.news: tuple[Relation, ...] | None = None
        self.kinds: Kinds = ()  # the dtypes that the columns had when they were loaded
        self.nullable: tuple[bool, ...] = ()  # the columns that may hold nulls; empty: none

    def __len__(self) -> int:
        return self.length

    def __getstate__(self) -> object:
        return self.columns, self.types, self.store

    def __setstate__(self, state: tuple[Names, Types, RowStore]) -> None:
        self._over(*state)

    @staticmethod
    def over(columns: Names, types: Types, store: RowStore) -> Relation:
        """The relation of the rows of a store."""
        relation = Relation.__new__(Relation)
        relation._over(columns, types, store)
        return relation

    @staticmethod
    def empty(columns: Names, types: Types) -> Relation:
        return Relation(columns, types, tuple(np.empty(0, dtype=np.int32) for _ in types), 0)

    @staticmethod
    def of_blocks(
        columns: Names,
        types: Types,
        blocks: Sequence[Columns],
        length: int,
        distinct: bool = False,
        ops: DeviceOps | None = None,
        as_it_is: bool = False,
    ) -> Relation:
        """The relation of the rows of all blocks, in any order; `length` is their total number.

        `distinct` rows are kept as they are; a few rows are sorted, because people read them. A
        single block keeps its column widths if `as_it_is`. `ops`: the operations of the columns'
        device, unless they are NumPy arrays.
        """
        if not types:
            return Relation(columns, types, (), min(1, length))
        blocks = [block for block in blocks if len(block[0])]
        if not blocks:
            return Relation.empty(columns, types)
        known = KnownRows.DISTINCT if distinct else KnownRows.NOTHING
        store = RowStore(blocks, length, known, ops)
        if as_it_is and len(blocks) == 1:
            store.keep_as_it_is()
        elif length < SORTED_BELOW and ops is None:
            store.sorted()
        return Relation.over(columns, types, store)

    @staticmethod
    def of_codes(
        columns: Names, types: Types, codes: Relation, dictionaries: Sequence[Dictionary | None]
    ) -> Relation:
        """The relation of the rows that `codes` encodes with these dictionaries, one for each
        column."""
        if not codes.at_most:
            return Relation.empty(columns, types)
        store = Coded(codes.store, codes.statistics, dictionaries)
        if codes.at_most < SORTED_BELOW:
            distinct = codes.store.known >= KnownRows.DISTINCT
            return Relation.of_blocks(columns, types, store.blocks, codes.at_most, distinct)
        return Relation.over(columns, types, store)

    @staticmethod
    def of_parts(
        columns: Names,
        types: Types,
        lying: Sequence[remote.RemotePart],
        keeper: remote.Keeper,
        distinct: bool = False,
    ) -> Relation:
        """The relation of rows on other machines, with at least one column."""
        lying = [part for part in lying if part.rows]
        if not lying:
            return Relation.empty(columns, types)
        known = KnownRows.DISTINCT if distinct else KnownRows.NOTHING
        return Relation.over(columns, types, remote.RemoteRows(lying, keeper, known))

    @staticmethod
    def from_rows(columns: Names, types: Types, keys: Sequence[Array], length: int) -> Relation:
        """The relation of rows in any order, which may have duplicates."""
        if length == 1:
            return Relation(columns, types, tuple(map(narrow, keys)), 1)
        return Relation.of_blocks(columns, types, [tuple(map(narrow, keys))], length)

    def to_table(self, symbols: SymbolTable) -> Table:
        """The decoded rows, in their present order."""
        columns = decode_blocks(self.blocks(), self.types, symbols, nullable=self.nullable)
        own = self.kinds, self.nullable
        return Table(self.columns, self.types, columns, self.length, *own)

    def renamed(self, columns: Names) -> Relation:
        """The same rows (and tries, and statistics) under other column names."""
        other = Relation.over(columns, self.types, self.store)
        other._tries, other._asked, other.statistics = self._tries, self._asked, self.statistics
        other.version, other.lineage, other.news = self.version, self.lineage, self.news
        other.kinds, other.nullable = self.kinds, self.nullable
        return other

    def of_kinds(self, kinds: Kinds, nullable: tuple[bool, ...]) -> Relation:
        """The same rows with columns of these kinds, some of them nullable."""
        if (kinds, nullable) == (self.kinds, self.nullable):
            return self
        other = self.renamed(self.columns)
        other.kinds, other.nullable = kinds, nullable
        return other

    def check_nullable(self, nullable: tuple[bool, ...]) -> None:
        """Raises if a value has the key of a null in a column that becomes nullable."""
        if nullable != self.nullable:
            for at, null in enumerate(nullable):
                if null and not (self.nullable and self.nullable[at]):
                    check_no_nulls(np.asarray(self.column(at)), self.types[at])

    # --------------------------------------------------------------------------- more rows

    def grown(self, new: Relation) -> Relation:
        """This relation with new rows, which it must not have. The result knows which rows are
        new."""
        return self.beside(new).coming_from(self, [new]) if new.length else self.unchanged()

    def coming_from(self, before: Relation, new: Sequence[Relation]) -> Relation:
        """Records that this relation has the rows of `before` and the rows of `new`."""
        self.lineage = extended(before.lineage, before.version, new, self.at_most)
        self.news = tuple(new)
        carry(before.store, self.store)
        return self

    def unchanged(self) -> Relation:
        """This relation after a change that added no row: with no new rows, where this one may have
        those of an earlier change."""
        other = self.renamed(self.columns)
        other.version = Version()
        return other.coming_from(self, [])

    def beside(self, new: Relation) -> Relation:
        """This relation with new rows, which it must not have; many rows stay in separate parts."""
        here = self.store.on_host and new.store.on_host
        if not here or not self.types or self.at_most + new.at_most < parts.APART_FROM:
            return self.joined(new)
        lying = stacked((*self.parts, new), parts.RATIO, parts.MOST_PARTS)
        if len(lying) == 1:
            return lying[0]
        return Relation.over(self.columns, self.types, parts.DisjointParts(lying))

    def joined(self, *others: Relation) -> Relation:
        """The rows of disjoint relations in one part, in any order."""
        if not others:
            return self
        if not self.types:
            return Relation(self.columns, (), (), 1)
        each = [relation for relation in (self, *others) if relation.at_most]
        lying = [r.store.on_device for r in each if not r.store.on_host]
        ops = lying[0].ops if lying and lying[0] is not None else None
        if ops is None:
            blocks = [block for relation in each for block in relation.blocks()]
            if sum([len(block[0]) for block in blocks]) <= SORTED_TOGETHER:
                return Relation(self.columns, self.types, *few_sorted(blocks))
        else:
            blocks = [relation.store.lay(ops).distinct() for relation in each]
        count = sum(relation.length for relation in each)
        return Relation.of_blocks(self.columns, self.types, blocks, count, True, ops)

    @property
    def parts(self) -> tuple[Relation, ...]:
        """Disjoint relations that together have these rows: the parts, or the relation itself."""
        lying = self.store.parts if isinstance(self.store, parts.DisjointParts) else ()
        return lying or (self,)

    @property
    def remote(self) -> remote.RemoteRows | None:
        """The rows on other machines, if they are there; they may have been fetched, too."""
        return self.store if isinstance(self.store, remote.RemoteRows) else None

    @property
    def spans(self) -> list[Span]:
        """The least and the greatest value of each column; empty if there are no rows."""
        return self.store.spans

    def since(self, version: Version) -> tuple[Relation, ...] | None:
        """The rows that were added since a version, in disjoint relations; None if that is
        unknown."""
        return () if version is self.version else rows_since(self.lineage, version)

    def holds(self, rows: Columns) -> Array:
        """A mask of the `rows` that are in this relation, which has at least one column."""
        held: Array = np.zeros(len(rows[0]), dtype=np.bool_)
        for part in self.parts:
            held |= held_by(part.store, rows)
        return held

    # ----------------------------------------------------------------------------------- rows

    @property
    def length(self) -> int:
        """The number of rows."""
        return self.store.count

    @property
    def at_most(self) -> int:
        """The number of rows; duplicates count until they have been removed."""
        return self.store.at_most

    @property
    def counted(self) -> bool:
        """Whether the number of rows is known, or can be computed without other machines."""
        remote = self.remote
        return remote is None or not remote.unfetched or remote.known >= KnownRows.DISTINCT

    @property
    def keys(self) -> Columns:
        """The rows, sorted."""
        return self.store.sorted()

    @property
    def sorted_keys(self) -> Columns:
        """The rows, sorted, on their device."""
        device_rows = None if self.store.on_host else self.store.on_device
        return self.keys if device_rows is None else device_rows.sorted()

    @property
    def sorted(self) -> bool:
        """Whether the rows have been sorted."""
        return self.store.known == KnownRows.SORTED

    def blocks(self, distinct: bool = True) -> list[Columns]:
        """The rows in their present order, in blocks; with duplicates unless `distinct`."""
        return list(self.store.distinct() if distinct else self.store.blocks)

    @property
    def rows(self) -> Columns:
        """The rows in their present order; there may be duplicates."""
        return self.store.as_they_are()

    def column(self, at: int) -> Array:
        """A column's keys in the present order of the rows; there may be duplicates."""
        return self.store.as_they_are()[at]

    def side_by_side(self, columns: Sequence[int]) -> tuple[Columns, int]:
        """Some columns, and the number of rows; parts are not merged for it."""
        if len(self.parts) == 1 or self.store.spilled:
            rows = self.rows
            return tuple(rows[at] for at in columns), len(rows[0])
        blocks = self.blocks(distinct=False)
        return tuple(joined_column([block[at] for block in blocks]) for at in columns), sum(
            len(block[0]) for block in blocks
        )

    def part(self, rows: Array) -> Relation:
        """The relation of some rows, by their indices in `rows`."""
        return self.part_of(self.rows, rows)

    def part_of(self, among: Columns, rows: Array) -> Relation:
        """The relation of some of these rows, which `rows` returned, by their indices there."""
        keys = tuple(key[rows] for key in among)
        distinct = self.store.known >= KnownRows.DISTINCT and among is self.rows
        return Relation.of_blocks(self.columns, self.types, [keys], len(rows), distinct)

    def behind(self, count: int) -> Relation:
        """The relation of all but the first `count` rows of `rows`."""
        keys = tuple(key[count:] for key in self.rows)
        left = self.length - count
        return Relation.of_blocks(self.columns, self.types, [keys], left, True, as_it_is=True)

    @property
    def nbytes(self) -> int:
        return self.store.nbytes

    @property
    def trie_nbytes(self) -> int:
        """The bytes of its tries, and of what other modules keep with its rows."""
        graph = self.statistics.graph_here
        ranks = 0 if graph is None else graph.nbytes
        levels = [level for trie in self._tries.values() for level in trie.levels]
        weights = [t.weights.nbytes for t in self._tries.values() if t.weights is not None]
        parts = sum(part.trie_nbytes for part in self.parts) if len(self.parts) > 1 else 0
        own = sum({id(level): level.nbytes for level in levels}.values())
        return ranks + own + sum(weights) + kept_nbytes(self.store) + parts

    @property
    def graph(self) -> Any:
        """The rows as edges, if both columns have the same type.

        An `EdgeStatistics`, or a device's version of it.
        """
        return self.statistics.graph

    @property
    def symmetric(self) -> bool:
        """Whether a binary relation has (y, x) for every (x, y)."""
        return bool(self.graph is not None and self.graph.symmetric)

    # ---------------------------------------------------------------------------------- tries

    def trie(
        self,
        order: tuple[int, ...],
        tests: Tests = (),
        weighted: bool = False,
        ranked: bool = False,
    ) -> Trie:
        """The trie of the rows that pass `tests`, with the columns of `order` as levels.

        `ranked`: the trie of both directions of every edge, with ranks for vertices.
        """
        turned = order[:1] == (1,) and (ranked or (len(self.types) == 2 and self.symmetric))
        name = trie_name(order, tests, weighted, ranked, turned)
        trie = self._tries.get(name)
        if trie is None:
            trie = first_levels(self._tries, name)
            if trie is None:
                if self.at_most < cancellation.LATE or not self.store.on_host:
                    trie = self._build(*name)
                else:
                    trie = cancellable(self.at_most, partial(self._build, *name))
            self._tries[name] = trie
        self._asked[order, tests, weighted, ranked] = trie
        return trie

    def asked(self, name: TrieName) -> Trie | None:
        """The trie that `trie` returned for these arguments, if they were asked before."""
        return self._asked.get(name)

    def made(
        self,
        order: tuple[int, ...],
        tests: Tests = (),
        weighted: bool = False,
        ranked: bool = False,
    ) -> Trie | None:
        """The trie with these arguments, if it has been built. Guesses whether the relation is
        symmetric, instead of testing it."""
        two = len(self.types) == 2
        turned = order[:1] == (1,) and two and (ranked or self.statistics.balanced)
        name = trie_name(order, tests, weighted, ranked, turned)
        return self._tries.get(name) or first_levels(self._tries, name)

    def width(self, column: int) -> int:
        """The bytes of a key in a column."""
        unfetched = self.remote is not None and self.remote.unfetched
        if unfetched or (isinstance(self.store, Coded) and self.store.codes is not None):
            low, high = self.spans[column]
            return 4 if low >= INT32_MIN and high <= INT32_MAX else 8
        return int(self.store.as_they_are()[column].dtype.itemsize)

    def indexed(self, order: tuple[int, ...], tests: Tests = (), weighted: bool = False) -> bool:
        """Whether this trie has been built."""
        return trie_name(order, tests, weighted, False, False) in self._tries

    @property
    def indexes(self) -> Collection[TrieName]:
        """The tries that have been built."""
        return tuple(self._tries)

    def _build(self, order: tuple[int, ...], tests: Tests, weighted: bool, ranked: bool) -> Trie:
        if ranked:
            graph = self.statistics.graph_here
            assert graph is not None, self.types
            return ranked_trie(graph, order, tests, weighted, self._tries)
        store = self.store
        width = len(self.types)
        if not width:
            return Trie((), self.length, None)
        if not order:
            # Removing duplicates can take long, and not every plan needs the number.
            return Trie((), lambda: _passing(store, tests), None)
        if order == (0, 1)[:width] and width <= 2 and not tests:
            store.sorted()  # the trie shares the rows' last column
        elif weighted and len(order) < width:
            store.distinct()  # weights count rows that differ only in dropped columns
        account = current_watch().account
        spill = account.spill_for(self.at_most * SORTED_TRIE * len(order))
        if spill is not None:
            from gdatalog.storage.spilled_tries import trie_of

            return trie_of(store, order, tests, weighted, account, spill)
        in_order = self.sorted and order == tuple(range(len(order)))
        keys = store.as_they_are()
        length = len(keys[0])
        used = [keys[column] for column in order]
        if tests:
            rows = np.flatnonzero(mask(keys, tests))
            length = len(rows)
            used = spread(lambda column: column[rows], used, length >= LONG)
        if in_order:
            return build_trie(used, len(used), length, weighted)
        if weighted and len(order) == width:
            trie = trie_of_rows(used, length, False)
            return Trie(trie.levels, trie.total, np.ones(trie.total, dtype=np.int64))
        return trie_of_rows(used, length, weighted)


def _passing(store: RowStore, tests: Sequence[RowTest]) -> int:
    """The number of distinct rows that pass the tests."""
    if not tests:
        return store.count  # copies no rows from a device
    store.distinct()
    return int(np.count_nonzero(mask(store.as_they_are(), tests)))
