"""Answers: what they are made into, with types that never depend on the data, and how they look."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd

WHEN = pd.Timestamp("2026-11-20T08:30:00.5", tz="UTC")
PROGRAM = """
    .decl all(i: int, f: float, s: symbol, b: bool, t: timestamp)
    all(2, 0.5, "é", true, @2026-11-20T08:30:00.5).
    all(-1, 2.0, "a", false, @1970-01-01).
    ?- all(i, f, s, b, t)"""
ROWS = [
    (-1, 2.0, "a", False, pd.Timestamp("1970-01-01", tz="UTC")),
    (2, 0.5, "é", True, WHEN),
]


@pytest.fixture(params=[False, True], ids=["rows", "empty"])
def result(request: pytest.FixtureRequest) -> gd.Result:
    return gd.query(PROGRAM + (", i > 100." if request.param else "."))


@pytest.fixture
def many() -> gd.Result:
    return gd.query("?- n(x).", {"n": [(number,) for number in range(100, 0, -1)]})


def plain(frame: pd.DataFrame) -> list[Any]:
    return sorted(frame.itertuples(index=False, name=None))


def test_pandas(result: gd.Result) -> None:
    frame = result.df()
    assert [str(kind) for kind in frame.dtypes] == [
        "int64",
        "float64",
        str(pd.Series(["a"], dtype="str").dtype),
        "bool",
        "datetime64[ns, UTC]",
    ]
    assert list(frame.columns) == ["i", "f", "s", "b", "t"]
    assert plain(frame) == ROWS[: len(result)] == plain(result.to_pandas())
    assert list(result.df(sort=True).itertuples(index=False, name=None)) == ROWS[: len(result)]


def test_arrow(result: gd.Result) -> None:
    table = result.to_arrow()
    assert table.schema.types == [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("ns", tz="UTC"),
    ]
    assert table.num_rows == len(result)
    assert pa.table(result).equals(table)  # by __arrow_c_stream__
    assert pl.DataFrame(result).shape == (len(result), 5)
    again = gd.query("?- r.", {"r": result.sorted()})
    assert again.dtypes == result.dtypes and again.sorted().fetchall() == ROWS[: len(result)]


def test_polars(result: gd.Result) -> None:
    frame = result.to_polars()
    assert frame.dtypes == [
        pl.Int64,
        pl.Float64,
        pl.String,
        pl.Boolean,
        pl.Datetime("ns", "UTC"),
    ]
    assert frame.height == len(result)


def test_numpy(result: gd.Result) -> None:
    array = result.sorted().to_numpy()
    assert array.dtype.names == ("i", "f", "s", "b", "t")
    assert [array.dtype[at] for at in range(5)] == [
        np.dtype(np.int64),
        np.dtype(np.float64),
        np.dtype(object),
        np.dtype(np.bool_),
        np.dtype("datetime64[ns]"),
    ]
    assert array["i"].tolist() == [row[0] for row in ROWS[: len(result)]]


def test_rows(result: gd.Result) -> None:
    assert result.columns == ("i", "f", "s", "b", "t")
    assert result.dtypes == ("int", "float", "symbol", "bool", "timestamp")
    assert bool(result) == (len(result) > 0)
    found = result.sorted().fetchall()
    assert found == ROWS[: len(result)] == list(result.sorted())
    for row in found:
        assert [type(value) for value in row] == [int, float, str, bool, pd.Timestamp]


def test_files(result: gd.Result, tmp_path: Path) -> None:
    result.sorted().to_csv(tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "i,f,s,b,t" and len(lines) == 1 + len(result)
    if result:
        assert lines[2] == "2,0.5,é,true,2026-11-20T08:30:00.5"
    result.to_parquet(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").schema.types == result.to_arrow().schema.types
    db = gd.connect()
    for name in ("a.csv", "a.parquet"):
        if result or name == "a.parquet":
            db["back"] = tmp_path / name
            assert db["back"].sorted().fetchall() == ROWS[: len(result)]


def test_the_callers_arrays_are_theirs() -> None:
    db = gd.connect()
    db["n"] = [(1,), (2,)]
    frame = db["n"].df()
    frame.loc[:, frame.columns[0]] = 9
    db["n"].to_numpy()[:] = 9
    assert db["n"].sorted().fetchall() == [(1,), (2,)]


@pytest.mark.parametrize(("text", "length"), [("f() <- n(1).", 1), ("f() <- n(7).", 0)])
def test_propositions(text: str, length: int, tmp_path: Path) -> None:
    result = gd.query(text, {"n": [(1,)]})
    assert result.columns == result.dtypes == ()
    assert result.df().shape == (length, 0) and result.to_arrow().num_rows == length
    assert result.to_polars().width == 0 and len(result.to_numpy()) == length
    assert result.sorted().fetchall() == [()] * length == result.head(5).fetchall()
    result.to_csv(tmp_path / "f.csv")
    result.to_parquet(tmp_path / "f.parquet")
    db = gd.connect()
    db["f"] = tmp_path / "f.parquet"
    assert len(db["f"]) == length and db["f"].columns == ()
    assert result._repr_html_() == f"<b>{'yes' if length else 'no'}</b>"


def test_sorting_is_by_values_and_by_code_points() -> None:
    texts = ["b", "Z", "é", "a", "", "ab"]
    data = {"s": [(text, -at / 2) for at, text in enumerate(texts)]}
    found = gd.query("?- s(text, number).", data).sorted()
    assert [row[0] for row in found] == sorted(texts)
    numbers = gd.query("p(number) <- s(_, number).", data).sorted().fetchall()
    assert numbers == sorted(numbers)


def test_parts_of_an_answer(many: gd.Result) -> None:
    assert many.sorted().head(3).fetchall() == [(1,), (2,), (3,)]
    assert many.sorted().head(3).sorted().head(2).fetchall() == [(1,), (2,)]
    assert len(many.head(0)) == 0 and len(many.head(1000)) == 100
    assert many.head(10).sorted().df().shape == (10, 1)


ROWS_TO_SORT = [(2, "b", 0.5), (1, "a", -1.0), (1, "B", 3.0), (3, "a", 0.5), (1, "a", 7.0)]


@pytest.mark.parametrize("columns", [("k", "s", "f"), ("k", "f")])
def test_sorting_by_named_columns(columns: tuple[str, ...]) -> None:
    rows = [tuple(row["ksf".index(c)] for c in columns) for row in ROWS_TO_SORT]
    data = {"t": pd.DataFrame(dict(zip(columns, zip(*rows, strict=True), strict=True)))}
    found = gd.query(f"?- t({', '.join(columns)}).", data)

    def expected(by: list[str], down: list[bool]) -> list[Any]:
        """Rows that are equal in all that is named stand in the order of the rest."""
        out = sorted(rows)
        for name, turn in reversed(list(zip(by, down, strict=True))):
            out.sort(key=lambda row: row[columns.index(name)], reverse=turn)
            # Python's sort keeps equal rows as they stand, upwards and downwards.
        return out

    for by in (["f"], ["k"], ["k", "f"], ["f", "k"], ["f", "k", "f"], list(columns)):
        for down in ([False] * len(by), [True] * len(by), [True, *[False] * (len(by) - 1)]):
            wanted = expected(by, down)
            assert found.sorted(by, descending=down).fetchall() == wanted
            assert found.sort(by, descending=down).fetchall() == wanted
            frame = found.df(sort=by, descending=down)
            assert list(frame.itertuples(index=False, name=None)) == wanted
    assert found.sorted("f").fetchall() == expected(["f"], [False])
    assert found.df(sort="f", descending=True)["f"].tolist()[0] == 7.0
    assert found.sorted(descending=True).fetchall() == sorted(rows, reverse=True)
    assert found.sorted("k").head(3).sorted("f")["f"].tolist() == [-1.0, 3.0, 7.0]


def test_sorting_downwards_reaches_both_ends() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    data = {"n": [(least, False), (0, True), (most, False), (-1, True), (1 << 40, True)]}
    found = gd.query("?- n(x, b).", data)
    assert found.sorted("x", descending=True)["x"].tolist() == [most, 1 << 40, 0, -1, least]
    assert found.sorted("b", descending=True)["b"].tolist() == [True] * 3 + [False] * 2
    floats = [(-0.5,), (float("-inf"),), (float("inf"),), (0.0,), (1e300,)]
    values = gd.query("?- f(x).", {"f": floats}).sorted(descending=True)["x"].tolist()
    assert values == [row[0] for row in sorted(floats, reverse=True)]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda r: r.df(sort="j"), gd.NameResolutionError, "its columns are i, f, s, b, t"),
        (lambda r: r.df(sort=["f", "T"]), gd.NameResolutionError, "did you mean 't'?"),
        (lambda r: r.sorted("ff"), gd.NameResolutionError, "no column 'ff'"),
        (lambda r: r["I"], gd.NameResolutionError, "did you mean 'i'?"),
        (lambda r: r.df(sort=3), gd.UsageError, "by columns' names, not by 3"),
        (lambda r: r.df(descending=True), gd.UsageError, "nothing is sorted"),
        (lambda r: r.sorted("f", descending=[True, False]), gd.UsageError, "2 values for 1"),
        (lambda r: r[::2], gd.UsageError, "no step"),
        (lambda r: r[1.5], gd.UsageError, "nothing under 1.5"),
        (lambda r: r[9], IndexError, "no row 9 in an answer of"),
        (lambda r: r[-9], IndexError, "no row -9"),
        (lambda r: r.fetchmany(-1), gd.UsageError, "cannot be negative"),
    ],
)
def test_what_cannot_be_asked_of_an_answer(
    result: gd.Result, call: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call(result)
    assert text in str(caught.value)


def test_columns_rows_and_slices(result: gd.Result) -> None:
    count, found = len(result), result.sorted()
    assert found.shape == (count, 5)
    array = found.to_numpy()
    for name in found.columns:
        column = found[name]
        assert column.dtype == array[name].dtype and column.tolist() == array[name].tolist()
        column[:] = column[::-1].copy()  # it is the caller's
        assert found[name].tolist() == array[name].tolist()
    rows = found.fetchall()
    assert [found[at] for at in range(-count, count)] == rows + rows
    assert [type(found[np.int64(at)]) for at in range(count)] == [tuple] * count
    for part in (slice(0, 1), slice(1, None), slice(-1, None), slice(5, 2), slice(-9, 9)):
        assert isinstance(found[part], gd.Result) and found[part].fetchall() == rows[part]
    assert found[:1].columns == found.columns


def test_rows_one_after_the_other(many: gd.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.result.FETCHED", 7)
    found, rows = many.sorted(), [(n,) for n in range(1, 101)]
    assert found.fetchall() == found.fetchall() == rows
    assert [found.fetchone(), found.fetchmany(), found.fetchmany(9)] == [
        (1,), [(2,)], rows[2:11]
    ]  # fmt: skip
    assert list(found) == rows  # a loop has its own place
    assert found.fetchall() == rows[11:]
    assert found.fetchone() == (1,)
    assert found.fetchmany(1000) == rows[1:]
    assert (found.fetchone(), found.fetchmany(3), found.fetchall()) == (None, [], [])
    assert found.fetchall() == rows


def test_other_libraries_take_an_answer_as_it_is(result: gd.Result) -> None:
    names, kinds = list(result.columns), result.df().dtypes.tolist()
    assert pl.DataFrame(result).columns == pa.table(result).column_names == names
    assert pl.DataFrame(result).height == pa.table(result).num_rows == len(result)
    if len(result):  # of no rows pandas' constructor takes no names
        frame = pd.DataFrame(result)
        assert (list(frame.columns), frame.dtypes.tolist()) == (names, kinds)
        assert plain(frame) == ROWS
    assert pickle.loads(pickle.dumps(list(result))) == result.fetchall()
    assert np.array(result).shape == (result.shape if len(result) else (0,))


def test_names_of_columns_are_completed() -> None:
    db = gd.connect()
    db["edge"] = [(1, 2)]
    assert db._ipython_key_completions_() == ["edge"]
    assert db["edge"]._ipython_key_completions_() == list(db["edge"].columns)


def test_what_people_see(many: gd.Result, capsys: pytest.CaptureFixture[str]) -> None:
    many.sorted().show(3)
    assert capsys.readouterr().out == (
        "┌─────┐\n│   x │\n├─────┤\n│   1 │\n│   2 │\n│   … │\n│ 100 │\n└─────┘\n100 rows\n"
    )
    assert repr(many.sorted()).splitlines()[3:6] == ["│   1 │", "│   2 │", "│   3 │"]
    assert "1 row" in many.head(1).format().splitlines()[-1]
    assert many.head(0).format().splitlines()[-1] == "0 rows"
    html = many.sorted()._repr_html_()
    assert re.sub("<[^>]*>", " ", html).split()[:3] == ["x", "int", "1"]
    assert html.count("<tr>") == 22 and html.endswith("100 rows</small>")
    assert html.count("text-align:right") == 22 and html.count("…") == 1


def test_html_is_escaped_and_boxes_keep_their_lines() -> None:
    result = gd.query("?- s(x).", {"s": [("<b>&",), ("two\nlines",), ("long" * 50,)]})
    html = result._repr_html_()
    assert "&lt;b&gt;&amp;" in html and "<b>" not in html and "text-align:right" not in html
    assert f"{('long' * 50)[:200]}</td>" in html
    longer = gd.query("?- s(x).", {"s": [("long" * 51,)]})._repr_html_()
    assert f"{('long' * 50)[:199]}…</td>" in longer
    assert len({len(line) for line in result.format().splitlines()[:-1]}) == 1


def test_an_answer_stays_as_it_was_when_the_database_changes() -> None:
    db = gd.connect()
    db["E"] = [("a", "b")]
    before = db["E"]
    db["E"] = [("c", "d")]
    db.close()
    assert before.fetchall() == [("a", "b")]
