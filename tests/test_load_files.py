"""Files become tables, or errors that name file, line, column and value; never anything else."""

from __future__ import annotations

import gzip
import json
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gdatalog.errors import DataError, Error, UsageError
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.readers import read_facts, read_input, read_table
from gdatalog.storage.table import DTYPES, Table, Texts
from gdatalog.storage.writers import write_table

FUZZ = int(os.environ.get("GDATALOG_FUZZ", "300"))


@dataclass
class Decl:
    columns: tuple[str, ...]
    types: tuple[Any, ...]


def decl(**columns: str) -> Decl:
    return Decl(tuple(columns), tuple(columns.values()))


E = decl(src="int", dst="int")
S = decl(src="symbol", dst="symbol")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def read(
    content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any
) -> Table:
    return read_table(put(name, content), declared=declared, **o)


def rows(content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any) -> Any:
    return to_rows(read(content, declared, name, **o))


def refused(
    content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any
) -> str:
    with pytest.raises(DataError) as caught:
        read(content, declared, name, **o)
    return str(caught.value)


def facts(content: str | bytes, declared: Decl, name: str = "e.facts") -> Any:
    put(name, content)
    return to_rows(read_facts("e", ".", declared))


def facts_refused(content: str | bytes, declared: Decl, name: str = "e.facts") -> str:
    with pytest.raises(DataError) as caught:
        facts(content, declared, name)
    return str(caught.value)


# ---------------------------------------------------------------- CSV as declared


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1,2\r\n3,4\r\n",
        "1,2\r3,4\r",
        "\ufeff1,2\n3,4\n",
        "src,dst\n1,2\n3,4\n",
        "\ufeffsrc,dst\r\n1,2\r\n3,4\r\n\r\n",
        "dst,src\n2,1\n4,3\n",
        "w,dst,src\n0,2,1\n0,4,3\n",
        " src , dst \n1,2\n3,4\n",
        "from,to\n1,2\n3,4\n",
        "src;dst\n1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "1|2\n3|4\n",
        '"1","2"\n"3",4\n',
        '"src","dst"\n1,2\n3,4\n',
        "\n1,2\n\n3,4\n\n\n",
        " 1, +2\n3 ,0x4\n",
    ],
)
def test_csv_of_two_ints(text: str) -> None:
    assert rows(text, E) == [(1, 2), (3, 4)]


def test_only_names_that_are_all_there_make_a_header_of_symbols() -> None:
    assert rows("src,dst\na,b\n", S) == [("a", "b")]
    assert rows("src,other\na,b\n", S) == [("src", "other"), ("a", "b")]
    assert rows("src,other\na,b\n", S, header=True) == [("a", "b")]
    assert rows("src,dst\na,b\n", S, header=False) == [("src", "dst"), ("a", "b")]


def test_quoted_values() -> None:
    text = 'a,"x\ny"\nb,"say ""hi"""\n"",5" disk\n'
    assert rows(text, S) == [("a", "x\ny"), ("b", 'say "hi"'), ("", '5" disk')]
    assert rows('a,"b\n', S, quoting=False) == [("a", '"b')]


def test_symbols_are_verbatim() -> None:
    assert rows(" a ,NA\nnull,\n", S) == [(" a ", "NA"), ("null", "")]


def test_long_values_need_large_blocks() -> None:
    long = "x" * 3_000_000
    assert rows(f"a,b\n{long},c\n", S) == [("a", "b"), (long, "c")]


