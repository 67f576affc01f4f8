"""The keeper of rows that lie on workers: what is asked of them is found out there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any
from weakref import WeakSet

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Call, Pool, RemoteValue
from gdatalog.cluster.rows import dask_export, duplicate_rows, graph_degrees
from gdatalog.cluster.rows.parts import columns_of, piece_of
from gdatalog.cluster.rows.shuffle import Shuffle
from gdatalog.cluster.rows.sketches import SAMPLE, PartSketch, sketch_of, survey_of
from gdatalog.errors import MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.degrees import Degrees
from gdatalog.storage.graph import Ranking
from gdatalog.storage.remote import RemotePart, RemoteRows, RemoteSchema, RowRange, Survey
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import RowTest

TIMES = 16  # of what is exchanged at a time, that workers' memory is


@dataclass(slots=True, eq=False)
class RowKeeper:
    """The keeper of all that a database has on a cluster's workers.

    `memory`: what the database may hold, here. `held`: rows that were fetched.
    """

    pool: Pool
    memory: int
    held: WeakSet[RemoteRows] = field(default_factory=WeakSet)

    def fetch(self, pieces: Sequence[RowRange]) -> list[Columns]:
        wanted = sum(_bytes(piece) for piece in pieces)
        there = sum(rows.nbytes for rows in self.held)
        if wanted + there > self.memory:
            beside = f", beside {format_bytes(there)} that were fetched before" if there else ""
            raise MemoryLimitError(
                f"{sum(p.stop - p.start for p in pieces):,} rows lie on the workers, and take "
                f"{format_bytes(wanted)} here{beside}: more than the memory limit of "
                f"{format_bytes(self.memory)}",
                hint="let a rule count or sum them up, or keep what is needed of them; or raise "
                "it: gdatalog.connect(memory_limit=...) or --memory-limit",
            )
        calls = [(piece_of, (part.value, start, stop)) for part, start, stop in pieces]
        found: list[Columns] = self._each("fetch", calls)
        return found

    def fetched(self, rows: RemoteRows) -> None:
        self.held.add(rows)

    def distinct(self, rows: RemoteRows) -> Sequence[RemotePart]:
        exact = duplicate_rows.narrow_spans(rows.survey.spans)
        values = [part.value for part in rows.parts]
        turns = self._turns(8 * rows.at_most)
        shuffle = self._shuffle("distinct", 8 * rows.at_most // turns)
        met: list[RemoteValue] = []
        for turn in range(turns):
            calls = [(duplicate_rows.numbers_in, (value, exact, turn, turns)) for value in values]
            dealt = shuffle.partition(
                self._each("distinct: numbers", calls, True), duplicate_rows.split_plain
            )
            met += shuffle.merge(dealt, duplicate_rows.met)
        if not any(self._each("distinct: count", [(len, (each,)) for each in met])):
            return rows.parts
        few = [
            (duplicate_rows.numbered, (value, number, exact, met))
            for number, value in enumerate(values)
        ]
        dealt = shuffle.partition(
            self._each("distinct: rows", few, True), duplicate_rows.split_numbers
        )
        found = shuffle.merge(dealt, duplicate_rows.repeated)
        again: Counter[int] = Counter()
        for some in self._each(
            "distinct: count", [(duplicate_rows.how_many, (each,)) for each in found]
        ):
            again.update(some)
        asked = [(duplicate_rows.places_of, (found, number)) for number in again]
        places = self._each("distinct: places", asked, True)
        without = dict(zip(again, places, strict=True))
        parts = []
        for number, part in enumerate(rows.parts):
            left = part.rows - again[number]
            if left == part.rows:
                parts.append(part)
            elif left:
                value = {"rows": part.value, "without": without[number]}
                parts.append(RemotePart(value, left, part.nbytes * left // part.rows))
        return parts

    def survey(self, rows: RemoteRows) -> Survey:
        return self.surveyed(rows.parts)

    def surveyed(self, parts: Sequence[RemotePart]) -> Survey:
        """What is known of the rows of parts, none of which is empty."""
        step = max(1, sum(part.rows for part in parts) // SAMPLE)
        calls, before = [], 0
        for part in parts:
            calls.append((look, (part.value, -before % step, step)))
            before += part.rows
        return survey_of(self._each("survey", calls), step)

    # ---------------------------------------------------------------------------------- answers

    def to_dask(self, rows: RemoteRows, shape: RemoteSchema, symbols: SymbolTable) -> Any:
        parts, limits = rows.make_distinct(), Limits(memory=self.memory)
        return dask_export.to_dask(self.pool, parts, shape, symbols, limits)

    def write(
        self, rows: RemoteRows, shape: RemoteSchema, symbols: SymbolTable, folder: str
    ) -> None:
        parts, limits = rows.make_distinct(), Limits(memory=self.memory)
        dask_export.write_parts(self.pool, parts, shape, symbols, folder, limits)

    # ---------------------------------------------------------------------------------- graphs

    def ranking(self, rows: RemoteRows) -> Ranking:
        counts = self._counts(rows, "ends", None)
        sizes = self._each("ranks: count", [(_length, (each,)) for each in counts])
        pieces = [
            RowRange(RemotePart(c, n, 16 * n), 0, n) for c, n in zip(counts, sizes, strict=True)
        ]
        vertices, degrees = concatenate(self.fetch(pieces))
        order = np.argsort(vertices)
        return Ranking.of_degrees(vertices[order], degrees[order])

    def ranked_degrees(self, rows: RemoteRows, column: int, tests: tuple[RowTest, ...]) -> Degrees:
        return self._summed(self._counts(rows, (column, tests), rows.ranking))

    def skew(self, rows: RemoteRows) -> float:
        by_key, by_degree = (
            self._summed(self._counts(rows, what, rows.ranking)).powers[2]
            for what in ("keys", "ranks")
        )
        return by_key / by_degree if by_degree else 1.0

    def _counts(
        self, rows: RemoteRows, what: graph_degrees.What, ranking: Ranking | None
    ) -> list[RemoteValue]:
        """How often keys or ranks stand in the edges: an owner has those that are its own."""
        values, way = self.edges(rows)
        placed = (
            None if ranking is None else self.pool.broadcast(id(ranking), ranking, ranking.nbytes)
        )
        calls = [(graph_degrees.counts_of, (value, way, what, placed)) for value in values]
        counted = self._each("ranks: counts", calls, True)
        shuffle = self._shuffle("ranks", 16 * 2 * rows.at_most)
        return shuffle.merge(
            shuffle.partition(counted, graph_degrees.split_counts), graph_degrees.counts_together
        )

    def edges(self, rows: RemoteRows) -> tuple[list[Any], graph_degrees.Way]:
        """The values of parts, and how their rows tell each edge once."""
        values = [part.value for part in rows.make_distinct()]
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
        """Parts of rows that are here, none of which is empty."""
        made = self._each("send", [(tuple, (list(block),)) for block in blocks], True)
        return [replace(RemotePart.of(b), value=kept) for b, kept in zip(blocks, made, strict=True)]

    def _turns(self, nbytes: int) -> int:
        """In how many turns so many bytes are exchanged: some of them lie there several times."""
        limits = self.pool.memory
        return max(1, ceil(nbytes / (sum(limits) / TIMES))) if limits else 1

    # ----------------------------------------------------------------------------------- calls

    def _shuffle(self, told: str, nbytes: int) -> Shuffle:
        return Shuffle.over(self.pool, told, Limits(memory=self.memory), nbytes)

    def _each(
        self,
        told: str,
        calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]],
        keep: bool = False,
    ) -> list[Any]:
        """What calls give, in their order; `keep`: left where they ran."""
        asked = [Call(function, args, keep) for function, args in calls]
        return self.pool.all(asked, told, Limits(memory=self.memory))


def _bytes(piece: RowRange) -> int:
    part, start, stop = piece
    return part.nbytes * (stop - start) // max(1, part.rows)


# ------------------------------------------------------------------------------- on a worker


def look(value: Any, start: int, step: int) -> PartSketch:
    return sketch_of(columns_of(value), start, step)


def _length(counts: Columns) -> int:
    return len(counts[0])
