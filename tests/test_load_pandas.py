"""Indexes of pandas: what has a name is data, wherever it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loading import decl, load, read_table, refused_data

import gdatalog as gd
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import Findings

FRAME = pd.DataFrame({"id": [1, 2, 3], "g": ["x", "y", "x"], "h": [True, True, False]})
SIZES = FRAME.groupby("g").size()
LEVELS = FRAME.set_index(["g", "h"])
TEXTS = pd.DataFrame({"n": [1, 2]}, index=["a", "b"])
ROWS = FRAME[FRAME.id > 1].drop(columns="h")


@pytest.mark.parametrize(
    "data, names, rows",
    [
        (FRAME.groupby("g")["id"].sum(), ("g", "id"), [("x", 4), ("y", 2)]),
        (FRAME["g"].value_counts(), ("g", "count"), [("x", 2), ("y", 1)]),
        (SIZES, ("g", "column1"), [("x", 2), ("y", 1)]),
        (FRAME.groupby("g")[["id"]].sum(), ("g", "id"), [("x", 4), ("y", 2)]),
        (LEVELS, ("g", "h", "id"), [("x", False, 3), ("x", True, 1), ("y", True, 2)]),
        (LEVELS["id"].rename_axis([None, "h"]), ("level_0", "h", "id"), None),
        (FRAME[["h"]].rename_axis("row"), ("row", "h"), [(0, True), (1, True), (2, False)]),
        (pd.DataFrame([[5], [6]]).rename_axis("r"), ("r", "column1"), [(0, 5), (1, 6)]),
        (FRAME["id"].rename(None), ("column0",), [(1,), (2,), (3,)]),
        (pd.Index([2, 3], name="k"), ("k",), [(2,), (3,)]),
        (ROWS, ("id", "g"), [(2, "y"), (3, "x")]),
        (FRAME.set_index("g").loc[["y"], ["id"]], ("g", "id"), [("y", 2)]),
        (pl.Series("z", [1, 2]), ("z",), [(1,), (2,)]),
        (pa.Table.from_pandas(ROWS), ("id", "g"), [(2, "y"), (3, "x")]),
        (pa.Table.from_pandas(FRAME.set_index("g")[["id"]]), ("id", "g"), None),
        (
            pa.Table.from_pandas(LEVELS.rename_axis([None, None])),
            ("id", "level_0", "level_1"),
            None,
        ),
    ],
)  # fmt: skip
def test_an_index_with_a_name_is_data(
    data: Any, names: tuple[str, ...], rows: list[tuple[Any, ...]] | None
) -> None:
    findings = Findings()
    table = load(data, findings=findings)
    assert table.names == names and not findings.warnings
    assert rows is None or sorted(to_rows(table)) == rows


def test_columns_without_a_name_go_by_position() -> None:
    assert load(SIZES, declared=decl(g="symbol", size="int")).names == ("g", "size")
    assert "only some names are" in refused_data(SIZES, declared=decl(size="symbol", g="int"))
    assert load(SIZES, declared=decl(x="symbol", y="int")).types == ("symbol", "int")
    assert load(SIZES, columns=["g", "n"]).names == ("g", "n")
    assert load(LEVELS, columns=["id", "g"]).names == ("id", "g")
    assert load(FRAME, declared=decl(x="int", y="symbol", z="bool")).length == 3


@pytest.mark.parametrize("missing", [None, np.nan, pd.NaT, pd.NA])
def test_a_missing_label_is_no_name(missing: Any) -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.Index([missing, "a"], dtype=object))
    assert load(frame).names == ("column0", "a")
    assert load(frame[[missing]]).names == ("column0",)
    index = pd.Index([5], name=missing)
    assert load(pd.DataFrame({"x": [1]}, index=index)).names == ("x",)
    assert load(pd.Series([1], name=missing, index=index)).names == ("column0",)


def test_a_column_with_a_name_beside_one_without() -> None:
    frame = pd.DataFrame([["u", "v"]], columns=pd.Index(["a", None], dtype=object))
    told = refused_data(frame, declared=decl(x="symbol", a="symbol"))
    assert "has 2 columns (a, column1); only some names are the same" in told
    assert load(frame, columns=["a"]).names == ("a",)
    assert to_rows(load(frame, columns=["column1", "a"])) == [("v", "u")]
    assert to_rows(load(frame, declared=decl(a="symbol"))) == [("u",)]
    assert to_rows(load(frame, declared=decl(A="symbol", x="symbol"))) == [("u", "v")]


def test_an_index_that_is_left_out_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "texts.parquet")
    TEXTS.to_parquet(path)
    for data in (TEXTS, TEXTS["n"], pa.Table.from_pandas(TEXTS), path):
        findings = Findings()
        table = load(data, findings=findings)
        assert table.names == ("n",) and table.length == 2
        (caution,) = findings.warnings
        assert "the index has no name and is not loaded" in caution.format()
        for said in ({"columns": ["n"]}, {"declared": decl(n="int")}):
            load(data, findings=(silent := Findings()), **said)
            assert not silent.warnings
    with gd.connect() as db, pytest.warns(gd.ProgramWarning, match=r"E: the index has no name"):
        db["E"] = TEXTS


def test_an_index_named_as_a_column() -> None:
    both = FRAME.rename_axis("id")
    assert "several columns are named 'id'" in refused_data(both)


def test_parquet_files_of_pandas(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    FRAME.set_index("g").to_parquet(path)
    assert read_table(path).names == ("id", "h", "g")
    LEVELS.rename_axis([None, None]).to_parquet(path)
    assert read_table(path).names == ("id", "level_0", "level_1")
    assert load(path, columns=["level_1", "id"]).names == ("level_1", "id")
    assert sorted(to_rows(load(path, columns=["level_0"])))[0] == ("x",)
    ROWS.to_parquet(path)
    assert to_rows(read_table(path)) == [(2, "y"), (3, "x")]
    plain = pa.table({"__index_level_0__": np.arange(2)})
    pq.write_table(plain, path)
    assert read_table(path).names == ("__index_level_0__",)


def test_nothing_of_a_group_is_lost_in_a_database() -> None:
    with gd.connect() as db:
        db["total"] = FRAME.groupby("g")["id"].sum()
        assert db["total"].sorted().fetchall() == [("x", 4), ("y", 2)]
        db.insert("total", FRAME.groupby("g")["id"].max())
        assert db["total"].sorted().fetchall() == [("x", 3), ("x", 4), ("y", 2)]