def test_all_types() -> None:
    declared = decl(i="int", f="float", s="symbol", b="bool", t="timestamp")
    table = read("7,2.5,x,true,2026-11-20\n-7,3,y,False,2026-11-20T08:30:00.5\n", declared)
    assert table.types == declared.types
    assert [column.tolist() for column in table.columns if not isinstance(column, Texts)] == [
        [7, -7],
        [2.5, 3.0],
        [True, False],
        [1795132800000000000, 1795163400500000000],
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "0b101", 5),
        ("int", "0xff", 255),
        ("int", "-9223372036854775808", -(2**63)),
        ("float", " 1e3 ", 1000.0),
        ("float", "-.5", -0.5),
        ("float", "-inf", float("-inf")),
        ("float", "Infinity", float("inf")),
        ("float", "-0.0", 0.0),
        ("bool", "TRUE", True),
        ("timestamp", "1970-01-01T00:00:00.000000001", 1),
        ("timestamp", "1970-01-01T01:00:00+01:00", 0),
        ("timestamp", "1970-01-01 00:00", 0),
    ],
)
def test_cells(kind: str, text: str, value: Any) -> None:
    found = read(f"x\n{text}\n", decl(x=kind)).columns[0]
    assert found.tolist() == [value]
    assert str(found.tolist()[0]) == str(value)


def test_empty_files() -> None:
    assert rows("", E) == []
    assert rows("\n\r\n", E) == []
    assert read("src,dst\n", E).types == ("int", "int")
    assert read("src,dst\n").names == ("src", "dst")
    assert refused("") == (
        "data error: e.csv: the file is empty, so the number of columns is not known\n"
        "  hint: declare the relation; then an empty file is an empty relation"
    )


# ---------------------------------------------------------------- CSV that is wrong

TOO_BIG = "convert the column to text if it is an identifier, to float if it is a quantity"


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        ("1,2\n3,abc\n", E, "e.csv:2: column 2 'dst': expected int, found 'abc'"),
        ("src,dst\r\n1,2\r\n,4\r\n", E, "e.csv:3: column 1 'src': expected int, found ''"),
        ("\n\n1,2\n\n3,4.5\n", E, "e.csv:5: column 2 'dst': expected int, found '4.5'"),
        ("dst,src\n1,2\n3,x\n", E, "e.csv:3: column 2 'src': expected int, found 'x'"),
        ('"1\n",2\n3,x\n', E, "e.csv:3: column 2 'dst': expected int, found 'x'"),
        (
            f"1,{10**30}\n",
            E,
            f"e.csv:1: column 2 'dst': {10**30} does not fit into 64 bits\n  hint: {TOO_BIG}",
        ),
        (
            "x\n1\n0xffffffffffffffff\n",
            decl(x="int"),
            "e.csv:3: column 1 'x': expected int, found '0xffffffffffffffff'",
        ),
        (
            "x\n1.5\nnan\n",
            decl(x="float"),
            "e.csv:3: column 1 'x': expected float, found 'nan'\n  hint: a NaN is not a value",
        ),
        ("x\n1e400\n", decl(x="float"), "e.csv:2: column 1 'x': expected float, found '1e400'"),
        (
            "x\ntrue\ntrue\nyes\n",
            decl(x="bool"),
            "e.csv:4: column 1 'x': expected bool, found 'yes'\n"
            "  hint: a bool is written true or false",
        ),
        (
            "x\n2026-11-20\n2026-11-20T08\n",
            decl(x="timestamp"),
            "e.csv:3: column 1 'x': expected timestamp, found '2026-11-20T08'\n"
            "  hint: a timestamp is written 2026-11-20 or 2026-11-20T08:30:00.5",
        ),
        (
            "1,2\n3\n",
            E,
            "e.csv:2: expected 2 columns, found 1: '3'\n"
            "  hint: columns are separated by commas here",
        ),
        (
            "1,2\n3,4,5\n",
            E,
            "e.csv:2: expected 2 columns, found 3: '3,4,5'\n"
            "  hint: columns are separated by commas here",
        ),
        (
            "1,2\n3;4\n",
            E,
            "e.csv:2: expected 2 columns, found 1: '3;4'\n"
            "  hint: columns are separated by commas here; this line has semicolons: say so, "
            "delimiter=';'",
        ),
        (
            "a,b,c\n1,2,3\n",
            E,
            "e.csv:1: expected 2 columns, found 3: 'a,b,c'\n"
            "  hint: columns are separated by commas here",
        ),
        (
            'a,b\nc,"oops\nd,e\n',
            S,
            "e.csv:2: a quote is opened here and never closed: 'c,\"oops\\nd,e'\n"
            '  hint: a quote inside a quoted value is doubled: "say ""hi"""',
        ),
        (
            b"a,b\nc,\xff\n",
            S,
            "e.csv:2: the byte 0xff is not UTF-8\n  hint: save the file as UTF-8",
        ),
        (
            "a,b\n".encode("utf-16"),
            S,
            "e.csv: the text is UTF-16\n  hint: save it as UTF-8",
        ),
        (
            "x\n",
            decl(),
            "e.csv:1: expected (), found 'x'\n"
            "  hint: a relation without columns is true if its file holds (), false if empty",
        ),
    ],
)
def test_bad_csv(text: str | bytes, declared: Decl, message: str) -> None:
    assert refused(text, declared) == f"data error: {message}"


