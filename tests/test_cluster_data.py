"""Parquet files that a cluster's workers read themselves, and Dask's frames."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.cluster.rows import parquet_files
from gdatalog.errors import DataError, MemoryLimitError
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from gdatalog.storage.relation import Relation
from tests.clusters import Workers


@pytest.fixture
def db(cluster: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """Its workers read files of whatever size."""
    monkeypatch.chdir(tmp_path)
    with gd.connect(cluster=cluster(2)) as opened:
        opened.workspace.force(spread="partition")
        yield opened


def stored(db: gd.Database, name: str) -> Relation:
    relation = db.workspace.stored[name]
    assert relation.remote is not None
    return relation


def write(path: str, rows: int | None = None, **columns: Any) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=rows)


def edges(folder: str) -> set[tuple[int, int]]:
    rng = np.random.default_rng(11)
    found = set()
    for number in range(3):
        x, y = rng.integers(0, 40, (2, 300))
        write(f"{folder}/{number}.parquet", 100, x=x, y=y)
        found.update(zip(x.tolist(), y.tolist(), strict=True))
    return found


def test_files_are_read_by_workers(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROWS", 200)
    rows = edges("E")
    db["E"] = "E"
    far = stored(db, "E")
    assert far.remote is not None and len(far.remote.parts) == 6
    assert far.at_most == 900 and far.statistics.rows == 900
    assert far.spans == [(0, 39), (0, 39)] and not far.symmetric
    assert len(db["E"]) == len(rows) and far.remote.unfetched
    assert set(db["E"].fetchall()) == rows


def test_rows_of_files_have_numbers(db: gd.Database) -> None:
    write("pay/0.parquet", who=["ann", "bob"], amount=[5, 7])
    write("pay/1.parquet", who=["ann", "ann"], amount=[5, 5])
    db.load("pay", "pay", row_id="id")
    assert db["pay"].columns == ("id", "who", "amount")
    rows = [(0, "ann", 5), (1, "bob", 7), (2, "ann", 5), (3, "ann", 5)]
    assert db["pay"].sorted().fetchall() == rows
    totals = "t(w, sum(a), count()) <- pay(_, w, a)."
    assert db.query(totals).sorted("w").fetchall() == [("ann", 15, 3), ("bob", 7, 1)]
    db.insert("pay", pd.DataFrame({"who": ["bob", "bob"], "amount": [7, 7]}), row_id="id")
    assert db["pay"].sorted().fetchall() == [*rows, (4, "bob", 7), (5, "bob", 7)]
    assert db.query(totals).sorted("w").fetchall() == [("ann", 15, 3), ("bob", 21, 3)]
    same = "p(i, j) <- pay(i, w, a), pay(j, w, a), i < j."
    assert len(db.query(same)) == 6  # of three each
    db["pay"] = "pay"  # workers read it, and equal rows are one
    assert stored(db, "pay").at_most == 4 and len(db["pay"]) == 2


def test_files_with_nulls_are_read_here(db: gd.Database) -> None:
    write("n/0.parquet", id=[1, 2], city=["Bern", None])
    write("n/1.parquet", id=[3, 4], city=[None, "Thun"])
    db["n"] = "n"
    assert db.workspace.stored["n"].nullable == (False, True)
    rows = [(1, "Bern"), (2, None), (3, None), (4, "Thun")]
    assert db["n"].sorted().fetchall() == rows
    text = '.input f("n/*.parquet")\nr(i, c) <- f(i, c), i > 1.'
    assert db.query(text).sorted().fetchall() == rows[1:]
    edges("E")
    db["E"] = "E"
    both = db.query("r(x, y, c) <- E(x, y), n(y, c).")
    asked = db.query("r(x, y, c) <- E(x, y), n(y, c).").to_dask().compute()
    assert asked["c"].isna().any() and len(asked) == len(both)
    both.to_parquet("out/")
    db["again"] = "out"
    assert (
        set(db["again"]) == set(both) == {(x, y, c) for x, y in db["E"] for i, c in rows if i == y}
    )


def test_queries_over_files(db: gd.Database) -> None:
    rows = edges("E")
    want = sum((x, z) in rows for x, y in rows for y2, z in rows if y == y2)
    text = "n(count()) <- E(x, y), E(y, z), E(x, z)."
    db["E"] = "E/*.parquet"
    assert db.query(text).fetchall() == [(want,)]
    assert db.query('.input E("E").\n' + text).fetchall() == [(want,)]


def test_few_rows_are_read_here(db: gd.Database) -> None:
    edges("E")
    db.workspace.force(spread="auto")
    db["E"] = "E"
    assert db.workspace.stored["E"].remote is None


def test_texts_and_times(db: gd.Database) -> None:
    when = pd.date_range("2026-11-20", periods=4, freq="h", tz="Europe/Berlin")
    names = ["Åsa", "Bo", "Åsa", "日本"]
    write("E/0.parquet", 2, who=names, at=when, x=[1.5, 2.5, -0.0, 3.0], ok=[True, False] * 2)
    write("E/1.parquet", who=["Bo", "Eve"], at=when[:2], x=[2.5, 1.0], ok=[False, True])
    db["E"] = "E"
    db["other"] = [("Eve",), ("Åsa",)]  # codes go on behind those of files
    assert stored(db, "E").types == ("symbol", "timestamp", "float", "bool")
    near = gd.connect()
    near["E"] = "E"
    assert len(db["E"]) == 6
    assert db["E"].sorted().fetchall() == near["E"].sorted().fetchall()
    query = "p(w, count()) <- E(w, _, _, _), other(w)."
    assert db.query(query).sorted().fetchall() == [("Eve", 1), ("Åsa", 2)]


def test_declared_columns(db: gd.Database) -> None:
    write("E/0.parquet", b=["u", "v"], a=[1, 2], c=[0.5, 1.5])
    db.run(".decl E(a: float, b: symbol) .decl F(p: symbol, q: int, r: float)")
    with pytest.raises(DataError, match=r"0.parquet: row 0, column 'a': expected float, found"):
        db["E"] = "E"
    db["F"] = "E"  # by place
    assert stored(db, "F").columns == ("p", "q", "r")
    assert db["F"].sorted().fetchall() == [("u", 1, 0.5), ("v", 2, 1.5)]
    db.load("G", "E", columns=["c", "b"])
    assert stored(db, "G").columns == ("c", "b") and stored(db, "G").types == ("float", "symbol")


def test_a_bad_value_is_named(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROWS", 2)
    write("E/0.parquet", x=[1, 2, 3])
    write("E/1.parquet", 2, x=pa.array([1, 2, 3, None]))
    with pytest.raises(DataError) as caught:
        db.load("E", "E", nulls="error")
    told = f"data error: {os.path.abspath('E/1.parquet')}: row 3, column 'x': a value is missing"
    assert str(caught.value).startswith(told)
    write("E/1.parquet", x=["a"])
    with pytest.raises(DataError, match=r"1.parquet: row 0, column 'x': expected int, found the"):
        db["E"] = "E"
    write("E/1.parquet", y=[1])
    with pytest.raises(DataError, match=r"1.parquet: there is no column 'x', only 1 column \(y\)"):
        db["E"] = "E"
    assert "E" not in db


def test_files_that_change_or_go_are_told_of(db: gd.Database) -> None:
    write("E/0.parquet", x=[1, 2, 2])
    db["E"] = "E"
    write("E/0.parquet", x=[1, 2, 3, 4])
    with pytest.raises(
        DataError, match="the file has changed since it was loaded\n  hint: load it again"
    ):
        db["E"].fetchall()
    os.remove("E/0.parquet")
    with pytest.raises(DataError, match=r"the worker tcp://.* does not see this file"):
        db["E"].fetchall()


def test_folders_that_are_columns(db: gd.Database) -> None:
    for year in (2025, 2026):
        write(f"E/year={year}/lang=d%65/0.parquet", x=[year % 100])
    db["E"] = "E"
    assert stored(db, "E").columns == ("x", "year", "lang")
    assert db["E"].sorted().fetchall() == [(25, 2025, "de"), (26, 2026, "de")]


def test_rows_that_come_to_those_of_files(db: gd.Database) -> None:
    write("E/0.parquet", x=[1, 2], s=["a", "b"])
    db["E"] = "E"
    db.insert("E", [(2, "b"), (3, "c")])
    assert stored(db, "E").at_most == 3 and stored(db, "E").remote is not None
    assert len(db["E"]) == 3
    assert db["E"].sorted().fetchall() == [(1, "a"), (2, "b"), (3, "c")]


def test_rows_that_do_not_fit_here(cluster: Workers, tmp_path: Path) -> None:
    write(f"{tmp_path}/0.parquet", x=np.arange(100_000), y=np.arange(100_000))
    write(f"{tmp_path}/s/0.parquet", s=[f"text {number}" for number in range(10_000)])
    with gd.connect(cluster=cluster(2), memory_limit="500KB") as db:
        db.workspace.force(spread="partition")
        db["E"] = f"{tmp_path}/0.parquet"
        assert len(db["E"]) == 100_000
        with pytest.raises(MemoryLimitError, match="100,000 rows are on the workers, and take 781"):
            db["E"].fetchall()
        with pytest.raises(MemoryLimitError, match=r"S has more than .* different texts"):
            db["S"] = f"{tmp_path}/s"


# --------------------------------------------------------------------------------------- frames


def frame(rows: int = 7) -> pd.DataFrame:
    at = pd.date_range("2026-11-20", periods=rows, freq="D")
    names = [f"n{row % 3}" for row in range(rows)]
    return pd.DataFrame({"x": range(rows), "who": names, "at": at, "v": np.arange(rows) / 2})


def test_a_frame_stays_on_the_workers(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    db["E"] = dd.from_pandas(frame(), npartitions=3)
    far = stored(db, "E")
    assert far.columns == ("x", "who", "at", "v")
    assert far.types == ("int", "symbol", "timestamp", "float")
    near = gd.connect()
    near["E"] = frame().assign(at=frame()["at"].dt.tz_localize("UTC"))  # workers know no kinds
    assert len(db["E"]) == 7
    assert db["E"].sorted().fetchall() == near["E"].sorted().fetchall()
    assert db.query("n(w, count()) <- E(_, w, _, _).").sorted().fetchall() == [
        ("n0", 3), ("n1", 2), ("n2", 2)
    ]  # fmt: skip
    db["names"] = dd.from_pandas(frame(), npartitions=2)["who"]
    assert len(db["names"]) == 3 and stored(db, "names").columns == ("who",)
    import dask.array

    pairs = np.arange(12).reshape(6, 2)
    db["A"] = dask.array.from_array(pairs, chunks=(4, 1))
    assert db["A"].sorted().fetchall() == [(int(x), int(y)) for x, y in pairs]
    db.load("few", dd.from_pandas(frame(), npartitions=2), columns=["v", "x"])
    assert stored(db, "few").types == ("float", "int")


def test_a_frame_with_faults(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    whole = frame()
    whole.loc[5, "v"] = None
    with pytest.raises(DataError, match="E, partition 1: row 1, column 'v': a value is missing"):
        db.load("E", dd.from_pandas(whole, npartitions=2), nulls="error")
    db["E"] = dd.from_pandas(whole, npartitions=2)
    assert db["E"].describe()["nulls"].sum() == 1
    db.run(".decl D(x: int, who: symbol, at: timestamp, v: int)")
    with pytest.raises(DataError, match=r"D, partition \d: row 0, column .v.: expected int, found"):
        db["D"] = dd.from_pandas(frame(), npartitions=2)
    mixed = dd.from_map(lambda at: pd.DataFrame({"x": [at]}), [1, "a"], meta={"x": object})
    with pytest.raises(DataError, match="the column 'x' is symbol in partition 1, and int in p"):
        db["M"] = mixed


def test_a_frame_without_rows_has_types(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    db["E"] = dd.from_pandas(frame().iloc[:0], npartitions=1)
    assert len(db["E"]) == 0
    assert db["E"].dtypes == ("int", "symbol", "timestamp", "float")


# ------------------------------------------------------------------------------------ the prompt


def test_sizes_at_the_prompt(db: gd.Database, capsys: pytest.CaptureFixture[str]) -> None:
    write("E/0.parquet", x=[1, 2, 2])
    out = io.StringIO()
    repl = Repl(db, Output(out, None))
    repl.take_all(".load E\n.relations\n.stats\n")
    assert re.fullmatch(
        r"E\(x: int\): at most 3 tuples, on the workers \(\S+ s\)\n", capsys.readouterr().err
    )
    assert out.getvalue().startswith("E(x: int)  ≤ 3\n") and "loaded rows   3" in out.getvalue()
    assert len(db["E"]) == 2  # which has the workers compare them
    repl.take_all(".relations\n")
    assert out.getvalue().endswith("E(x: int)  2\n")
    repl.take_all(".load F 'E/*.parquet'\n.save all.dl\n")
    with open("all.dl", encoding="utf-8") as file:
        assert '.input E("E")\n.input F("E/*.parquet")\n' in file.read()


def test_files_are_read_again_by_other_workers(
    cluster: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the connection to those before is lost."""
    monkeypatch.chdir(tmp_path)
    rows = edges("E")
    address = cluster(2).scheduler.address
    with gd.connect(device="cpu", cluster=address) as db:
        db.workspace.force(spread="partition")
        repl = Repl(db, Output(io.StringIO(), None))
        repl.take_all(".load E\n")
        first = stored(db, "E")
        db.cluster.client.close()
        repl.take_all(f".cluster {address}\n")
        assert stored(db, "E") is not first and set(db["E"].fetchall()) == rows
        repl.take_all(".cluster off\n")
        assert db.cluster is None and set(db["E"].fetchall()) == rows
        repl.take_all(".save all.dl\n")
        with open("all.dl", encoding="utf-8") as file:
            assert '.input E("E")\n' in file.read()


