"""CSV files become tables, or errors that name file, line, column and value.

Long, for every way to be wrong is shown with its whole message.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loading import Decl, E, S, decl, put, read, read_table, refused, rows

from gdatalog.errors import UsageError
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.table import TextColumn

TOO_BIG = "convert the column to text if it is an identifier, to float if it is a quantity"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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


@pytest.mark.parametrize("ending", ["csv", "tsv", "facts", "json", "jsonl", "parquet", "arrow"])
def test_a_proposition_that_was_written_is_read_back(ending: str) -> None:
    import gdatalog as gd

    gd.connect().run(f'e(). .output e("e.{ending}")')
    db = gd.connect()
    db.load("e", f"e.{ending}")
    assert db.query("?- e().")
    assert gd.connect().query(f'.decl e() .input e("e.{ending}") ?- e().')


def test_only_names_that_are_all_there_make_a_header_of_symbols() -> None:
    assert rows("src,dst\na,b\n", S) == [("a", "b")]
    assert rows("from,to\na,b\n", S) == [("from", "to"), ("a", "b")]
    assert rows("from,to\na,b\n", S, header=True) == [("a", "b")]
    assert rows("src,other\na,b\n", S, header=False) == [("src", "other"), ("a", "b")]
    assert rows("src,dst\na,b\n", S, header=False) == [("src", "dst"), ("a", "b")]


def test_names_in_another_case_make_a_header() -> None:
    assert rows("SRC,Dst\na,b\n", S) == [("a", "b")]
    assert rows("DST,w,SRC\nb,7,a\n", S) == [("a", "b")]
    assert rows("SRC,Dst\na,b\n", S, header=False) == [("SRC", "Dst"), ("a", "b")]


def test_one_declared_column_needs_no_delimiter() -> None:
    assert rows("a;b\nc\n", decl(x="symbol")) == [("a;b",), ("c",)]
    assert rows("src;dst\n1;2\n", decl(dst="int")) == [(2,)]


def test_quoted_values() -> None:
    text = 'a,"x\ny"\nb,"say ""hi"""\n"",5" disk\n'
    assert rows(text, S) == [("a", "x\ny"), ("b", 'say "hi"'), ("", '5" disk')]
    assert rows('a\t"b\n', S, "e.facts") == [("a", '"b')]


def test_symbols_are_verbatim() -> None:
    assert rows(" a ,NA\nnull,\n", S) == [(" a ", "NA"), ("null", "")]


def test_long_values_need_large_blocks() -> None:
    long = "x" * 3_000_000
    assert rows(f"a,b\n{long},c\n", S) == [("a", "b"), (long, "c")]
    assert rows(f'"{long}",c\n', S) == [(long, "c")]


def test_all_types() -> None:
    declared = decl(i="int", f="float", s="symbol", b="bool", t="timestamp")
    table = read("7,2.5,x,true,2026-11-20\n-7,3,y,False,2026-11-20T08:30:00.5\n", declared)
    assert table.types == declared.types
    assert [column.tolist() for column in table.columns if not isinstance(column, TextColumn)] == [
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


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        ("1,2\n3,abc\n", E, "e.csv:2:3: data error: column 2 'dst': expected int, found 'abc'"),
        (
            "src,dst\r\n1,2\r\n,4\r\n",
            E,
            "e.csv:3:1: data error: column 1 'src': expected int, found ''\n"
            "  note: values are missing: `src` in 1 row; 1 of 2 rows would be dropped\n"
            '  hint: columns=["dst"] loads the other columns; declare it src: int? '
            'to keep nulls; nulls="drop" drops these rows; fill={"src": ...} fills them',
        ),
        (
            "\n\n1,2\n\n3,4.5\n",
            E,
            "e.csv:5:3: data error: column 2 'dst': expected int, found '4.5'\n"
            "  hint: declare the column float if it holds fractions",
        ),
        (
            "dst,src\n1,2\n3,x\n",
            E,
            "e.csv:3:3: data error: column 2 'src': expected int, found 'x'",
        ),
        ('"1\n",2\n3,x\n', E, "e.csv:3:3: data error: column 2 'dst': expected int, found 'x'"),
        (
            f"1,{10**30}\n",
            E,
            f"e.csv:1:3: data error: column 2 'dst': {10**30} does not fit into 64 bits\n"
            f"  hint: {TOO_BIG}",
        ),
        (
            "x\n1\n0xffffffffffffffff\n",
            decl(x="int"),
            "e.csv:3:1: data error: column 1 'x': expected int, found '0xffffffffffffffff'",
        ),
        (
            "x\n1.5\nnan\n",
            decl(x="float"),
            "e.csv:3:1: data error: column 1 'x': expected float, found 'nan'\n"
            "  note: values are missing: `x` in 1 row; 1 of 2 rows would be dropped\n"
            '  hint: null="nan" keeps cells with this word as nulls; declare it x: float? to keep '
            'nulls; nulls="drop" drops these rows; fill={"x": ...} fills them',
        ),
        (
            "x\n1e400\n",
            decl(x="float"),
            "e.csv:2:1: data error: column 1 'x': expected float, found '1e400'",
        ),
        (
            "x\ntrue\ntrue\nyes\n",
            decl(x="bool"),
            "e.csv:4:1: data error: column 1 'x': expected bool, found 'yes'\n"
            "  hint: a bool is written true or false; as it is, the column is symbol",
        ),
        (
            "x\n2026-11-20\n2026-11-20T08\n",
            decl(x="timestamp"),
            "e.csv:3:1: data error: column 1 'x': expected timestamp, found '2026-11-20T08'\n"
            "  hint: a timestamp is written 2026-11-20 or 2026-11-20T08:30:00.5",
        ),
        (
            "1,2\n3\n",
            E,
            "e.csv:2:1: data error: expected 2 columns, found 1\n"
            "  hint: columns are separated by commas here",
        ),
        (
            "1,2\n3,4,5\n",
            E,
            "e.csv:2:1: data error: expected 2 columns, found 3\n"
            "  hint: columns are separated by commas here; put a value that contains one in "
            "double quotes",
        ),
        (
            "1,2\n3;4\n",
            E,
            "e.csv:2:1: data error: expected 2 columns, found 1\n"
            "  hint: columns are separated by commas here; this line has semicolons: set "
            "delimiter=';'",
        ),
        (
            "a,b,c\n1,2,3\n",
            E,
            "e.csv:1:1: data error: expected 2 columns, found 3\n"
            "  hint: columns are separated by commas here; put a value that contains one in "
            "double quotes",
        ),
        (
            'a,b\nc,"oops\nd,e\n',
            S,
            "e.csv:2:3: data error: a quote is opened here and never closed\n"
            '  hint: a quote inside a quoted value is doubled: "say ""hi"""',
        ),
        (
            b"a,b\nc,\xff\n",
            S,
            "e.csv:2:3: data error: the byte 0xff is not UTF-8\n  hint: save the file as UTF-8",
        ),
        (
            "a,b\n".encode("utf-16"),
            S,
            "data error: e.csv: the text is UTF-16\n  hint: save it as UTF-8",
        ),
        (
            "x\n",
            decl(),
            "e.csv:1:1: data error: expected (), found 'x'\n"
            "  hint: a relation without columns is true if its file has a line, () or a blank one, "
            "and false if the file is empty",
        ),
    ],
)
def test_bad_csv(text: str | bytes, declared: Decl, message: str) -> None:
    assert refused(text, declared) == message


