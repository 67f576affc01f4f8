"""Stores whose rows are in other stores until they are needed here: parts, or dictionary codes.

Adding rows to millions neither copies nor sorts nor indexes the old rows again: the parts are
relations with indexes of their own, and operators work part by part where they can. The parts are
merged, once, when all rows are needed in order, or an index of all rows.

A rule that runs on codes returns codes. Counting, comparing and sorting use the codes; a rule with
the same dictionaries reads them directly; an answer decodes only what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import ref

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.storage.degrees import AdjacencyLists, Degrees, Quantiles
from gdatalog.storage.keys import CodedColumn, Dictionary
from gdatalog.storage.on_device import DeviceStore, KnownRows
from gdatalog.storage.row_store import SORTED_BELOW, RowStore, places_in
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, Span
from gdatalog.storage.statistics import Statistics
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.storage.trie import Tests

# Each part has at least RATIO times the rows of the next, and there are at most MOST_PARTS: a join
# runs once for each combination of its relations' parts.
RATIO, MOST_PARTS = 8, 3
FEW = 1 << 8  # rows of a part that are merged with any that come
# From so many rows on, new ones become a part; fewer rows are sorted, and merged at once.
APART_FROM = SORTED_BELOW


class RowPart(Protocol):
    """Some of the rows: a relation."""

    @property
    def store(self) -> RowStore: ...
    @property
    def statistics(self) -> Statistics: ...
    def joined(self, *others: Self) -> Self: ...


Part = TypeVar("Part", bound=RowPart)


class DeferredRows(RowStore):
    """Rows that are in other stores until they are needed in this one."""

    @property
    def _sources(self) -> Sequence[RowStore]:
        """The other stores; none once the rows are here."""
        raise NotImplementedError

    @property
    def at_most(self) -> int:
        sources = self._sources
        return sum(store.at_most for store in sources) if sources else super().at_most

    @property
    def count(self) -> int:
        sources = self._sources
        return sum(store.count for store in sources) if sources else super().count

    @property
    def nbytes(self) -> int:
        sources = self._sources
        return sum(store.nbytes for store in sources) if sources else super().nbytes


class DisjointParts(DeferredRows, Generic[Part]):
    """Disjoint sets of rows on the host, largest first."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__([], 0, KnownRows.NOTHING)
        self.parts = tuple(parts)  # empty after the merge
        self._total: int | None = None  # the number of rows, once it was asked for

    def __reduce__(self) -> tuple[type[RowStore], tuple[list[Columns], int, KnownRows]]:
        self.as_they_are()
        return super().__reduce__()

    @property
    def _sources(self) -> Sequence[RowStore]:
        return [part.store for part in self.parts]

    @property
    def count(self) -> int:
        if self._total is None:
            self._total = super().count
        return self._total

    @property
    def known(self) -> KnownRows:
        sources = self._sources
        if not sources:
            return super().known
        return min(KnownRows.DISTINCT, *(store.known for store in sources))

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


# The history of a relation: its earlier versions, and the rows that were added since.
#
# A view keeps the `Version` of a relation that it read, not its rows, and can later ask which rows
# are new. The rows that were added between two versions are merged if nothing keeps the version
# between them.

# Sets of added rows are merged until each has at least this many times the rows of the next.
STACKED = 2
# New rows are known up to this number, or up to half of all: with more, recomputing is cheaper.
LITTLE = 1000


class Version:
    """Identifies the rows of a relation, as long as it is referenced."""


# The versions that a relation descends from, oldest first, each with the rows that were added next.
History = tuple[tuple[ref[Version], tuple[Part, ...]], ...]