def test_the_line_of_a_bad_row_in_a_large_file() -> None:
    good = "".join(f"{i},{i}\n" for i in range(200_000))
    assert refused(good + "1,x\n", E) == (
        "data error: e.csv:200001: column 2 'dst': expected int, found 'x'"
    )
    assert refused(good + "1\n" + good, E) == (
        "data error: e.csv:200001: expected 2 columns, found 1: '1'\n"
        "  hint: columns are separated by commas here"
    )
    assert rows(good + " 1,2\n", E)[-1] == (1, 2)


def test_options_that_make_no_sense() -> None:
    with pytest.raises(UsageError) as caught:
        read("1,2", E, delimiter=",,")
    assert str(caught.value) == (
        "usage error: a delimiter is one ASCII character, found ',,'\n"
        '  hint: "," or "\\t", for instance'
    )
    with pytest.raises(UsageError) as caught:
        read("[]", E, name="e.json", header=True)
    assert str(caught.value) == (
        "usage error: e.json: delimiter, header and quoting have no meaning for json"
    )
    with pytest.raises(UsageError) as caught:
        read("[]", E, format="xml")
    assert str(caught.value) == (
        "usage error: there is no format 'xml'\n"
        "  hint: formats are arrow, csv, facts, json, jsonl, parquet, tsv"
    )
    with pytest.raises(UsageError) as caught:
        read("[]", E, name="e.xml")
    assert str(caught.value) == (
        "usage error: e.xml: the name does not tell the format\n"
        "  hint: known are .csv .tsv .txt .facts .parquet .pq .arrow .feather .ipc .json .jsonl "
        ".ndjson, each also as .gz or .zst; or say format=..."
    )


# ---------------------------------------------------------------- CSV undeclared


@pytest.mark.parametrize(
    ("text", "names", "types"),
    [
        ("1,2\n3,4\n", ("column0", "column1"), ("int", "int")),
        ("a,b\n1,x\n", ("a", "b"), ("int", "symbol")),
        ("name,city\nann,rome\n", ("name", "city"), ("symbol", "symbol")),
        ("ann,bob\nbob,cid\n", ("column0", "column1"), ("symbol", "symbol")),
        ("a,a\n1,2\n", ("column0", "column1"), ("symbol", "symbol")),
        ("id,zip\n1,00123\n2,94105\n", ("id", "zip"), ("int", "symbol")),
        ("a,b\n0x1f,-07.5\n0,1\n", ("a", "b"), ("symbol", "symbol")),
        ("a,b\n1,true\n2.5,FALSE\n", ("a", "b"), ("float", "bool")),
        ("a,b\n2026-11-20,inf\n2026-11-20T08:30Z,1\n", ("a", "b"), ("timestamp", "float")),
        ("a\n1\n2x\n", ("a",), ("symbol",)),
        ("a,b\n1,\n2,\n", ("a", "b"), ("int", "symbol")),
        ("a\n 1 \n2\n", ("a",), ("int",)),
        ("a;b\n1;2,5\n", ("a", "b"), ("int", "symbol")),
        ("a|b\n1|2\n", ("a", "b"), ("int", "int")),
    ],
)
def test_sniffing(text: str, names: tuple[str, ...], types: tuple[str, ...]) -> None:
    table = read(text)
    assert (table.names, table.types) == (names, types)


