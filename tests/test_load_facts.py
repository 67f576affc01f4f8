"""Facts files and the keyword form of .input are read as Soufflé reads them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loading import E, S, decl, facts, facts_refused, put, read_facts, read_input

from gdatalog.errors import DataError, UsageError
from gdatalog.storage.export import to_rows


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- facts


def test_facts_are_verbatim() -> None:
    text = 'a"b\t c \n\tx\n"q\ty"\r\n'
    assert facts(text, S) == [('a"b', " c "), ("", "x"), ('"q', 'y"')]
    assert facts("src\tdst\n", S) == [("src", "dst")]
    assert facts("1\t2\n\n", E) == [(1, 2)]
    assert facts("\ufeff1\t2\n", E) == [(1, 2)]
    assert facts("", E) == []


def test_facts_of_one_symbol_have_empty_texts() -> None:
    assert facts("\na\n\n", decl(x="symbol")) == [("",), ("a",), ("",)]
    assert facts("\n1\n\n", decl(x="int")) == [(1,)]


def test_propositions() -> None:
    assert facts("()\n", decl()) == [()]
    assert facts("()\n()\n", decl()) == [()]
    assert facts("\n", decl()) == [()]  # as in Soufflé
    assert facts("\r\n", decl()) == [()]
    assert facts("", decl()) == []


def test_where_facts_are_looked_for() -> None:
    put("e.arrow", b"")
    table = pa.table({"dst": [2], "src": [1]})
    pq.write_table(table, "e.parquet")
    assert to_rows(read_facts("e", ".", E)) == [(1, 2)]
    assert facts(gzip.compress(b"1,3\n"), E, "e.csv.gz") == [(1, 3)]
    assert facts("1,4\n", E, "e.csv") == [(1, 4)]
    assert facts("1\t5\n", E, "e.facts") == [(1, 5)]


def test_csv_facts_have_commas_only_without_tabs() -> None:
    assert facts("1,2\n", E, "e.csv") == [(1, 2)]
    assert facts("a,b\tc\n", S, "e.csv") == [("a,b", "c")]
    assert facts('"a",b\n', S, "e.csv") == [('"a"', "b")]
    assert facts("a,b\n", decl(x="symbol"), "e.csv") == [("a,b",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tx\n", "e.facts:1:3: data error: column 2 'dst': expected int, found 'x'"),
        (
            "1,2\n",
            "e.facts:1:1: data error: expected 2 columns, found 1\n"
            "  hint: columns are separated by tabs here; this line has commas: set "
            "delimiter=','",
        ),
        (
            '1\t"2\t3"\n',
            "e.facts:1:1: data error: expected 2 columns, found 3\n"
            "  hint: columns are separated by tabs here, and quotes mean nothing in a facts file",
        ),
    ],
)
def test_bad_facts(text: str, message: str) -> None:
    assert facts_refused(text, E) == message


def test_missing_facts() -> None:
    put("edge.facts", "")
    with pytest.raises(DataError) as caught:
        read_facts("edges", ".", E)
    assert str(caught.value) == (
        "data error: edges.facts: there is no such file, nor edges.csv, edges.parquet or "
        "edges.arrow\n  hint: did you mean 'edge.facts'?"
    )
    with pytest.raises(DataError) as caught:
        read_facts("q", ".", E)
    assert str(caught.value) == (
        "data error: q.facts: there is no such file, nor q.csv, q.parquet or q.arrow\n"
        '  hint: -F names the folder, .input q("path") a file'
    )


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ({"IO": "file", "filename": "k.txt"}, "1\t2\n"),
        ({"filename": "k.txt", "delimiter": ","}, "1,2\n"),
        ({"filename": "k.txt", "delimiter": "\\t", "headers": "true"}, "dst\tsrc\n1\t2\n"),
        ({"filename": "k.txt", "delimiter": ",", "columns": "2:0"}, "2,9,1\n"),
        ({"filename": "k.txt", "rfc4180": "true"}, '"1","2"\n'),
        ({"filename": "k.csv"}, "1,2\n"),
        ({"filename": "k.jsonl"}, "[1, 2]\n"),
        ({"delimiter": " "}, "1 2\n"),
    ],
)
def test_keyword_form(options: dict[str, str], content: str) -> None:
    put(options.get("filename", "e.facts"), content)
    assert to_rows(read_input("e", options, ".", E)) == [(1, 2)]


def test_bad_keyword_forms() -> None:
    put("k.txt", "1\t2\n")
    with pytest.raises(DataError) as caught:
        read_input("e", {"filename": "k.txt", "columns": "0:5"}, ".", E)
    assert str(caught.value) == "data error: k.txt: there is no column 5, the last is 1"
    with pytest.raises(UsageError) as usage:
        read_input("e", {"filename": "k.txt", "columns": "0"}, ".", E)
    assert str(usage.value) == (
        "usage error: e: columns='0' does not name 2 columns of the file\n"
        '  hint: columns="0:2" takes the first and the third, counted from 0'
    )
    with pytest.raises(UsageError) as usage:
        read_input("e", {"IO": "sqlite"}, ".", E)
    assert str(usage.value) == (
        "usage error: e: cannot read from IO=sqlite\n"
        "  hint: IO=file reads a file; other sources are loaded from Python"
    )