def extended(
    history: History[Part], before: Version, new: Sequence[Part], count: int
) -> History[Part]:
    """The history of a relation of `count` rows, which adds `new` rows to the version `before` with
    this history; without versions since which too many rows were added."""
    steps: list[tuple[ref[Version], tuple[Part, ...]]] = []
    for version, rows in (*history, (ref(before), tuple(new))):
        if version() is not None:
            steps.append((version, rows))
        elif steps:
            steps[-1] = (steps[-1][0], stacked((*steps[-1][1], *rows)))
    added = accumulate(sum(part.store.at_most for part in rows) for _, rows in reversed(steps))
    kept = sum(rows <= max(LITTLE, count // 2) for rows in added)
    return tuple(steps[len(steps) - kept :])


def rows_since(history: History[Part], version: Version) -> tuple[Part, ...] | None:
    """The rows added since a version, in disjoint sets; None if unknown."""
    for at, (held, _) in enumerate(history):
        if held() is version:
            return tuple(part for _, rows in history[at:] for part in rows)
    return None


def stacked(
    parts: Sequence[Part], ratio: int = STACKED, most: int | None = None
) -> tuple[Part, ...]:
    """Merges the last of some disjoint sets of rows until each is at least `ratio` times as large
    as the next, none but the last has few rows, and there are at most `most`."""
    found = list(parts)
    while len(found) > 1 and (
        ratio * found[-1].store.at_most > found[-2].store.at_most
        or found[-2].store.at_most <= FEW
        or (most is not None and len(found) > most)
    ):
        small, large = found.pop(), found.pop()
        found.append(large.joined(small))
    return tuple(found)


# Relations whose rows are dictionary codes, decoded when the keys are needed.


class Coded(DeferredRows):
    """A set of rows with some columns in codes."""

    def __init__(
        self, codes: RowStore, statistics: Statistics, dictionaries: Sequence[Dictionary | None]
    ) -> None:
        """`statistics`: of the codes. `dictionaries`: one for each column, None for columns of
        keys."""
        super().__init__([], 0, KnownRows.NOTHING)
        self.codes: RowStore | None = codes  # None once they are decoded
        self.statistics = statistics
        self.dictionaries = tuple(dictionaries)
        self._ordered = not any(d is not None and d.more for d in dictionaries)

    @property
    def _sources(self) -> Sequence[RowStore]:
        codes = self.codes
        return () if codes is None else (codes,)

    @property
    def known(self) -> KnownRows:
        codes = self.codes
        if codes is None:
            return super().known
        return codes.known if self._ordered else min(codes.known, KnownRows.DISTINCT)

    @property
    def spans(self) -> list[Span]:
        ends = self._ends(self.codes)
        return super().spans if ends is None else ends

    def _ends(self, codes: RowStore | None) -> list[Span] | None:
        """The least and the greatest key of each column, if they are known without decoding."""
        if codes is None or not self._ordered:
            return None
        return [
            span if own is None else (int(own.keys[span[0]]), int(own.keys[span[1]]))
            for span, own in zip(codes.spans, self.dictionaries, strict=True)
        ]

    def distinct(self) -> list[Columns]:
        codes = self.codes
        if codes is not None:
            codes.distinct()
        return super().distinct()

    def sorted(self) -> Columns:
        codes = self.codes
        if codes is not None and self._ordered:
            codes.sorted()
        return super().sorted()

    def mirrored(self) -> bool:
        codes = self.codes
        if codes is not None and self.dictionaries[0] is self.dictionaries[1]:
            return codes.mirrored()
        return super().mirrored()

    def where_they_lie(self) -> tuple[list[Columns], DeviceStore | None]:
        codes = self.codes
        if codes is None:
            return super().where_they_lie()
        return [tuple(map(_column, block, self.dictionaries)) for block in codes.distinct()], None

    def _bring(self) -> None:
        if self.codes is None:
            return
        with self._lock:
            codes = self.codes
            if codes is None:
                return
            known, spans, blocks = self.known, self._ends(codes), codes.blocks
            count = sum(len(block[0]) for block in blocks)
            rows = cancellable(
                count,
                lambda: tuple(
                    _decoded(parts, own, None if spans is None else spans[at])
                    for at, (parts, own) in enumerate(
                        zip(zip(*blocks, strict=True), self.dictionaries, strict=True)
                    )
                ),
            )
            self._blocks, self._count, self._known = [rows], count, known
            self._plain, self._spans = spans is not None, spans
            self.codes = None


def _column(codes: Array, dictionary: Dictionary | None) -> Any:
    return codes if dictionary is None else CodedColumn(codes, dictionary)


def _decoded(parts: Sequence[Array], dictionary: Dictionary | None, span: Span | None) -> Array:
    """The parts of a column, decoded and concatenated; in 32 bits if all its keys fit."""
    if dictionary is None and len(parts) == 1:
        return parts[0]
    count = sum(map(len, parts))
    fits = span is not None and span[0] >= INT32_MIN and span[1] <= INT32_MAX
    keys = np.empty(count, dtype=np.int32 if fits else np.int64)
    start = 0
    for part in parts:
        into = keys[start : start + len(part)]

        def fill(rows: slice, part: Array = part, into: Array = into) -> None:
            into[rows] = part[rows] if dictionary is None else dictionary.decode(part[rows])

        in_ranges(fill, len(part))
        start += len(part)
    return keys
