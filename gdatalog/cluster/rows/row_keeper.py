"""Keeps rows on workers for the driver: fetches, deduplicates, counts, exports and writes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil
from typing import Any
from weakref import WeakSet

import numpy as np

from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.rows import graph_degrees, row_statistics
from gdatalog.cluster.rows.row_statistics import frame_of, look, table, write_part
from gdatalog.cluster.rows.shuffle import Shuffle, columns_of, parts_of, piece_of, size_of
from gdatalog.cluster.rows.survey import SAMPLE, survey_of
from gdatalog.cluster.rows.texts import placed_texts
from gdatalog.errors import DataError, MemoryLimitError
from gdatalog.limits import Limits
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.degrees import Degrees
from gdatalog.storage.export import to_pandas
from gdatalog.storage.graph import Ranking
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.parquet_folder import file_name
from gdatalog.storage.remote import RemotePart, RemoteRows, RowRange, Survey
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import RowTest

TIMES = 16  # exchanges take at most this fraction of the workers' memory


@dataclass(slots=True, eq=False)
class RowKeeper:
    """Keeps all rows that a database has on workers.

    `memory`: the database's limit in the driver. `held`: relations whose rows were fetched.
    """

    pool: Pool
    memory: int
    held: WeakSet[RemoteRows] = field(default_factory=WeakSet)

    def fetch(self, pieces: Sequence[RowRange]) -> list[Columns]:
        wanted = sum(
            part.nbytes * (stop - start) // max(1, part.rows) for part, start, stop in pieces
        )
        there = sum(rows.nbytes for rows in self.held)
        if wanted + there > self.memory:
            beside = f", beside {format_bytes(there)} that were fetched before" if there else ""
            raise MemoryLimitError(
                f"{sum(p.stop - p.start for p in pieces):,} rows are on the workers, and take "
                f"{format_bytes(wanted)} in this process{beside}: more than the memory limit of "
                f"{format_bytes(self.memory)}",
                hint="aggregate or filter them with a rule, or raise the limit: "
                "gdatalog.connect(memory_limit=...) or --memory-limit",
            )
        calls = [(piece_of, (part.value, start, stop)) for part, start, stop in pieces]
        found: list[Columns] = self._each("fetch", calls)
        return found

    def fetched(self, rows: RemoteRows) -> None:
        self.held.add(rows)

    def distinct(self, rows: RemoteRows) -> Sequence[RemotePart]:
        exact = row_statistics.narrow_spans(rows.survey.spans)
        values = [part.value for part in rows.parts]
        turns = self._turns(8 * rows.at_most)
        shuffle = self._shuffle("distinct", 8 * rows.at_most // turns)
        met: list[RemoteValue] = []
        for turn in range(turns):
            calls = [(row_statistics.numbers_in, (value, exact, turn, turns)) for value in values]
            dealt = shuffle.partition(
                self._each("distinct: numbers", calls, True), row_statistics.split_plain
            )
            met += shuffle.merge(dealt, row_statistics.met, summary=len)
        if not any(kept.summary for kept in met):
            return rows.parts
        asked = [(row_statistics.places_again, (value, exact, met)) for value in values]
        again = self._each("distinct: places", asked, True, len)
        counts = [kept.summary for kept in again]
        suspects = zip(values, again, counts, strict=True)
        some = [(row_statistics.rows_at, (value, at)) for value, at, count in suspects if count]
        few = self._each("distinct: rows", some, True)
        width = 8 * len(rows.survey.spans)
        parts = parts_of(self._shuffle("distinct", width * sum(counts)).distinct(few))
        for part, places, count in zip(rows.parts, again, counts, strict=True):
            left = part.rows - count
            if not count:
                parts.append(part)
            elif left:
                value = {"rows": part.value, "without": places}
                parts.append(RemotePart(value, left, part.nbytes * left // part.rows))
        return parts

    def survey(self, rows: RemoteRows) -> Survey:
        lengths = [part.rows for part in rows.parts]
        step = max(1, sum(lengths) // SAMPLE)
        starts = accumulate(lengths[:-1], initial=0)
        calls = [
            (look, (part.value, -before % step, step))
            for part, before in zip(rows.parts, starts, strict=True)
        ]
        return survey_of(self._each("survey", calls), step)

    # ---------------------------------------------------------------------------------- answers

    def to_dask(self, rows: RemoteRows, shape: TypedColumns, symbols: SymbolTable) -> Any:
        import dask.dataframe as dd
        from dask.delayed import delayed
        from distributed.client import _get_global_client, _set_global_client

        values = [part.value for part in rows.make_distinct()]
        # Rows that must be read or filtered are computed now, and stay on workers.
        read = [at for at, value in enumerate(values) if not isinstance(value, RemoteValue)]
        calls = [(columns_of, (values[at],)) for at in read]
        for at, kept in zip(read, self._each("read rows", calls, True), strict=True):
            values[at] = kept
        client = self.pool.connection.client
        if _get_global_client() is None:  # `compute()` then runs where the rows are
            _set_global_client(client)
        texts = None
        if "symbol" in shape.types:
            texts = client.scatter(symbols, broadcast=True, hash=False)
        frame = delayed(frame_of, pure=False)
        frames = [frame(value.future, shape, texts) for value in values]
        return dd.from_delayed(frames, meta=to_pandas(table([], shape, None)), verify_meta=False)

    def write(
        self, rows: RemoteRows, shape: TypedColumns, symbols: SymbolTable, folder: str
    ) -> None:
        parts = rows.make_distinct()
        texts = placed_texts(self.pool, symbols) if "symbol" in shape.types else None
        paths = [os.path.join(folder, file_name(number)) for number in range(len(parts))]
        calls = [
            (write_part, (part.value, shape, texts, path))
            for part, path in zip(parts, paths, strict=True)
        ]
        sizes = self._each(f"write {os.path.basename(folder)}", calls)
        if sizes != [os.path.getsize(path) if os.path.exists(path) else None for path in paths]:
            raise DataError(
                f"{folder}: the workers write where this process cannot see it",
                hint="name a folder that all machines share; or let Dask write: "
                "to_dask().to_parquet('s3://...')",
            )

    # ---------------------------------------------------------------------------------- graphs

    def ranking(self, rows: RemoteRows) -> Ranking:
        parts = parts_of(self._counts(rows, "ends", None))
        pieces = [RowRange(part, 0, part.rows) for part in parts]
        vertices, degrees = concatenate(self.fetch(pieces))
        order = np.argsort(vertices)
        return Ranking.of_degrees(vertices[order], degrees[order])

    def ranked_degrees(self, rows: RemoteRows, column: int, tests: tuple[RowTest, ...]) -> Degrees:
        return self._summed(self._counts(rows, (column, tests), rows.ranking))

    def skew(self, rows: RemoteRows) -> float:
        by_key = self._summed(self._counts(rows, "keys", rows.ranking)).powers[2]
        by_degree = self.ranked_degrees(rows, 0, ((0, "<", 1),)).powers[2]
        return by_key / by_degree if by_degree else 1.0

    def _counts(
        self, rows: RemoteRows, what: graph_degrees.What, ranking: Ranking | None
    ) -> list[RemoteValue]:
        """How often keys or ranks occur in the edges; each owner has the counts of its keys."""
        values, way = self.edges(rows)
        placed = None if ranking is None else self.pool.broadcast(id(ranking), ranking)
        calls = [(graph_degrees.counts_of, (value, way, what, placed)) for value in values]
        counted = self._each("ranks: counts", calls, True)
        shuffle = self._shuffle("ranks", 16 * 2 * rows.at_most)
        dealt = shuffle.partition(counted, graph_degrees.split_counts)
        return shuffle.merge(dealt, graph_degrees.counts_together, summary=size_of)

    def edges(self, rows: RemoteRows) -> tuple[list[object], graph_degrees.Way]:
        """The values of parts, and how to read each edge of them once."""
        values: list[object] = [part.value for part in rows.make_distinct()]
        survey = rows.survey
        if survey.symmetric:
            return values, "ascending"
        if survey.rises:
            return values, "all"
        calls = [(graph_degrees.edges_of, (value, "turned")) for value in values]
        shuffle = self._shuffle("edges", rows.remote_bytes)
        return list(shuffle.distinct(self._each("edges", calls, True))), "all"

    def _summed(self, counts: Sequence[RemoteValue]) -> Degrees:
        found = self._each(
            "ranks: degrees", [(graph_degrees.how_often, (each,)) for each in counts]
        )
        degrees, often = concatenate(found)
        known, groups = np.unique(degrees, return_inverse=True)
        return Degrees.of_often(known, np.bincount(groups, weights=often, minlength=len(known)))

    def put(self, blocks: Sequence[Columns]) -> list[RemotePart]:
        """Sends non-empty blocks of rows to workers."""
        made = self._each("send", [(tuple, (list(block),)) for block in blocks], True)
        return [replace(RemotePart.of(b), value=kept) for b, kept in zip(blocks, made, strict=True)]

    def _turns(self, nbytes: int) -> int:
        """In how many turns to exchange so many bytes, because workers hold several copies."""
        limits = self.pool.memory
        return max(1, ceil(nbytes / (sum(limits) / TIMES))) if limits else 1

    # ----------------------------------------------------------------------------------- calls

    def _shuffle(self, told: str, nbytes: int) -> Shuffle:
        return Shuffle.over(self.pool, told, Limits(memory=self.memory), nbytes)

    def _each(
        self,
        told: str,
        calls: Sequence[tuple[Callable[..., object], tuple[object, ...]]],
        keep: bool = False,
        summary: Callable[[Any], object] | None = None,
    ) -> list[Any]:
        """The results of calls, in order. `keep`: they stay on their workers."""
        asked = [Call(function, args, keep, summary=summary) for function, args in calls]
        return self.pool.all(asked, told, Limits(memory=self.memory))
