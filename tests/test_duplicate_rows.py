"""Duplicate rows in data: the user learns of them, and may keep them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from loading import decl, load, refused_data
from pandas.testing import assert_frame_equal

import gdatalog as gd
from gdatalog.errors import UsageError
from gdatalog.storage.export import to_rows

PAY = pd.DataFrame({"who": ["ann", "bob", "ann"], "amount": [5, 7, 5]})
TOLD = (
    r"pay: 1 of 3 rows is a duplicate, and a relation is a set: 2 rows loaded\n"
    r"  hint: row_id=True keeps all rows, so that sums and counts see each of them"
)


def test_a_load_and_an_insert_tell() -> None:
    with gd.connect() as db:
        with pytest.warns(gd.ProgramWarning, match=TOLD):
            db.load("pay", PAY)
        with pytest.warns(gd.ProgramWarning, match="pay: 2 of 4 rows are duplicates"):
            db.insert("pay", [("cid", 1)] * 3 + [("ann", 5)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            db.insert("pay", [("cid", 1), ("dan", 2)])  # which is there already
            db.load("many", {"x": np.arange(50_000) % 50, "y": np.arange(50_000)})
        with pytest.warns(gd.ProgramWarning, match="many: 49,950 of 50,000 rows are duplicates"):
            db["many"] = {"x": np.arange(50_000) % 50, "y": np.arange(50_000) % 10}
        with pytest.warns(gd.ProgramWarning, match="E: 1 of 2 rows is a duplicate"):
            gd.query("?- E(x).", {"E": [1, 1]})
        assert len(db["pay"]) == 4


def test_rows_have_numbers() -> None:
    with warnings.catch_warnings(), gd.connect() as db:
        warnings.simplefilter("error")
        db.load("pay", PAY, row_id="id")
        assert db["pay"].columns == ("id", "who", "amount")
        assert db["pay"].sorted().fetchall() == [(0, "ann", 5), (1, "bob", 7), (2, "ann", 5)]
        assert db.query("total(sum(a)) <- pay(_, _, a).").fetchall() == [(17,)]
        db.insert("pay", PAY, row_id="id")
        assert [row[0] for row in db["pay"].sorted()] == list(range(6))
        db.run(".decl paid(who: symbol, n: int, amount: int)")
        db.load("paid", PAY, row_id="n")
        assert db["paid"].sorted().fetchall()[0] == ("ann", 0, 5)
        db.load("paid", [("x", 1)], row_id="n")
        assert db["paid"].fetchall() == [("x", 0, 1)]


def test_numbers_that_cannot_be() -> None:
    assert "the data has a column 'who' already" in refused_data(PAY, row_id="who")
    told = refused_data(PAY, row_id="id", declared=decl(who="symbol", amount="int"))
    assert "the row numbers are to be the column 'id', and the relation has no such column" in told
    told = refused_data(PAY, row_id="who", declared=decl(who="symbol", amount="int"))
    assert "the relation has who: symbol" in told
    with (
        gd.connect() as db,
        pytest.raises(UsageError, match="row_id is True or the name of a column"),
    ):
        db.load("pay", PAY, row_id=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["lftj", "levelwise"])
def test_sums_over_equal_rows_are_those_of_pandas(strategy: Any) -> None:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"g": random.integers(0, 9, 500), "x": random.integers(0, 5, 500)})
    with warnings.catch_warnings(), gd.connect(settings={"strategy": strategy}) as db:
        warnings.simplefilter("error")
        db.load("t", frame, row_id=True)
        db["h"] = [(g,) for g in range(4)]
        assert_frame_equal(db["t"].df(sort=True), frame.sort_values(["g", "x"], ignore_index=True))
        found = db.query("r(g, sum(x), mean(x), count()) <- t(g, x).").df(sort="g")
        wanted = frame.groupby("g")["x"].agg(["sum", "mean", "count"]).reset_index()
        assert_frame_equal(found, wanted.set_axis(found.columns, axis=1))
        joined = db.query("r(n) <- n = sum x : { t(g, x), h(g) }.").fetchall()
        assert joined == [(frame[frame["g"] < 4]["x"].sum(),)]


def test_hidden_numbers(tmp_path: Path) -> None:
    with gd.connect() as db:
        db.load("pay", PAY, row_id=True)
        assert repr(db.relations) == "pay(who: symbol, amount: int)"
        assert db["pay"].columns == ("who", "amount") and len(db["pay"]) == 3
        assert db.query("?- pay(w, 5).").fetchall() == [("ann",)]
        assert db.query("?- pay(row_id = i, amount = 5).").sorted().fetchall() == [(0,), (2,)]
        assert db.query("?- pay order by amount desc limit 2.").fetchall()[0] == ("bob", 7)
        assert list(db.schema()["column"]) == ["who", "amount", "row_id"]
        db.run("of(w, sum(a)) <- pay(w, a).")
        assert db["of"].sorted().fetchall() == [("ann", 10), ("bob", 7)]
        assert db.insert("pay", PAY).rows == 3 and len(db["pay"].new) == 3
        assert db["of"].sorted().fetchall() == [("ann", 20), ("bob", 14)]
        db.save(tmp_path / "x.gdb")
        with gd.connect(tmp_path / "x.gdb") as again:
            again.insert("pay", PAY)
            assert len(again["pay"]) == 9 and again["pay"].columns == ("who", "amount")
        db.run(".decl pay(who: symbol, amount: int)")
        with pytest.raises(gd.TypeMismatchError, match="has 1 argument here, but 2 columns there"):
            db.query("?- pay(_).")
        with pytest.raises(gd.TypeMismatchError, match=r"`db\.insert` adds rows with ids"):
            db.run('pay("x", 1).')
        db["E"] = [(1, 2)]
        with pytest.raises(UsageError, match="E has no row ids, so that more rows cannot have any"):
            db.insert("E", [(1, 2)], row_id=True)


def test_duplicates_may_be_errors(tmp_path: Path) -> None:
    (tmp_path / "pay.csv").write_text("who,amount\nann,5\nann,5\n")
    told = "1 of 3 rows is a duplicate, and a relation is a set"
    text = f'.decl pay(who: symbol, amount: int)\n.input pay("{tmp_path}/pay.csv")\n?- pay.'
    with gd.connect(settings={"duplicates": "error"}) as db:
        for fill in (db.load, db.insert):
            with pytest.raises(gd.DataError, match=told) as caught:
                fill("pay", PAY)
            assert "row_id=True keeps all rows" in str(caught.value)
        assert not db.relations
        with pytest.raises(gd.DataError, match="1 of 2 rows is a duplicate"):
            db.query(text)
        assert len(db.query(text.replace('csv")', 'csv", row_id=true)'))) == 2
        db.set(duplicates="warn")
        with pytest.warns(gd.ProgramWarning, match="1 of 2 rows is a duplicate"):
            assert len(db.query(text)) == 1


def test_numbers_after_rows_are_dropped_and_filled() -> None:
    data = {"x": [5, None, 5], "y": ["a", "b", None]}
    assert to_rows(load(data, row_id="n", nulls="drop", fill={"y": "c"})) == [
        (0, 5, "a"),
        (1, 5, "c"),
    ]


@pytest.mark.parametrize(
    "form, silent", [('"pay.csv"', False), ('filename="pay.csv", delimiter=","', True)]
)
def test_inputs(form: str, silent: bool, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay.csv").write_text("1,5\n2,7\n1,5\n")
    text = f".decl pay(w: int, a: int)\n.input pay({form})\n?- pay(x, y)."
    with gd.connect() as db, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(db.query(text)) == 2
        assert len(db.query(text)) == 2  # told once, when the file is read
        assert len(caught) == (0 if silent else 1)
        assert len(db.query(text.replace(form, f"{form}, row_id=true"))) == 2
        rows = text.replace(form, f"{form}, row_id=true").replace("pay(x, y).", "pay.")
        assert len(db.query(rows)) == 3
        ids = text.replace("w: int", "i: int, w: int").replace(form, f"{form}, row_id=i")
        assert len(db.query(ids.replace("pay(x", "pay(_, x"))) == 2
        assert len(db.query(ids.replace("pay(x", "pay(i, x"))) == 3


def test_several_files(tmp_path: Path) -> None:
    for at in range(2):
        (tmp_path / f"{at}.csv").write_text("1,5\n2,7\n")
    table = load(str(tmp_path / "*.csv"), row_id="id")
    assert to_rows(table) == [(0, 1, 5), (1, 2, 7), (2, 1, 5), (3, 2, 7)]


def test_a_loop_of_a_graph_is_one_row() -> None:
    graph = nx.Graph([(1, 1), (1, 2)])
    assert sorted(to_rows(load(graph))) == [(1, 1), (1, 2), (2, 1)]
    graph.edges[1, 1]["w"], graph.edges[1, 2]["w"] = 3, 4
    weighted = load(graph, declared=decl(s="int", t="int", w="int"))
    assert sorted(to_rows(weighted)) == [(1, 1, 3), (1, 2, 4), (2, 1, 4)]