def test_a_late_cell_decides() -> None:
    many = "x\n" + "1\n" * 1000
    assert read(many + "2.5\n").types == ("float",)
    assert read(many + "abc\n").types == ("symbol",)
    assert read("x\n" + "\n".join(["NA"] * 200) + "\nabc\n").types == ("symbol",)
    assert refused(many + "NA\n") == (
        "data error: e.csv:1002: column 1 'x': found 'NA' in a column of type int\n"
        "  hint: give it a value, or declare the column symbol"
    )
    assert refused(many + f"{2**64}\n") == (
        f"data error: e.csv:1002: column 1 'x': {2**64} does not fit into 64 bits\n"
        f"  hint: {TOO_BIG}"
    )


def test_columns_and_paths_as_data() -> None:
    put("e.csv", "a,b\n1,x\n")
    assert to_rows(table_from("e.csv", columns=["b"])) == [("x",)]
    assert to_rows(table_from(Path("e.csv"), declared=decl(p="int", q="symbol"))) == [(1, "x")]
    assert refused("a,b\n1,2\n", columns=["c"]) == (
        "data error: e.csv: columns asks for 1 column (c), the data has 2 columns (a, b)"
    )


def test_tsv_has_tabs() -> None:
    assert rows("a,b\tc\n", name="e.tsv", header=False) == [("a,b", "c")]
    assert rows("src\tdst\n1\t2\n", E, name="e.tsv") == [(1, 2)]


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
        ("1\tx\n", "e.facts:1: column 2 'dst': expected int, found 'x'"),
        (
            "1,2\n",
            "e.facts:1: expected 2 columns, found 1: '1,2'\n"
            "  hint: columns are separated by tabs here; this line has commas: say so, "
            "delimiter=','",
        ),
        (
            '1\t"2\t3"\n',
            "e.facts:1: expected 2 columns, found 3: '1\\t\"2\\t3\"'\n"
            "  hint: columns are separated by tabs here, and quotes mean nothing in a facts file",
        ),
    ],
)
def test_bad_facts(text: str, message: str) -> None:
    assert facts_refused(text, E) == f"data error: {message}"


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
        ("e.json", "[1,\n2", "e.json:2:2: not JSON: Expecting ',' delimiter"),
        ("e.jsonl", "[1]\n\n[2\n", "e.jsonl:3:3: not JSON: Expecting ',' delimiter"),
        ("e.json", "[" * 100_000, "e.json:1: cannot be read: too deeply nested"),
        (
            "e.json",
            '{"a": 1}',
            "e.json: expected a list of records or rows, found {'a': 1}\n"
            '  hint: such as [{"src": 1, "dst": 2}] or [[1, 2]]',
        ),
        (
            "e.jsonl",
            '{"a": 1}\n\n{"a": null}',
            "e.jsonl:3: column 'a': a value is missing (None)\n"
            "  hint: drop such rows first, .dropna(), or fill them, .fillna(...)",
        ),
        (
            "e.json",
            '[{"a": 1}, {"a": [2]}]',
            "e.json: row 1, column 'a': cannot store [2], a list\n"
            "  hint: a value is an int, a float, a string, a bool or a time",
        ),
        (
            "e.json",
            '["\\ud800"]',
            "e.json: row 0, column 'column0': '\\ud800' holds half a surrogate pair",
        ),
        (
            "e.json",
            '[{"\\ud800": 1}]',
            "e.json: the column name '\\ud800' holds half a surrogate pair",
        ),
    ],
)
def test_bad_json(name: str, text: str, message: str) -> None:
    assert refused(text, name=name) == f"data error: {message}"


def test_bad_json_text() -> None:
    assert refused(b'["\xff"]', name="e.json") == (
        "data error: e.json:1: the byte 0xff is not UTF-8\n  hint: save the file as UTF-8"
    )
    assert refused('["yesterday"]', decl(x="timestamp"), name="e.json") == (
        "data error: e.json: row 0, column 'x': expected timestamp, found 'yesterday'"
    )
    assert refused("[1" + "0" * 5000 + "]", name="e.json").startswith(
        "data error: e.json:1: cannot be read: Exceeds the limit (4300 digits)"
    )


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
    assert to_rows(read_table("e.ipc", columns=["dst"])) == [(2,)]
    Path("e.feather.gz").write_bytes(gzip.compress(Path("e.arrow").read_bytes()))
    assert to_rows(read_table("e.feather.gz", declared=E)) == [(1, 2)]


