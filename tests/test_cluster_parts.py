"""Relations whose rows lie on workers in parts: what is asked of them is found out there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gdatalog.cluster.pool.calls import Call
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.workers.connection import Connection
from gdatalog.errors import MemoryLimitError
from gdatalog.limits import Limits
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from tests.clusters import Workers


def drawn(seed: int, rows: int, values: int, columns: int = 2) -> Columns:
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, values, rows, dtype=np.int32) for _ in range(columns))


def spread_out(keeping: RowKeeper, rows: Columns, parts: int = 3) -> Relation:
    """A relation of rows that are sent to workers, left there, and forgotten here."""
    stage = keeping.pool.stage("test", Limits())
    for number, some in enumerate(zip(*(np.array_split(c, parts) for c in rows), strict=True)):
        stage.add(Call(tuple, (list(some),), keep=True, tag=(number, len(some[0]))))
    made = sorted(((*call.tag, kept) for call, kept in stage), key=lambda each: each[0])
    width = sum(column.itemsize for column in rows)
    lying = [RemotePart(kept, length, length * width) for _, length, kept in made]
    names = tuple("xyz"[: len(rows)])
    return Relation.of_parts(names, ("int",) * len(rows), lying, keeping)


@pytest.fixture
def keeping(cluster: Workers) -> Iterator[RowKeeper]:
    client = cluster(2)
    with client.as_current():
        yield RowKeeper(Pool(Connection(client)), 1 << 30)


def pairs(rows: Columns) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in rows), strict=True))


@pytest.mark.parametrize("wide", [0, 1 << 40])
def test_rows_that_are_there_twice_are_counted_once(keeping: RowKeeper, wide: int) -> None:
    rows = tuple(column.astype(np.int64) + wide for column in drawn(1, 3000, 60))
    found = spread_out(keeping, rows)
    assert found.at_most == 3000
    assert found.length == len(pairs(rows))
    assert found.nbytes == 0 and found.remote is not None and found.remote.unfetched
    assert pairs(found.keys) == pairs(rows) and len(found.keys[0]) == found.length
    once = spread_out(keeping, tuple(np.unique(np.stack(rows), axis=1)))
    assert once.length == once.at_most == found.length


def test_a_survey_tells_what_a_look_at_all_rows_would(keeping: RowKeeper) -> None:
    left, right = drawn(2, 4000, 500)
    far, near = spread_out(keeping, (left, right)), Relation.from_rows(
        ("x", "y"), ("int", "int"), (left, right), 4000
    )  # fmt: skip
    told, known = far.statistics, near.statistics
    for column in (0, 1):
        one = frozenset((column,))
        assert told.distinct(one) == known.distinct(one)
        assert told.degrees(column).powers[1] == 4000
        assert told.degrees(column).most == np.bincount((left, right)[column]).max()
    assert far.spans == near.spans
    assert not told.symmetric and not told.rises and not told.loopless


def test_many_values_are_estimated(keeping: RowKeeper) -> None:
    rows = drawn(3, 200_000, 40_000)
    told = spread_out(keeping, rows).statistics
    assert 0.9 < told.distinct(frozenset((0,))) / len(np.unique(rows[0])) < 1.1
    known = np.bincount(rows[1]).astype(float)
    assert 0.9 < told.degrees(1).powers[2] / (known**2).sum() < 1.1


def both_ways(rows: Columns) -> Columns:
    edges = pairs(rows) | {(b, a) for a, b in pairs(rows)}
    return tuple(np.array(column, np.int32) for column in zip(*sorted(edges), strict=True))


def ascending(rows: Columns) -> Columns:
    return tuple(column[rows[0] < rows[1]] for column in rows)


@pytest.mark.parametrize("how", [both_ways, ascending, pytest.param(tuple, marks=pytest.mark.slow)])
def test_a_graph_is_ranked_where_it_lies(keeping: RowKeeper, how: Any) -> None:
    rows = how(drawn(4, 2000, 300))
    far = spread_out(keeping, rows)
    near = Relation.from_rows(("x", "y"), ("int", "int"), rows, len(rows[0]))
    assert far.symmetric == near.symmetric == (how is both_ways)
    assert far.statistics.loopless == near.statistics.loopless == (how is ascending)
    assert far.graph.skew == pytest.approx(near.graph.skew)
    assert far.graph.ranking().labels.tolist() == near.graph.ranking().labels.tolist()
    assert (
        far.graph.ranking().ranks(rows[0]).tolist() == near.graph.ranking().ranks(rows[0]).tolist()
    )
    for column, tests in ((0, ()), (1, ((0, "<", 1),)), (0, ((0, ">=", 1),))):
        mine = far.statistics.degrees(column, tests, ranked=True)
        assert mine == near.statistics.degrees(column, tests, ranked=True)
    assert far.remote is not None and far.remote.unfetched


def test_one_row_that_is_not_there_the_other_way(keeping: RowKeeper) -> None:
    rows = both_ways(drawn(5, 500, 100))
    at = int(np.flatnonzero(rows[0] != rows[1])[7])
    assert spread_out(keeping, rows).symmetric
    assert not spread_out(keeping, tuple(np.delete(column, at) for column in rows)).symmetric


def test_rows_that_do_not_fit_here_stay_there(keeping: RowKeeper) -> None:
    keeping.memory = 5000
    first, second = (spread_out(keeping, drawn(seed, 400, 1 << 20)) for seed in (6, 7))
    first.blocks()
    with pytest.raises(MemoryLimitError, match=r"400 rows are on the workers, and take 3.1 KiB"):
        second.blocks()
    assert second.remote is not None and second.remote.unfetched and second.length == 400
    del first
    assert len(second.keys[0]) == 400


def test_some_rows_of_many(keeping: RowKeeper) -> None:
    (column,) = (np.arange(1000, dtype=np.int32),)
    found = spread_out(keeping, (column,), parts=4)
    assert found.remote is not None
    blocks = found.remote.stretch(240, 510)
    assert np.concatenate([block[0] for block in blocks]).tolist() == list(range(240, 510))
    assert found.remote.unfetched
