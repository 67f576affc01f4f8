"""Statistics of rows that lie afar: by one survey of them all, and by the sample that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from gdatalog.storage.degrees import COMPARE, AdjacencyLists, Degrees
from gdatalog.storage.graph import Ranking
from gdatalog.storage.quantiles import Quantiles
from gdatalog.storage.remote import RemoteRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.statistics import Statistics, estimated, runs_of
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest, Trie, TrieName
from gdatalog.values import TypeName


class RemoteStatistics(Statistics):
    """What is known of rows that lie afar: by their survey, until they are here."""

    __slots__ = ("_whole",)

    def __init__(
        self, store: RowStore, types: Sequence[TypeName], tries: Mapping[TrieName, Trie]
    ) -> None:
        super().__init__(store, types, tries)
        self._whole: RemoteGraph | None = None

    @property
    def _rows(self) -> RemoteRows | None:
        """The rows, if they are not here."""
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

    def degrees(
        self, column: int, tests: tuple[RowTest, ...] = (), ranked: bool = False
    ) -> Degrees:
        rows = self._rows
        if rows is None:
            return super().degrees(column, tests, ranked)
        if not tests and not ranked:
            return rows.survey.degrees[column]
        found: Degrees | None = self._kept.get((column, tests, ranked))
        if found is None:
            found = self._found(rows, column, tests, ranked)
            self._kept[column, tests, ranked] = found
        return found

    def _found(
        self, rows: RemoteRows, column: int, tests: tuple[RowTest, ...], ranked: bool
    ) -> Degrees:
        if ranked:
            return rows.keeper.ranked_degrees(rows, column, tests)
        sample = rows.survey.sample
        keep = np.ones(len(sample[0]), dtype=np.bool_)
        for left, op, right in tests:
            keep &= COMPARE[op](sample[left], sample[right])
        key, step = sample[column][keep], _step(rows)
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
        # The least and the greatest are known.
        ends = [end for end in survey.spans[column] if not len(keys) or end not in keys[[0, -1]]]
        keys = np.sort(np.append(keys, ends).astype(np.int64)) if ends else keys
        return Quantiles(keys, rows.at_most, survey.distinct[column], True)

    def _less(self, left: int, right: int) -> bool:
        rows = self._rows
        return super()._less(left, right) if rows is None else (left, right) in rows.survey.rises

    def lists(
        self, column: int, tests: tuple[RowTest, ...] = (), ranked: bool = False
    ) -> AdjacencyLists | None:
        return super().lists(column, tests, ranked) if self._rows is None else None

    def set(self) -> Array | None:
        return super().set() if self._rows is None else None


def _step(rows: RemoteRows) -> int:
    """One of so many rows is in the sample."""
    return max(1, rows.at_most // max(1, len(rows.survey.sample[0])))


class RemoteGraph:
    """Rows of two columns that lie afar, seen as edges."""

    __slots__ = ("_rows", "_skew")

    def __init__(self, rows: RemoteRows) -> None:
        self._rows = rows
        self._skew: float | None = None

    @property
    def mirrored(self) -> bool:
        return self._rows.survey.symmetric

    @property
    def symmetric(self) -> bool:
        return self._rows.survey.symmetric

    @property
    def loops(self) -> bool:
        return self._rows.survey.loops

    @property
    def skew(self) -> float:
        """How many more pairs of higher neighbours there are by keys than by degrees."""
        if self._skew is None:
            self._skew = self._rows.keeper.skew(self._rows)
        return self._skew

    def paths(self, ways: tuple[Any, ...]) -> None:
        """Unknown: the survey has no degrees by value."""

    def ranking(self) -> Ranking:
        return self._rows.ranking
