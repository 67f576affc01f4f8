"""Rows on other machines: fetched on demand, with statistics from a survey and a sample.

Their keeper (a cluster) works on the parts where they are: it counts rows, makes them distinct, and
surveys them for the planner. Code that needs columns on this machine fetches them, if they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from gdatalog.records import cached_property, dataclass
from gdatalog.storage.degrees import Degrees
from gdatalog.storage.graph import Ranking
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Tests


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

    @property
    def step(self) -> int:
        """One of so many rows is in the survey's sample."""
        return max(1, self.at_most // max(1, len(self.survey.sample[0])))

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

    # ------------------------------------------------------------ the interface of a row store

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

    def paths(self, ways: tuple[object, ...]) -> None:
        """Unknown: a survey has no degrees by value."""

    def ranking(self) -> Ranking:
        return self._rows.ranking