def test_parquet_of_other_types() -> None:
    pd.DataFrame({"src": [1, 2], "dst": [1.0, 2.0]}).to_parquet("e.parquet")
    with pytest.raises(DataError) as caught:
        read_table("e.parquet", declared=E)
    assert str(caught.value) == (
        "data error: e.parquet: row 0, column 'dst': expected int, found the float 1.0\n"
        '  hint: convert the data, .astype("int64"), or declare the column float'
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
        ("nope/e.csv", "there is no such file\n  hint: there is no folder 'nope' either"),
        ("edges.csv/e.csv", "there is no such file\n  hint: there is no folder 'edges.csv' either"),
        (
            "folder.csv",
            "this is a folder, not a file\n  hint: name a file in it, or join its files first",
        ),
        ("a\0.csv", "cannot be read: embedded null byte"),
    ]:
        with pytest.raises(DataError) as caught:
            read_table(name)
        assert str(caught.value) == f"data error: {name}: {message}"


# ---------------------------------------------------------------- mutated files

SEEDS: dict[str, bytes] = {
    "e.csv": b'src,dst,name\n1,2,"a, ""b"""\n-3,4,\xc3\xa9t\xc3\xa9\n5,6,"two\nlines"\n',
    "e.tsv": b"1\t2.5\ttrue\n3\t1e-9\tfalse\n4\tinf\ttrue\n",
    "e.facts": b"1\t2\n3\t4\n-5\t6\n70\t8\n",
    "e.json": b'[{"a": 1, "b": "x", "c": 2.5}, {"a": -2, "b": "\\u00e9", "c": 1e3}]',
    "e.jsonl": b'[1, "a", true]\n[2, "b", false]\n[3, "\\n", true]\n',
}


def _seed(name: str) -> bytes:
    """A valid file of this name."""
    plain = name.removesuffix(".gz").removesuffix(".zst")
    if plain in SEEDS and plain == name:
        return SEEDS[name]
    frame = pd.DataFrame({"a": range(50), "b": [f"t{i % 7}" for i in range(50)], "c": 0.5})
    write_table(table_from(frame), name)
    return Path(name).read_bytes()


def _mutated(data: bytes, random_: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 5, 20))):
        at = random_.randrange(len(result) + 1)
        action = random_.randrange(5)
        if action == 0 and at < len(result):
            result[at] ^= 1 << random_.randrange(8)
        elif action == 1 and at < len(result):
            result[at] = random_.choice(b'\0\n\r\t",;\\[]{}\xff\xfe019-.')
        elif action == 2:
            del result[at : at + random_.randrange(1, 8)]
        elif action == 3:
            result[at:at] = result[at : at + random_.randrange(1, 30)]
        else:
            result[at:at] = bytes([random_.choice(b'"\n\t,\r\0ab1\xc3\x80')])
    return bytes(result)


@pytest.mark.parametrize(
    "name",
    [*SEEDS, "e.parquet", "e.arrow", "e.csv.gz", "e.json.zst"],
)
def test_mutated_files_are_tables_or_errors(name: str) -> None:
    seed = _seed(name)
    random_ = random.Random(name)
    declarations = [None, decl(a="int", b="symbol", c="float"), E, decl(x="symbol"), decl()]
    outcomes = set()
    for _ in range(max(1, FUZZ // 9)):
        Path(name).write_bytes(_mutated(seed, random_))
        declared = random_.choice(declarations)
        try:
            table = read_table(name, declared=declared)
        except Error as error:
            assert str(error)
            outcomes.add("error")
            continue
        outcomes.add("table")
        assert declared is None or table.types == declared.types
        assert len(to_rows(table)) == table.length
        for kind, column in zip(table.types, table.columns, strict=True):
            assert len(column) == table.length
            assert isinstance(column, Texts) if kind == "symbol" else column.dtype == DTYPES[kind]
    assert "error" in outcomes