def test_the_line_of_a_bad_row_in_a_large_file() -> None:
    good = "".join(f"{i},{i}\n" for i in range(200_000))
    assert refused(good + "1,x\n", E) == (
        "e.csv:200001:3: data error: column 2 'dst': expected int, found 'x'"
    )
    assert refused(good + "1\n" + good, E) == (
        "e.csv:200001:1: data error: expected 2 columns, found 1\n"
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
        "usage error: e.json: delimiter and header have no meaning for json"
    )
    with pytest.raises(UsageError) as caught:
        read("[]", E, name="e.xml")
    assert str(caught.value) == (
        "usage error: e.xml: the name does not tell the format\n"
        "  hint: known are .csv .tsv .txt .facts .parquet .pq .arrow .feather .ipc .json .jsonl "
        ".ndjson, each also as .gz or .zst"
    )


# ---------------------------------------------------------------- CSV undeclared


@pytest.mark.parametrize(
    ("text", "names", "types"),
    [
        ("1,2\n3,4\n", ("column0", "column1"), ("int", "int")),
        ("a,b\n1,x\n", ("a", "b"), ("int", "symbol")),
        ("name,city\nann,rome\n", ("name", "city"), ("symbol", "symbol")),
        ("ann,bob\nbob,cid\n", ("column0", "column1"), ("symbol", "symbol")),
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
        "e.csv:1002:1: data error: column 1 'x': found 'NA' in a column of type int\n"
        "  note: values are missing: `x` in 1 row; 1 of 1,001 rows would be dropped\n"
        '  hint: null="NA" keeps cells with this word as nulls; nulls="drop" drops these rows; '
        'fill={"x": ...} fills them'
    )
    assert refused(many + f"{2**64}\n") == (
        f"e.csv:1002:1: data error: column 1 'x': {2**64} does not fit into 64 bits\n"
        f"  hint: {TOO_BIG}"
    )


def test_columns_and_paths_as_data() -> None:
    put("e.csv", "a,b\n1,x\n")
    assert to_rows(read_table("e.csv", LoadOptions(["b"]))) == [("x",)]
    assert to_rows(read_table(Path("e.csv"), declared=decl(p="int", q="symbol"))) == [(1, "x")]
    put("bare.csv", "1,x\n2,y\n")
    assert to_rows(read_table("bare.csv", LoadOptions(["column1", "column0"]))) == [
        ("x", 1), ("y", 2)
    ]  # fmt: skip
    assert read_table("bare.csv", LoadOptions(["n", "s"])).types == ("int", "symbol")
    assert refused("a,b\n1,2\n", columns=["c"]) == (
        "e.csv:1:1: data error: columns asks for 1 column (c), the data has 2 columns (a, b)"
    )


def test_tsv_has_tabs() -> None:
    assert rows("a,b\tc\n", name="e.tsv", header=False) == [("a,b", "c")]
    assert rows("src\tdst\n1\t2\n", E, name="e.tsv") == [(1, 2)]
