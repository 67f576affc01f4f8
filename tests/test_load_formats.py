"""Parquet, Arrow and JSON files; damaged files and files that are not there."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loading import E, decl, put, read, read_table, refused, rows

from gdatalog.errors import DataError
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.writers import write_table


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- Parquet, Arrow, JSON


@pytest.mark.parametrize("name", ["e.json", "e.jsonl", "e.ndjson"])
def test_json(name: str) -> None:
    lines = name != "e.json"

    def text(*items: Any) -> str:
        return "\n".join(map(json.dumps, items)) if lines else json.dumps(items)

    assert rows(text({"src": 1, "dst": 2}, {"dst": 4, "src": 3}), E, name) == [(1, 2), (3, 4)]
    assert rows(text([1, "a"], [2, "b"]), None, name) == [(1, "a"), (2, "b")]
    assert rows(text(1.5, 2), None, name) == [(1.5,), (2.0,)]
    assert rows(text(1, 2), decl(x="float"), name) == [(1.0,), (2.0,)]
    table = read(text("2026-11-20"), decl(x="timestamp"), name)
    assert table.columns[0].tolist() == [1795132800000000000]
    assert rows(text(), E, name) == []


def test_json_of_columns() -> None:
    assert rows('{"a": [1, 2], "b": ["x", "y"]}', name="e.json") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.json", "[1,\n2", "e.json:2:2: data error: not JSON: Expecting ',' delimiter"),
        ("e.jsonl", "[1]\n\n[2\n", "e.jsonl:3:3: data error: not JSON: Expecting ',' delimiter"),
        ("e.json", "[" * 100_000, "e.json:1:1: data error: cannot be read: too deeply nested"),
        (
            "e.json",
            '{"a": 1}',
            "data error: e.json: expected a list of records or rows, found {'a': 1}\n"
            '  hint: such as [{"src": 1, "dst": 2}] or [[1, 2]]',
        ),
        (
            "e.jsonl",
            '{"a": 1}\n\n{"a": null}',
            "e.jsonl:3:1: data error: column 'a': a value is missing (None)\n"
            "  note: values are missing: `a` in 1 row; 1 of 2 rows would be dropped\n"
            '  hint: nulls="drop" drops these rows; fill={"a": ...} fills them',
        ),
        (
            "e.json",
            '[{"a": 1}, {"a": [2]}]',
            "data error: e.json: row 1, column 'a': cannot store [2], a list\n"
            "  hint: a value is an int, a float, a decimal, a string, a bool, a time or a duration",
        ),
        (
            "e.json",
            '["\\ud800"]',
            "data error: e.json: row 0, column 'column0': '\\ud800' holds half a surrogate pair",
        ),
        (
            "e.json",
            '[{"\\ud800": 1}]',
            "data error: e.json: the column name '\\ud800' holds half a surrogate pair",
        ),
    ],
)
def test_bad_json(name: str, text: str, message: str) -> None:
    assert refused(text, name=name, nulls="error") == message


def test_bad_json_text() -> None:
    assert refused(b'["\xff"]', name="e.json") == (
        "e.json:1:3: data error: the byte 0xff is not UTF-8\n  hint: save the file as UTF-8"
    )
    assert refused('["yesterday"]', decl(x="timestamp"), name="e.json") == (
        "data error: e.json: row 0, column 'x': expected timestamp, found 'yesterday'"
    )
    assert refused("[1" + "0" * 5000 + "]", name="e.json").startswith(
        "e.json:1:1: data error: cannot be read: Exceeds the limit (4300 digits)"
    )


@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_a_file_is_to_be_mended_with_and_without_missing_values(nulls: str) -> None:
    values = ["1", "b"] if nulls == "error" else ["1", None, "b"]
    pq.write_table(pa.table({"x": values}), "e.parquet")
    options = LoadOptions(nulls="drop") if nulls == "drop" else LoadOptions()
    with pytest.raises(DataError, match="correct the file, or declare the column symbol"):
        read_table("e.parquet", options, declared=decl(x="int"))


def test_parquet_and_arrow() -> None:
    table = pa.table({"w": [0.5], "dst": [2], "src": pa.array([1], pa.uint8())})
    pq.write_table(table, "e.parquet")
    assert to_rows(read_table("e.parquet", declared=E)) == [(1, 2)]
    assert read_table("e.parquet").names == ("w", "dst", "src")
    with pa.ipc.new_file("e.arrow", table.schema) as file:
        file.write_table(table)
    assert to_rows(read_table("e.arrow", declared=E)) == [(1, 2)]
    with pa.ipc.new_stream("e.ipc", table.schema) as stream:
        stream.write_table(table)
    assert to_rows(read_table("e.ipc", LoadOptions(["dst"]))) == [(2,)]
    Path("e.feather.gz").write_bytes(gzip.compress(Path("e.arrow").read_bytes()))
    assert to_rows(read_table("e.feather.gz", declared=E)) == [(1, 2)]


def test_parquet_of_other_types() -> None:
    pd.DataFrame({"src": [1, 2], "dst": [1.0, 2.0]}).to_parquet("e.parquet")
    with pytest.raises(DataError) as caught:
        read_table("e.parquet", declared=E)
    assert str(caught.value) == (
        "data error: e.parquet: row 0, column 'dst': expected int, found the float 1.0\n"
        "  hint: correct the file, or declare the column float"
    )


@pytest.mark.parametrize(
    "name", ["e.parquet", "e.arrow", "e.csv.gz", "e.csv.zst", "e.json.gz", "e.facts.zst"]
)
@pytest.mark.parametrize("content", [b"", b"nonsense", b"PAR1nonsensePAR1", b"ARROW1\0\0xx"])
def test_damaged(name: str, content: bytes) -> None:
    if name == "e.csv.gz" and not content:
        return  # which unpacks to nothing
    if name == "e.json.gz" and not content:
        return
    assert refused(content, E, name).startswith(
        f"data error: {name}: the file is damaged or of another format: "
    )


@pytest.mark.parametrize("name", ["e.csv.gz", "e.csv.zst"])
def test_truncated(name: str) -> None:
    table = table_from([(i, i * i) for i in range(10_000)])
    write_table(table, name)
    whole = Path(name).read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 20):
        assert refused(whole[:size], None, name).startswith(
            f"data error: {name}: the file is damaged or of another format: "
        )


def test_files_that_are_not_there() -> None:
    put("edges.csv", "1,2\n")
    os.mkdir("folder.csv")
    for name, message in [
        ("edge.csv", "there is no such file\n  hint: did you mean 'edges.csv'?"),
        ("quite_other.parquet", "there is no such file"),
        ("edge", "there is no such file or folder\n  hint: did you mean 'edges.csv'?"),
        ("nope/", "there is no such file or folder"),
        ("nope/e.csv", "there is no such file\n  hint: there is no folder 'nope' either"),
        ("edges.csv/e.csv", "there is no such file\n  hint: there is no folder 'edges.csv' either"),
        (
            "folder.csv",
            "no Parquet file is in this folder\n"
            '  hint: a pattern names files of other formats: "folder.csv/*.csv"',
        ),
        ("a\0.csv", "cannot be read: embedded null byte"),
    ]:
        with pytest.raises(DataError) as caught:
            read_table(name)
        shown = name.replace("\0", r"\u0000")
        assert str(caught.value) == f"data error: {shown}: {message}"
