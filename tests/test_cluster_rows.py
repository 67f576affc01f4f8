"""Rows that stay on the workers of a cluster: as answers, as dask DataFrames, as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.rows import shuffle
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.rows.shuffle import (
    Shuffle,
    distinct_of,
    owner_of,
    parts_of,
    size_of,
    split_rows,
)
from gdatalog.cluster.workers.connection import Connection
from gdatalog.errors import DataError, MemoryLimitError, UsageError
from gdatalog.limits import Limits
from gdatalog.result import Result
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from tests.clusters import Workers
from tests.tuned import tune

N = 500
TEXTS = ["nought", "one", "two", "three"]


def some_rows(start: int, stop: int) -> Columns:
    """Numbers, and the code of one of four texts for each."""
    numbers = np.arange(start, stop, dtype=np.int32)
    return numbers, (numbers % 4).astype(np.int32)


@pytest.fixture(scope="module")
def pool(cluster: Workers) -> Pool:
    return Pool(Connection(cluster(2)))


def left(pool: Pool, spans: Sequence[tuple[int, int]]) -> list[RemoteValue]:
    stage = pool.stage("some rows", Limits())
    for number, span in enumerate(spans):
        stage.add(Call(some_rows, span, keep=True, tag=number, summary=size_of))
    found = {call.tag: kept for call, kept in stage}
    return [found[number] for number in range(len(spans))]


def answer(
    pool: Pool, spans: Sequence[tuple[int, int]], distinct: bool = True, memory: int = 1 << 30
) -> Result:
    symbols = SymbolTable()
    for text in TEXTS:
        symbols.intern(text)
    parts = parts_of(left(pool, spans))
    keeper = RowKeeper(pool, memory)
    relation = Relation.of_parts(("n", "text"), ("int", "symbol"), parts, keeper, distinct)
    return Result(relation, symbols)


def test_equal_rows_meet_at_their_owner(pool: Pool) -> None:
    workers = sorted(pool.connection.client.nthreads())
    shuffle = Shuffle(pool, "some rows", Limits(), [*workers, workers[0]])
    parts = left(pool, [(0, 1000), (500, 1500), (500, 600)])
    owned = shuffle.distinct(parts)
    rows = [each.rows for each in pool.bring(owned, "some rows", Limits())]
    assert sorted(np.concatenate([column for column, _ in rows])) == list(range(1500))
    for number, mine in enumerate(rows):
        assert set(owner_of(mine, 3)) == {number}
    assert [kept.summary.rows for kept in owned] == [len(mine[0]) for mine in rows]
    assert 0 < sum(kept.summary.moved for kept in owned) <= 2100 * 8


def test_what_lies_on_a_worker_is_dealt_out_some_at_a_time(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = left(pool, [(start, start + 200_000) for start in range(0, 800_000, 200_000)])
    nbytes = sum(part.summary.nbytes for part in parts)
    assert len(Shuffle.over(pool, "some", Limits(), nbytes).partition(parts, split_rows)[0]) <= 2
    monkeypatch.setattr(shuffle, "AT_ONCE", nbytes // 4)
    few = Shuffle.over(pool, "few", Limits(), nbytes)
    pieces = few.partition(parts, split_rows)
    assert len(pieces) > 1 and {len(mine) for mine in pieces} == {4}
    assert (
        sum(kept.summary.rows for kept in few.merge(pieces, distinct_of, summary=size_of))
        == 800_000
    )


def test_an_owner_is_the_same_however_wide_a_column_is() -> None:
    rows = some_rows(-100, 100)
    wide = tuple(column.astype(np.int64) for column in rows)
    assert owner_of(rows, 7).tolist() == owner_of(wide, 7).tolist()


def test_a_look_at_rows_that_lie_afar_fetches_no_others(pool: Pool) -> None:
    result = answer(pool, [(0, 1000), (1000, 3000)], memory=8 * 100)
    assert len(result) == 3000
    some = [(n, TEXTS[n % 4]) for n in range(50)]
    assert result.head(50).fetchall() == some
    assert result.head(-2990).fetchall() == some[:10]
    assert "2999" in result.format(4)
    with pytest.raises(MemoryLimitError, match="3,000 rows"):
        result.fetchall()


def test_rows_are_each_once_before_they_are_counted(pool: Pool) -> None:
    result = answer(pool, [(0, 1000), (500, 1500)], distinct=False)
    assert len(result) == 1500
    assert result.sorted().df().n.tolist() == list(range(1500))


def test_rows_become_partitions_where_they_lie(pool: Pool) -> None:
    result = answer(pool, [(0, 1000), (1000, 3000)], memory=1)
    frame = result.to_dask()
    expected = Result(Relation.empty(("n", "text"), ("int", "symbol")), SymbolTable()).df()
    assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
    assert frame.npartitions == 2
    client = pool.connection.client
    counts, whole = client.gather(client.compute([frame.groupby("text").n.sum(), frame]))
    assert counts.to_dict() == {TEXTS[at]: sum(range(at, 3000, 4)) for at in range(4)}
    assert whole.dtypes.to_dict() == expected.dtypes.to_dict()
    again = answer(pool, [(0, 1000), (500, 1500)], distinct=False).to_dask()
    assert client.gather(client.compute(again.n.sum())) == sum(range(1500))


def test_workers_write_a_folder(pool: Pool, tmp_path: Path) -> None:
    result = answer(pool, [(0, 1000), (1000, 3000)], memory=1)
    folder = tmp_path / "rows"
    for _ in range(2):  # the second time it is replaced
        result.to_parquet(f"{folder}/")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows"]
    assert [pq.read_metadata(path).num_rows for path in sorted(folder.iterdir())] == [1000, 2000]
    frame = pd.read_parquet(folder)
    assert frame.text.tolist() == [TEXTS[n % 4] for n in frame.n]


def test_one_file_is_written_with_few_rows_here_at_a_time(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("result", "storage.writers"):
        monkeypatch.setattr(f"gdatalog.{module}.rows_at_once", lambda types: 100)
    monkeypatch.setattr("gdatalog.result.ITERATED", 100)
    result = answer(pool, [(0, 250), (250, 333)], memory=8 * 100)
    result.to_parquet(tmp_path / "rows.parquet")
    assert pd.read_parquet(tmp_path / "rows.parquet").n.tolist() == list(range(333))
    result.to_csv(tmp_path / "rows.csv")
    assert pd.read_csv(tmp_path / "rows.csv").n.tolist() == list(range(333))
    assert [n for n, _ in result] == list(range(333))
    assert result._far is not None


def test_a_folder_of_other_files_stays_as_it_is(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="other files"):
        answer(pool, [(0, 10)]).to_parquet(f"{tmp_path}/")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_rows_are_out_of_reach_when_the_connection_is_closed(cluster: Workers) -> None:
    from distributed import Client

    with Client(cluster(2).scheduler.address, set_as_default=False) as client:
        result = answer(Pool(Connection(client)), [(0, 10)])
    for ask in (result.fetchall, result.to_dask):
        with pytest.raises(UsageError, match="was closed"):
            ask()


# ------------------------------------------------------------------------------ what rules give


@pytest.fixture
def db(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """A database for which little is much."""
    tune(monkeypatch, fetched_bytes=1 << 16)
    with gd.connect(cluster=cluster(2), device="cpu") as found:
        found["A"] = pd.DataFrame({"x": range(N)})
        found["T"] = pd.DataFrame({"x": range(N), "t": [f"t{x % 50}" for x in range(N)]})
        found.workspace.force(spread="replicate", strategy="levelwise")  # compiles nothing
        yield found


def lies_afar(result: Result) -> bool:
    return result._far is not None


def test_many_rows_stay_where_they_were_made(db: gd.Database) -> None:
    pairs = db.query("p(x, y) <- A(x), A(y), x < y.")
    assert lies_afar(pairs)
    assert len(pairs) == N * (N - 1) // 2
    assert lies_afar(pairs) and pairs.head(3).df().shape == (3, 2)
    frame = pairs.to_dask()
    counts = db.workspace.cluster.pool.connection.client.compute(frame.groupby("x").size())
    assert counts.result().sort_index().tolist() == list(range(N - 1, 0, -1))


def test_rows_that_several_cells_give_are_there_once(db: gd.Database) -> None:
    found = db.query("p(z, w) <- A(x), A(y), z = x / 2 * 1000 + y, w = x % 2 * 0.")
    assert lies_afar(found)
    assert len(found) == N // 2 * N
    expected = {x // 2 * 1000 + y for x in range(0, N, 2) for y in range(N)}
    assert found.df().z.sort_values().tolist() == sorted(expected)
    few = db.query("p(z) <- A(x), A(y), z = x + y.")
    assert not lies_afar(few) and few.df().z.sort_values().tolist() == list(range(2 * N - 1))


@pytest.mark.parametrize(
    "head",
    [
        "count(), sum(w), mean(w), count_distinct(v), sum(to_float(w))",
        "min(t), max(t), any_value(k)",
    ],
)
def test_many_groups_are_merged_by_workers(db: gd.Database, head: str) -> None:
    body = 'T(x, t), A(y), k = x / 3 * 1000 + y, w = x * y, v = x % 2, t != "t9", v * w >= 0.'
    text = f"g(k, {head}) <- {body}"
    found = db.query(text)
    assert lies_afar(found)
    db.workspace.force(spread="never")
    alone = db.query(text + " // alone")
    assert not lies_afar(alone)
    pd.testing.assert_frame_equal(found.df(sort=True), alone.df(sort=True))


@pytest.mark.parametrize("spread", ["replicate", "partition"])
def test_rules_read_rows_that_stayed(db: gd.Database, spread: str) -> None:
    db.workspace.force(spread=spread)
    db.run("p(x, y) <- A(x), A(y), x < y.")
    assert lies_afar(db["p"])
    assert db.query("n(count()) <- p(_, y), p(y, z), z < 30.").fetchall() == [(30 * 29 * 28 // 6,)]
    assert lies_afar(db["p"]) == (spread == "partition")


def test_a_profile_tells_what_was_moved_to_make_rows_distinct(db: gd.Database) -> None:
    text = "p(z, w) <- A(x), A(y), z = x / 2 * 1000 + y, w = x % 2 * 0."
    assert " moved" in str(db.profile(text)), db.profile(text)


def test_an_output_is_a_folder_if_its_name_says_so(db: gd.Database, tmp_path: Path) -> None:
    text = (
        'p(x, y) <- A(x), A(y), x < y.\n.output p("pairs/")\nq(x) <- A(x), x < 3.\n.output q("q/")'
    )
    (tmp_path / "program.dl").write_text(text)
    db.run_file(tmp_path / "program.dl")
    assert len(pd.read_parquet(tmp_path / "pairs")) == N * (N - 1) // 2
    assert pd.read_parquet(tmp_path / "q").x.tolist() == [0, 1, 2]
