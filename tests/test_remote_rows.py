"""Rows that lie afar: what is asked of them there, and when they are fetched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gdatalog.errors import MemoryLimitError
from gdatalog.storage.degrees import Degrees
from gdatalog.storage.graph import Ranking
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart, RemoteRows, RowRange, Survey
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.trie import RowTest


class Nearby:
    """A keeper whose parts are columns; it counts what it fetches."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.copied = 0
        self.room = room

    def fetch(self, pieces: Sequence[RowRange]) -> list[Columns]:
        wanted = sum(stop - start for _, start, stop in pieces)
        if wanted > self.room:
            raise MemoryLimitError(f"{wanted} rows")
        self.copied += wanted
        return [tuple(column[start:stop] for column in part.value) for part, start, stop in pieces]

    def fetched(self, rows: RemoteRows) -> None:
        assert not rows.unfetched

    def distinct(self, rows: RemoteRows) -> Sequence[RemotePart]:
        return [part_of(*sort_rows(all_of(rows)))]

    def survey(self, rows: RemoteRows) -> Survey:
        columns = all_of(rows)
        degrees = tuple(Degrees.of(np.bincount(column)) for column in columns)
        left, right = columns
        turned = {*zip(left.tolist(), right.tolist(), strict=True)}
        return Survey(
            tuple(column[::2] for column in columns),
            tuple(int(each.powers[0]) for each in degrees),
            degrees,
            tuple((int(column.min()), int(column.max())) for column in columns),
            frozenset({(0, 1)} if (left < right).all() else ()),
            bool((left == right).any()),
            turned == {(b, a) for a, b in turned},
        )

    def ranking(self, rows: RemoteRows) -> Ranking:
        return Ranking(*all_of(rows))

    def ranked_degrees(self, rows: RemoteRows, column: int, tests: tuple[RowTest, ...]) -> Degrees:
        return Degrees.of(np.bincount(all_of(rows)[column]))

    def skew(self, rows: RemoteRows) -> float:
        return 3.0


def all_of(rows: RemoteRows) -> Columns:
    return tuple(map(np.concatenate, zip(*(part.value for part in rows.parts), strict=True)))


def part_of(*columns: object) -> RemotePart:
    keys = tuple(np.asarray(column, dtype=np.int32) for column in columns)
    return RemotePart(keys, len(keys[0]), sum(key.nbytes for key in keys))


def relation(keeper: Nearby, *parts: RemotePart) -> Relation:
    return Relation.of_parts(("x", "y"), ("int", "int"), parts, keeper)


def test_counting_and_planning_fetch_nothing() -> None:
    keeper = Nearby()
    edges = relation(keeper, part_of([1, 1, 2], [2, 2, 3]), part_of([1, 1], [2, 3]))
    assert edges.at_most == 5
    assert edges.length == 3 and edges.at_most == 3
    assert edges.remote is not None and edges.remote.known == KnownRows.DISTINCT
    told = edges.statistics
    assert told.rises == {(0, 1)} and told.loopless and not told.symmetric and not told.balanced
    assert told.distinct(frozenset((0,))) == 2 and told.distinct(frozenset((0, 1))) == 3
    assert told.degrees(0).powers[:2] == (2.0, 3.0)
    assert told.graph.skew == 3.0 and edges.spans == [(1, 2), (2, 3)]
    assert edges.nbytes == 0 and keeper.copied == 0


def test_a_test_is_estimated_from_the_sample() -> None:
    keeper = Nearby()
    left = np.arange(1000) % 10
    edges = relation(keeper, part_of(left, np.where(np.arange(1000) // 2 % 2, left + 1, left)))
    assert 400 <= edges.statistics.size(((0, "<", 1),)) <= 600
    assert keeper.copied == 0


def test_a_range_is_estimated_from_the_sample_and_the_ends() -> None:
    keeper = Nearby()
    left = np.arange(1000) * 7 % 1000
    statistics = relation(keeper, part_of(left, left + 5)).statistics
    for low, high, share in ((100, 300, 0.2), (0, 3, 0.003), (995, 5000, 0.005)):
        values, rows = statistics.within(0, [(">=", low), ("<", high)])
        assert values == pytest.approx(rows, rel=0.5)
        assert rows == pytest.approx(share, rel=0.4, abs=0.001)
    assert statistics.within(1, [("<", 5)])[1] < 0.001
    assert keeper.copied == 0


def test_rows_are_fetched_once_when_somebody_asks() -> None:
    keeper = Nearby()
    edges = relation(keeper, part_of([2, 1], [3, 2]), part_of([2, 7], [3, 1]))
    assert [key.tolist() for key in edges.keys] == [[1, 2, 7], [2, 3, 1]]
    first = keeper.copied
    trie = edges.trie((1, 0))
    assert trie.levels[0].values.tolist() == [1, 2, 3]
    assert edges.statistics.counted(frozenset((0,))) and edges.length == 3
    assert keeper.copied == first and edges.remote is not None and edges.remote.parts


def test_some_rows_are_fetched_and_no_others() -> None:
    keeper = Nearby()
    lying = [part_of([1, 2, 3], [1, 1, 1]), part_of([4, 5], [1, 1])]
    edges = Relation.of_parts(("x", "y"), ("int", "int"), lying, keeper, distinct=True)
    assert edges.remote is not None
    blocks = edges.remote.stretch(2, 4)
    assert [block[0].tolist() for block in blocks] == [[3], [4]]
    assert keeper.copied == 2 and edges.remote.unfetched


def test_what_does_not_fit_stays_where_it_is() -> None:
    keeper = Nearby(room=2)
    edges = relation(keeper, part_of([1, 2, 3], [1, 1, 1]))
    with pytest.raises(MemoryLimitError):
        edges.blocks()
    assert edges.remote is not None and edges.remote.unfetched
    keeper.room = 3
    assert len(edges.blocks()[0][0]) == 3


def test_no_rows_lie_here() -> None:
    empty = relation(Nearby(), part_of([], []))
    assert empty.length == 0 and empty.remote is None
