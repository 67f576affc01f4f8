"""Relations in parts: rows that are added to millions lie beside them.

Adding rows to millions neither copies nor sorts nor indexes the old rows again: the parts are
relations with indexes of their own, and operators work part by part where they can. The parts are
merged, once, when all rows are needed in order, or an index of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Generic

import numpy as np

from gdatalog.storage.coded import Coded
from gdatalog.storage.deferred_rows import DeferredRows
from gdatalog.storage.degrees import AdjacencyLists, Degrees
from gdatalog.storage.history import Part, RowPart
from gdatalog.storage.membership import places_in
from gdatalog.storage.on_device import DeviceStore, KnownRows
from gdatalog.storage.quantiles import Quantiles
from gdatalog.storage.row_store import SORTED_BELOW, RowStore
from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.statistics import Statistics
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Tests

# Each part has at least RATIO times the rows of the next, and there are at most MOST_PARTS: a join
# runs once for each combination of its relations' parts.
RATIO, MOST_PARTS = 8, 3
# From so many rows on, new ones become a part; fewer rows are sorted, and merged at once.
APART_FROM = SORTED_BELOW


class DisjointParts(DeferredRows, Generic[Part]):
    """Disjoint sets of rows on the host, largest first."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__([], 0, KnownRows.NOTHING)
        self.parts = tuple(parts)  # empty after the merge
        distinct = all(part.store.known >= KnownRows.DISTINCT for part in parts)
        # The number of rows, once it is known.
        self._total = sum([part.store.at_most for part in parts]) if distinct else None

    def __reduce__(self) -> tuple[type[RowStore], tuple[list[Columns], int, KnownRows]]:
        self.as_they_are()
        return super().__reduce__()

    @property
    def _sources(self) -> Sequence[RowStore]:
        return [part.store for part in self.parts]

    @property
    def at_most(self) -> int:
        return super().at_most if self._total is None else self._total

    @property
    def count(self) -> int:
        if self._total is None:
            self._total = super().count
        return self._total

    @property
    def known(self) -> KnownRows:
        if not self.parts:
            return super().known
        return min([KnownRows.DISTINCT, *[store.known for store in self._sources]])

    @property
    def blocks(self) -> list[Columns]:
        sources = self._sources
        return [block for store in sources for block in store.blocks] if sources else super().blocks

    @property
    def spans(self) -> list[Span]:
        sources = self._sources
        if not sources:
            return super().spans
        columns = zip(*filter(None, (store.spans for store in sources)), strict=True)
        return [(min(ends)[0], max(high for _, high in ends)) for ends in columns]

    def distinct(self) -> list[Columns]:
        sources = self._sources
        if not sources:
            return super().distinct()
        return [block for store in sources for block in store.distinct()]

    def where_they_lie(self) -> tuple[list[Columns], DeviceStore | None]:
        return (self.distinct(), None) if self.parts else super().where_they_lie()

    def as_they_are(self) -> Columns:
        with self._lock:
            if self.parts and self.parts[0].store.known == KnownRows.SORTED:
                return self.sorted()
            if self.parts:
                self._together(self.blocks, self.at_most, self.known)
            return super().as_they_are()

    def sorted(self) -> Columns:
        with self._lock:
            if self.parts:
                merged = reduce(_merged, [part.store.sorted() for part in self.parts])
                self._together([merged], len(merged[0]), KnownRows.SORTED)
                self._plain = True
            return super().sorted()

    def mirrored(self) -> bool:
        # If the largest part is not symmetric, all rows hardly are.
        parts = self.parts
        graph = parts[0].statistics.graph if parts else None
        if graph is not None and not graph.mirrored:
            return False
        return super().mirrored()

    def _together(self, blocks: list[Columns], count: int, known: KnownRows) -> None:
        self._blocks, self._count, self._known = blocks, count, known
        self.parts = ()


def _merged(large: Columns, small: Columns) -> Columns:
    """Two disjoint sets of sorted rows as one sorted set."""
    pairs = list(zip(large, small, strict=True))
    kinds = [np.promote_types(a.dtype, b.dtype) for a, b in pairs]
    large = tuple(key.astype(kind, copy=False) for key, kind in zip(large, kinds, strict=True))
    small = tuple(key.astype(kind, copy=False) for key, kind in zip(small, kinds, strict=True))
    places, _ = places_in(large, small)
    return tuple(np.insert(key, places, more) for key, more in zip(large, small, strict=True))


class DeferredStatistics(Statistics):
    """Statistics of rows in parts: estimates come from the largest part; exact values, which plans
    rely on, from all rows or not at all. Distinct values of codes are counted without decoding."""

    @property
    def _parts(self) -> tuple[RowPart, ...]:
        return self._store.parts if isinstance(self._store, DisjointParts) else ()

    @property
    def _largest(self) -> Statistics | None:
        parts = self._parts
        return parts[0].statistics if parts else None

    def distinct(self, columns: frozenset[int]) -> int:
        if isinstance(self._store, Coded) and self._store.codes is not None:
            return self._store.statistics.distinct(columns)
        largest = None if len(columns) == len(self._types) else self._largest
        return super().distinct(columns) if largest is None else largest.distinct(columns)

    def degrees(self, column: int, tests: Tests = (), ranked: bool = False) -> Degrees:
        largest = None if ranked else self._largest
        if largest is None:
            return super().degrees(column, tests, ranked)
        return largest.degrees(column, tests)

    def quantiles(self, column: int) -> Quantiles:
        largest = self._largest
        return super().quantiles(column) if largest is None else largest.quantiles(column)

    def ascends(self, left: int, right: int) -> bool:
        parts = self._parts
        if not parts:
            return super().ascends(left, right)
        return all(part.statistics.ascends(left, right) for part in parts)

    @property
    def symmetric(self) -> bool:
        largest = self._largest
        return (largest is None or largest.symmetric) and super().symmetric

    @property
    def loopless(self) -> bool:
        parts = self._parts
        return all(part.statistics.loopless for part in parts) if parts else super().loopless

    @property
    def balanced(self) -> bool:
        largest = self._largest
        return super().balanced if largest is None else largest.balanced

    def lists(self, column: int, tests: Tests = (), ranked: bool = False) -> AdjacencyLists | None:
        largest = None if ranked else self._largest
        if largest is None:
            return super().lists(column, tests, ranked)
        return largest.lists(column, tests)

    def set(self) -> Array | None:
        largest = self._largest
        return super().set() if largest is None else largest.set()