def test_undoing_brings_nothing_back_that_lay_on_other_workers(
    cluster: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = edges("E")
    write("G/0.parquet", x=[1, 2])
    with gd.connect(device="cpu", cluster=cluster(2).scheduler.address) as db:
        db.workspace.force(spread="partition")
        repl = Repl(db, Output(io.StringIO(), None))
        repl.take_all(".load G\n.load E\np(1).\n.drop G\np(2).\n.load F 'E/*.parquet'\np(3).\n")
        repl.take_all(".cluster off\n")
        assert db.cluster is None
        capsys.readouterr()
        repl.take_all(".undo\n.undo\n")  # of p(3), with E and F; of F, with E
        assert set(db["E"].fetchall()) == rows and "F" not in db.relations
        repl.take_all(".save all.dl\n")
        assert '.input E("E")\n' in Path("all.dl").read_text(encoding="utf-8")
        repl.take_all(".undo\n")
        assert db["p"].fetchall() == [(1,)] and set(db["E"].fetchall()) == rows
        repl.take_all(".undo\n")  # of .clear: G lay there
        assert db["p"].fetchall() == [(1,)] and "G" not in db.relations
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in told if "revert" in line] == [
        *["reverted"] * 3, "nothing to revert",
    ]  # fmt: skip


def test_deletions(db: gd.Database) -> None:
    edges("E")
    db["E"] = "E"
    with pytest.raises(gd.Error, match="lie on the workers of a cluster, and are not deleted"):
        db.delete("E(0, _)")
    db.workspace.force(spread="never")
    db["F"] = [(1, 2), (2, 3)]
    assert db.delete("F(x, _), E(x, _), x > 1").rows == 1 and len(db["F"]) == 1
