"""Several files as one relation: folders of Parquet files, and patterns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loading import decl, put, read_table, split

import gdatalog as gd
from gdatalog.errors import DataError, UsageError
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import LoadOptions


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, **columns: Any) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    pq.write_table(pa.table(columns), path)


def rows_of(path: str, **said: Any) -> list[tuple[Any, ...]]:
    given, how = split(said)
    return sorted(to_rows(read_table(path, LoadOptions(**given), **how)))


def test_a_folder_of_parquet_files() -> None:
    write("E/part-0.parquet", x=[1, 2], s=["a", "b"])
    write("E/deep/part-1.pq", s=["b", "c"], x=[2, 3])  # matched by name
    write("E/_hidden.parquet", z=[1])
    put("E/_SUCCESS", "")
    put("E/.part-0.parquet.crc", "x")
    table = read_table("E")
    assert (table.names, table.types) == (("x", "s"), ("int", "symbol"))
    assert sorted(to_rows(table)) == [(1, "a"), (2, "b"), (2, "b"), (3, "c")]
    assert rows_of("E/*.parquet") == [(1, "a"), (2, "b")]
    assert rows_of("E/**/*.p*q*") == rows_of("E")
    assert rows_of("E", columns=["s"]) == [("a",), ("b",), ("b",), ("c",)]
    assert rows_of("E", declared=decl(s="symbol", x="int"))[0] == ("a", 1)


def test_a_pattern_of_other_files() -> None:
    put("e1.csv", "src,dst\n1,a\n")
    put("e2.csv", "dst,src\nb,2\n")
    put("e3.csv", "src,dst\n")
    assert rows_of("e*.csv") == [(1, "a"), (2, "b")]
    assert rows_of("e[12].csv", declared=decl(dst="symbol", src="float")) == [
        ("a", 1.0),
        ("b", 2.0),
    ]
    put("odd[1].csv", "7\n")
    assert rows_of("odd[1].csv") == [(7,)]  # a file that is called so


def test_the_first_file_with_rows_tells_the_types() -> None:
    write("E/0.parquet", x=pa.array([], pa.null()))
    write("E/1.parquet", x=[1.5])
    assert rows_of("E") == [(1.5,)]
    write("E/2.parquet", x=[0.5, None])
    assert rows_of("E", nulls="drop") == [(0.5,), (1.5,)]
    with pytest.raises(DataError, match=r"E/2.parquet: row 1, column 'x': a value is missing"):
        read_table("E", LoadOptions(nulls="error"))
    write("E/2.parquet", x=["two"])
    with pytest.raises(DataError, match=r"E/2.parquet: row 0, .*expected float, found .*'two'"):
        read_table("E")
    write("E/2.parquet", y=[1.0], z=[2])
    with pytest.raises(DataError, match=r"E/2.parquet: .*\n  hint: the first file, .* x: float"):
        read_table("E")


def test_folders_that_are_called_as_a_column() -> None:
    for year, place in [(2025, "a"), (2026, "b%2Fc")]:
        write(f"E/year={year}/place={place}/0.parquet", x=[year % 10])
    table = read_table("E")
    assert table.names == ("x", "year", "place") and table.types == ("int", "int", "symbol")
    assert rows_of("E") == [(5, 2025, "a"), (6, 2026, "b/c")]
    assert rows_of("E/year=202?", columns=["year"]) == [(2025,), (2026,)]
    assert rows_of("E", declared=decl(place="symbol", x="int"))[0] == ("a", 5)
    write("E/0.parquet", x=[1])
    with pytest.raises(DataError, match=r"name other columns than those of E/0\.parquet"):
        read_table("E")
    os.remove("E/0.parquet")
    write("E/year=__HIVE_DEFAULT_PARTITION__/place=a/0.parquet", x=[1])
    with pytest.raises(DataError, match="a value of the column 'year' is missing"):
        read_table("E")
    write("F/x=1/0.parquet", x=[1])
    with pytest.raises(DataError, match="the column 'x' is in the file, and in its folder's name"):
        read_table("F")


def test_what_is_no_set_of_files() -> None:
    for path, told in [
        ("no/*.parquet", "no file has such a name"),
        ("empty", "no Parquet file is in this folder"),
        ("delta", "this is a table of Delta, whose log says which of its files count"),
    ]:
        os.makedirs("empty", exist_ok=True)
        os.makedirs("delta/_delta_log", exist_ok=True)
        with pytest.raises(DataError, match=told):
            read_table(path)


def test_an_index_without_a_name_is_no_column() -> None:
    frame = pd.DataFrame({"x": [3, 4]}, index=[7, 9])
    os.mkdir("E")
    frame.to_parquet("E/part.0.parquet")
    frame.rename_axis("__null_dask_index__").to_parquet("E/part.1.parquet")
    assert rows_of("E/part.0.parquet") == [(3,), (4,)] and rows_of("E") == [(3,)] * 2 + [(4,)] * 2
    frame.rename_axis("id").to_parquet("named.parquet")
    assert rows_of("named.parquet") == [(3, 7), (4, 9)]


def test_a_database_reads_sets_of_files() -> None:
    write("E/0.parquet", x=[1, 2], y=[2, 3])
    write("E/1.parquet", x=[2], y=[3])
    with gd.connect() as db:
        db.load("E", "E")
        db["F"] = "E/*.parquet"
        assert len(db["E"]) == len(db["F"]) == 2
        text = '.input G("E/*.parquet").\n?- G(x, y), x > 1.'
        assert db.query(text).fetchall() == [(2, 3)]
        write("E/2.parquet", x=[5], y=[5])
        assert len(db.query(text)) == 2  # the files are not those that were read


def test_files_that_a_pattern_reaches_are_checked() -> None:
    write("in/E/0.parquet", x=[1])
    write("out/E/0.parquet", x=[1])
    with gd.connect(files="in") as db:
        db["E"] = "in/*"
        os.symlink(os.path.abspath("out/E"), "in/F")
        with pytest.raises(UsageError, match="may read files in 'in' only"):
            db["E"] = "in/*"
        with pytest.raises(UsageError, match="may read files in 'in' only"):
            db.query('.input G("in/*").\n?- G(x).')


def test_a_dask_frame_is_computed_where_there_is_no_cluster() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"x": [1, 2, 3], "s": ["a", "b", "a"]})
    with gd.connect() as db:
        db["E"] = dd.from_pandas(frame, npartitions=2)
        assert sorted(db["E"].fetchall()) == [(1, "a"), (2, "b"), (3, "a")]
