"""Rows on other machines: fetched on demand, with statistics from a survey and a sample.

Their keeper (a cluster) works on the parts where they are: it counts rows, makes them distinct, and
surveys them for the planner. Code that needs columns on this machine fetches them, if they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple, Protocol

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage import TypedColumns
from gdatalog.storage.degrees import AdjacencyLists, Degrees, Quantiles, mask
from gdatalog.storage.graph import Ranking
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.statistics import Statistics, estimated, runs_of
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Tests, Trie, TrieName
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True, eq=False)
class RemotePart:
    """Some of the rows, as columns of keys of their database.

    Only the keeper knows what `value` is: how to read the rows, a result on a worker, or the
    columns.
    """

    value: Any
    rows: int
    nbytes: int  # of the columns

    @staticmethod
    def of(columns: Columns) -> RemotePart:
        """Rows on this machine, which are sent to where they are processed."""
        return RemotePart(columns, len(columns[0]), sum(column.nbytes for column in columns))


class RowRange(NamedTuple):
    """The rows `start` to `stop` of a part."""

    part: RemotePart
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Statistics of all rows, from one pass; duplicates count.

    `sample`: a systematic sample. `distinct`, `degrees`, `spans`: of each column. `rises`: pairs of
    columns, the first of which is less than the second in every row.
    """

    sample: Columns
    distinct: tuple[int, ...]
    degrees: tuple[Degrees, ...]
    spans: tuple[Span, ...]
    rises: frozenset[tuple[int, int]]
    loops: bool = False  # whether a row of two columns has one value twice
    symmetric: bool = False  # whether two columns have (y, x) for every (x, y)


class Keeper(Protocol):
    """Keeps the parts."""

    def fetch(self, pieces: Sequence[RowRange]) -> list[Columns]:
        """Fetches rows in blocks, in this order; MemoryLimitError if they do not fit."""

    def put(self, blocks: Sequence[Columns]) -> Sequence[RemotePart]:
        """Copies rows to the other machines; no block may be empty."""

    def fetched(self, rows: RemoteRows) -> None:
        """Called when all rows have been fetched."""

    def distinct(self, rows: RemoteRows) -> Sequence[RemotePart]:
        """Parts of the distinct rows, which stay where they are."""

    def survey(self, rows: RemoteRows) -> Survey:
        """Computes the statistics for the planner."""

    def to_dask(self, rows: RemoteRows, shape: TypedColumns, symbols: SymbolTable) -> Any:
        """A dask DataFrame of the distinct rows, with partitions where the rows are."""

    def write(
        self, rows: RemoteRows, shape: TypedColumns, symbols: SymbolTable, folder: str
    ) -> None:
        """Writes the distinct rows to Parquet files in an empty folder."""

    def ranking(self, rows: RemoteRows) -> Ranking:
        """The ranks of the vertices of edges, with degrees counted on the other machines."""

    def ranked_degrees(self, rows: RemoteRows, column: int, tests: Tests) -> Degrees:
        """The degrees of ranks in a column, in both directions of every edge, if they pass the
        tests."""

    def skew(self, rows: RemoteRows) -> float:
        """The pairs of higher neighbours in the order of keys, relative to the order of degrees."""


class RemoteRows(RowStore):
    """A set of rows of at least one column, in parts on other machines.

    `parts` stay after the rows have been fetched, for work on the other machines.
    """

    def __init__(self, parts: Sequence[RemotePart], keeper: Keeper, known: KnownRows) -> None:
        """`known`: NOTHING, or DISTINCT if no two rows of all parts are equal."""
        super().__init__([], sum(part.rows for part in parts), known)
        self.parts = tuple(parts)
        self.keeper = keeper
        self.on_host = False
        self._plain = False
        self._survey: Survey | None = None
        self._ranking: Ranking | None = None

    @property
    def unfetched(self) -> bool:
        """Whether the rows have not been fetched."""
        return not self.on_host

    @property
    def remote_bytes(self) -> int:
        """The bytes of the columns on the other machines."""
        return sum(part.nbytes for part in self.parts)

    @property
    def survey(self) -> Survey:
        with self._lock:
            if self._survey is None:
                self._survey = self.keeper.survey(self)
            return self._survey

    def know(self, survey: Survey) -> None:
        """Caches statistics that were computed elsewhere."""
        self._survey = survey

    @property
    def ranking(self) -> Ranking:
        """The ranks of the vertices of edges, on this machine; work elsewhere has them sent."""
        with self._lock:
            if self._ranking is None:
                self._ranking = self.keeper.ranking(self)
            return self._ranking

    def make_distinct(self) -> tuple[RemotePart, ...]:
        """The parts, after removing duplicates from all of them together."""
        with self._lock:
            if not self.on_host and self._known < KnownRows.DISTINCT:
                self.parts = tuple(self.keeper.distinct(self))
                self._count = sum(part.rows for part in self.parts)
                self._known = KnownRows.DISTINCT
            return self.parts

    def stretch(self, start: int, stop: int) -> list[Columns]:
        """The distinct rows `start` to `stop` in the parts' order; fetches only these."""
        pieces = []
        for part in self.make_distinct():
            if start < min(stop, part.rows):
                pieces.append(RowRange(part, start, min(stop, part.rows)))
            start, stop = max(0, start - part.rows), max(0, stop - part.rows)
        return self.keeper.fetch(pieces) if pieces else []

    # ------------------------------------------------------------ what is asked of a row store

    @property
    def count(self) -> int:
        if self.on_host:
            return super().count
        self.make_distinct()
        return self._count

    @property
    def spans(self) -> list[Span]:
        return list(self.survey.spans) if self.unfetched else super().spans

    @property
    def nbytes(self) -> int:
        """The bytes on this machine."""
        return super().nbytes if self.on_host else 0

    def distinct(self) -> list[Columns]:
        if not self.on_host:  # fetches fewer rows
            self.make_distinct()
        return super().distinct()

    def mirrored(self) -> bool:
        return super().mirrored() if self.on_host else self.survey.symmetric

    def _bring(self) -> None:
        if self.on_host:
            return
        with self._lock:
            if self.on_host:
                return
            blocks = self.keeper.fetch([RowRange(part, 0, part.rows) for part in self.parts])
            self._blocks = [block for block in blocks if len(block[0])]
            self.on_host = True
            self.keeper.fetched(self)


