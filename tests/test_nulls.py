"""Missing values: kept, refused with what they cost, dropped, or filled, wherever data is from."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loading import decl, load, put, refused_data

import gdatalog as gd
from gdatalog.errors import UsageError
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import Findings

RECORDS = [
    {"id": 1, "post": None, "text": "a"},
    {"id": 2, "post": 7, "text": None},
    {"id": 3, "post": 8, "text": "c"},
    {"id": 4, "post": None, "text": None},
]
COLUMNS = {key: [row[key] for row in RECORDS] for key in ("id", "post", "text")}
FRAME = pd.DataFrame(COLUMNS)
CSV = "id,post,text\n1,,a\n2,7,\n3,8,c\n4,NA,\n"


def files(folder: Path) -> list[Any]:
    table = pa.table(COLUMNS)
    pq.write_table(table, folder / "c.parquet")
    with pa.ipc.new_file(folder / "c.arrow", table.schema) as out:
        out.write_table(table)
    (folder / "c.json").write_text(json.dumps(RECORDS))
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))
    return [str(folder / f"c.{ending}") for ending in ("parquet", "arrow", "json", "jsonl")]


def all_forms(folder: Path) -> list[Any]:
    return [
        RECORDS,
        COLUMNS,
        FRAME,
        FRAME.convert_dtypes(),
        FRAME.convert_dtypes(dtype_backend="pyarrow"),
        FRAME.astype({"text": "category"}),
        pl.DataFrame(RECORDS),
        pa.table(COLUMNS),
        [tuple(row.values()) for row in RECORDS],
        np.array([tuple(row.values()) for row in RECORDS], dtype=object),
        {**COLUMNS, "post": np.ma.array([0, 7, 8, 0], mask=[1, 0, 0, 1])},
        *files(folder),
    ]


def test_the_error_tells_what_it_would_cost(tmp_path: Path) -> None:
    for data in all_forms(tmp_path):
        declared = decl(id="int", post="int", text="symbol")
        strict = declared if isinstance(data, list | np.ndarray) else None
        told = refused_data(data, nulls="error", declared=strict)
        if isinstance(data, pd.DataFrame) and data["post"].dtype == float:
            assert "found the float" not in told
        assert (
            "values are missing: `post` in 2 rows, `text` in 2 rows; 3 of 4 rows would be dropped"
        ) in told
        assert (
            'hint: columns=["id"] loads the other columns; nulls="drop" drops these rows; '
            'fill={"post": ...} fills them'
        ) in told


def test_facts_files_have_nulls_by_a_word(tmp_path: Path) -> None:
    (tmp_path / "p.facts").write_text("1\tNULL\t5\n2\t\tNULL\n")
    path = f'filename="{tmp_path}/p.facts"'
    with gd.connect() as db:
        text = f".decl p(a: int, b: symbol?, c: int?)\n.input p({path}{{}})\n?- p."
        assert db.query(text.format(', null="NULL"')).sorted().fetchall() == [
            (1, None, 5), (2, "", None),
        ]  # fmt: skip
        with pytest.raises(gd.DataError, match=r'null="..." is a word for nulls'):
            db.query(text.format(""))
        db["r"] = [(1, None, "")]
        with pytest.raises(gd.DataError, match="column 'column1' holds a null, which a facts file"):
            db.run(f'.output r(filename="{tmp_path}/r.facts")')
        db.run(f'.output r(filename="{tmp_path}/r.facts", null="-")')
        assert (tmp_path / "r.facts").read_text() == "1\t-\t\n"
        db["r"] = [("-",), (None,)]
        with pytest.raises(gd.DataError, match="the text '-', which stands for a null"):
            db.run(f'.output r(filename="{tmp_path}/r.facts", null="-")')


def test_data_of_a_database_keep_what_is_nullable() -> None:
    with gd.connect() as db:
        db["t"] = [(1, "a"), (2, None)]
        db["some"] = db["t"].head(1)
        assert db.relations.schema("some").nullable == (False, True)
        with pytest.raises(gd.DeviceError, match="'column1' may hold nulls"):
            db["t"].to_cupy()
        assert db["t"].to_dask().compute()["column1"].isna().tolist() == [False, True]


def test_rows_that_are_inserted(tmp_path: Path) -> None:
    with gd.connect() as db:
        db["t"] = [(1, "a")]
        db.insert("t", [(None, "b"), (2, None)])
        assert db.relations.schema("t").nullable == (True, True)
        assert db["t"].sorted().fetchall() == [(1, "a"), (2, None), (None, "b")]
        assert repr(db.relations) == "t(column0: int?, column1: symbol?)"
        assert "│    null │ b       │" in str(db["t"]) and ">null</span>" in db["t"]._repr_html_()
        db.run(".decl d(a: int, b: int?)")
        db["d"] = [(1, 2)]
        assert db["d"].df().dtypes.tolist() == ["int64", "Int64"]  # by the schema, not by rows
        db.insert("d", [(5, None)])
        with pytest.raises(gd.DataError, match=r"(?s)'a' is missing.*declare it a: int\?"):
            db.insert("d", [(None, 5)])
        told = "row 0, column 'b': a column with missing values cannot hold 9223372036854775807"
        with pytest.raises(gd.DataError, match=told):
            db.insert("d", [(5, 2**63 - 1)])
        db.insert("d", [(2**63 - 1, 5)])
        assert len(db["d"]) == 3


def test_one_note_tells_of_nulls_that_are_joined() -> None:
    told = (
        "person: 2 rows with a null in `city` join with nothing\n"
        '  hint: `x = null` finds them; nulls="drop" loads only rows without nulls, as before'
    )
    frame = pd.DataFrame({"id": [1, 2, 3], "city": ["Bern", None, None], "age": [5, None, 7]})
    with gd.connect() as db, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        db["person"] = frame
        db["home"] = [("Bern",)]
        db.query("?- person(x, c, a), a > 6.")
        db.query("?- person(x, _, _), person(x, _, _).")  # this column has no nulls
        assert not caught
        for _ in range(3):
            assert db.query("r(x) <- person(x, c, _), home(c).").fetchall() == [(1,)]
        assert [str(each.message).removeprefix("warning: ") for each in caught] == [told]
        db.load("person", frame, nulls="drop")
        db.run("r(x) <- person(x, c, _), home(c).")
        db.run(".decl t(id: int, city: symbol?)")
        db.load("t", frame[["id", "city"]])
        db.run("s(x) <- t(x, c), home(c).")
        assert len(caught) == 2 and "dropped" in str(caught[1].message)  # nulls that are meant
        db["person"] = frame
        db.run("q(x) <- person(x, c, _), !home(c).")
        assert len(caught) == 3


def test_a_declaration_says_whether_there_are_nulls() -> None:
    with gd.connect() as db:
        db.load("p", [(1, None), (2, 3)], columns=["a", "b"])
        with pytest.raises(gd.TypeMismatchError, match=r"but its data is `p\(a: int, b: int\?\)`"):
            db.run(".decl p(a: int, b: int)")
        db.run(".decl p(a: int?, b: int?)")
        assert repr(db.relations) == "p(a: int?, b: int?)"
        with pytest.raises(gd.TypeMismatchError, match="`q` is declared again, and differently"):
            db.run(".decl q(a: int)\n.decl q(a: int?)")


def test_columns_that_nobody_asks_for_may_have_nulls(tmp_path: Path) -> None:
    for data in all_forms(tmp_path):
        if not isinstance(data, list | np.ndarray) or isinstance(data[0], dict):
            assert to_rows(load(data, columns=["id"])) == [(1,), (2,), (3,), (4,)]
            assert load(data, declared=decl(id="int")).length == 4
    path = tmp_path / "c.csv"
    path.write_text(CSV)
    assert to_rows(load(path, columns=["id"])) == [(1,), (2,), (3,), (4,)]


def test_rows_are_dropped(tmp_path: Path) -> None:
    for data in all_forms(tmp_path):
        findings = Findings()
        table = load(data, nulls="drop", findings=findings)
        assert [tuple(map(str, row)) for row in to_rows(table)] in (
            [("3", "8", "c")], [("3", "8.0", "c")],
        )  # fmt: skip
        assert findings.dropped == 3
        assert list(findings.missing.values()) == [2, 2]


def test_values_are_filled(tmp_path: Path) -> None:
    for data in all_forms(tmp_path):
        if isinstance(data, list | np.ndarray) and not isinstance(data[0], dict):
            continue
        floats = isinstance(data, pd.DataFrame) and data["post"].dtype == float
        fill = {"post": -1.0 if floats else -1, "text": "c"}
        filled = [(1, -1, "a"), (2, 7, "c"), (3, 8, "c"), (4, -1, "c")]
        assert to_rows(load(data, fill=fill)) == filled
        some = load(data, fill={"text": "?"}, nulls="drop")
        assert to_rows(some) == [(2, 7, "?"), (3, 8, "c")]


def test_rows_of_the_other_byte_order_are_dropped() -> None:
    columns = {"a": np.array([1.5, np.nan], dtype=">f8"), "b": np.array([1, 2], dtype=">i8")}
    assert to_rows(load(pd.DataFrame(columns), nulls="drop")) == [(1.5, 1)]


def test_cells_of_text_files(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(CSV)
    assert to_rows(load(path, nulls="drop")) == [(2, 7, ""), (3, 8, "c")]
    told = refused_data(path)
    assert "values are missing: `post` in 2 rows; 2 of 4 rows would be dropped" in told
    assert f"{path}:5:3: data error: column 2 'post': found 'NA' in a column of type int" in told
    assert 'null="NA" keeps cells with this word as nulls' in told
    told = refused_data(path, nulls="error")
    assert f"{path}:2:3: data error: column 2 'post': found '' in a column of type int" in told
    filled = load(path, fill={"post": 0, "text": "?"})
    assert to_rows(filled) == [(1, 0, "a"), (2, 7, "?"), (3, 8, "c"), (4, 0, "?")]
    declared = decl(id="int", post="int", text="symbol")
    assert to_rows(load(path, nulls="drop", declared=declared)) == [(2, 7, ""), (3, 8, "c")]
    path.write_text("id,post\n1,\n2,x\n3,4\n")
    told = refused_data(path, nulls="drop", declared=decl(id="int", post="int"))
    assert f"{path}:3:3: data error: column 2 'post': expected int, found 'x'" in told


def test_every_type_is_filled() -> None:
    noon = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
    for kind, value, fill in [
        ("int", 1, 2**40), ("float", 0.5, 1), ("symbol", "a", "b"), ("bool", True, False),
        ("timestamp", noon, dt.datetime(2026, 1, 1)),
    ]:  # fmt: skip
        table = load({"x": [value, None]}, fill={"x": fill})
        assert table.types == (kind,)
        only = load({"x": [None, None]}, fill={"x": value})
        assert only.types == (kind,) and only.length == 2
    assert to_rows(load({"x": ["a", None]}, fill={"x": "a"})) == [("a",), ("a",)]


def test_places_are_those_of_the_data() -> None:
    data = {"x": [None, 1, 2, 3], "y": ["a", "b", 5, "d"]}
    assert "row 2, column 'y': found the int 5" in refused_data(data, nulls="drop")
    assert refused_data({"x": [1, None]}, fill={"x": "a"}) == (
        "data error: data: fill of column 'x': expected int, found the symbol 'a'\n"
        "  hint: give it a value of that type"
    )


def test_what_cannot_be_said() -> None:
    with gd.connect() as db:
        for said, told in [
            ({"nulls": "ignore"}, "there is no nulls='ignore'"),
            ({"null": 3}, "null is the word for nulls in a text file, found 3"),
            ({"fill": {"y": 0}}, "fill names no column of the relation: 'y'"),
            ({"fill": 0}, "fill is a dict"),
        ]:
            with pytest.raises(UsageError, match=told):
                db.load("E", {"x": [1, None]}, **said)  # type: ignore[arg-type]
        assert "E" not in db


def test_in_a_database(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(CSV)
    told = r"comment: 2 of 4 rows dropped because values are missing: `post` in 2 rows"
    with gd.connect() as db:
        with pytest.warns(gd.ProgramWarning, match=told):
            db.load("comment", str(path), nulls="drop")
        assert db["comment"].sorted().fetchall() == [(2, 7, ""), (3, 8, "c")]
        with pytest.warns(gd.ProgramWarning, match="comment: 1 of 1 row dropped"):
            db.insert("comment", [(5, None, "e")], nulls="drop")
        db.insert("comment", [(5, None, "e")], fill={"post": 0})
        assert len(db["comment"]) == 3
        text = f'.input c("{path}", nulls=drop)\n?- c(i, p, t).'
        with pytest.warns(gd.ProgramWarning, match="c: 2 of 4 rows dropped"):
            assert len(db.query(text)) == 2
        how = 'fill="post=-1, text=none", columns="id, post, text"'
        text = f'.input c("{path}", {how})\n?- c(i, -1, t).'
        assert db.query(text).sorted().fetchall() == [(1, "a"), (4, "none")]
        put(str(tmp_path / "k.facts"), "1\t\n2\t3\n")
        text = (
            f'.decl k(a: int, b: int)\n.input k(filename="{tmp_path}/k.facts", {{}})\n?- k(a, b).'
        )
        with pytest.warns(gd.ProgramWarning, match="k: 1 of 2 rows dropped"):
            assert db.query(text.format("nulls=drop")).fetchall() == [(2, 3)]
        assert len(db.query(text.format('fill="b=9"'))) == 2