# Statistics of rows on other machines, from one survey and its sample.


class RemoteStatistics(Statistics):
    """The statistics of rows on other machines: from a survey, until they are fetched."""

    def __init__(
        self, store: RowStore, types: Sequence[TypeName], tries: Mapping[TrieName, Trie]
    ) -> None:
        super().__init__(store, types, tries)
        self._whole: RemoteGraph | None = None

    @property
    def _rows(self) -> RemoteRows | None:
        """The rows, if they have not been fetched."""
        return (
            self._store if isinstance(self._store, RemoteRows) and self._store.unfetched else None
        )

    @property
    def graph(self) -> Any:
        rows = self._rows
        if rows is None or not self._edges:
            return super().graph
        if self._whole is None:
            self._whole = RemoteGraph(rows)
        return self._whole

    @property
    def loopless(self) -> bool:
        rows = self._rows
        if rows is None:
            return super().loopless
        return bool(self.rises) or (self._edges and not rows.survey.loops)

    @property
    def rises(self) -> frozenset[tuple[int, int]]:
        if self._rows is None:
            return super().rises
        pairs = permutations(range(len(self._types)), 2)
        return frozenset(pair for pair in pairs if self.ascends(*pair))

    def counted(self, columns: frozenset[int]) -> bool:
        return self._rows is None and super().counted(columns)

    def _count(self, columns: frozenset[int]) -> int:
        rows = self._rows
        if rows is None or len(columns) in (0, len(self._types)):
            return super()._count(columns)
        if len(columns) == 1:
            return rows.survey.distinct[min(columns)]
        sample = rows.survey.sample
        return min(rows.at_most, estimated([sample[at] for at in sorted(columns)], _step(rows)))

    def degrees(self, column: int, tests: Tests = (), ranked: bool = False) -> Degrees:
        rows = self._rows
        if rows is None or tests or ranked:
            return super().degrees(column, tests, ranked)
        return rows.survey.degrees[column]

    def _new_degrees(self, column: int, tests: Tests, ranked: bool) -> Degrees:
        rows = self._rows
        if rows is None:
            return super()._new_degrees(column, tests, ranked)
        if ranked:
            return rows.keeper.ranked_degrees(rows, column, tests)
        sample = rows.survey.sample
        key, step = sample[column][mask(sample, tests)], _step(rows)
        if not len(key):
            return Degrees.of(key)
        values = min(rows.survey.distinct[column], len(key) * step)
        return Degrees.of_sample(runs_of(np.sort(key)), step, len(key) * step, values)

    def _quantiles(self, column: int) -> Quantiles:
        rows = self._rows
        if rows is None:
            return super()._quantiles(column)
        survey = rows.survey
        keys = np.sort(survey.sample[column])
        # The survey has the least and the greatest key.
        ends = [end for end in survey.spans[column] if not len(keys) or end not in keys[[0, -1]]]
        keys = np.sort(np.append(keys, ends).astype(np.int64)) if ends else keys
        return Quantiles(keys, rows.at_most, survey.distinct[column], True)

    def _less(self, left: int, right: int) -> bool:
        rows = self._rows
        return super()._less(left, right) if rows is None else (left, right) in rows.survey.rises

    def lists(self, column: int, tests: Tests = (), ranked: bool = False) -> AdjacencyLists | None:
        return super().lists(column, tests, ranked) if self._rows is None else None

    def set(self) -> Array | None:
        return super().set() if self._rows is None else None


def _step(rows: RemoteRows) -> int:
    """One of so many rows is in the sample."""
    return max(1, rows.at_most // max(1, len(rows.survey.sample[0])))


class RemoteGraph:
    """Rows of two columns on other machines, as edges."""

    def __init__(self, rows: RemoteRows) -> None:
        self._rows = rows

    @property
    def mirrored(self) -> bool:
        return self._rows.survey.symmetric

    @property
    def symmetric(self) -> bool:
        return self._rows.survey.symmetric

    @property
    def loops(self) -> bool:
        return self._rows.survey.loops

    @cached_property
    def skew(self) -> float:
        """The pairs of higher neighbours in the order of keys, relative to the order of degrees."""
        return self._rows.keeper.skew(self._rows)

    def paths(self, ways: tuple[Any, ...]) -> None:
        """Unknown: a survey has no degrees by value."""

    def ranking(self) -> Ranking:
        return self._rows.ranking
