"""Whether the first line of a text file is a header: the rule, and who is told."""

from __future__ import annotations

import gzip
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from loading import E, S, decl, put, read, refused, rows

import gdatalog as gd
from gdatalog.errors import DataError, UsageError
from gdatalog.storage import large_files, line_blocks
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import Findings


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


LATE = "x,n\n" + "a,1\n" * 200

CASES: list[tuple[str, Any, bool, bool]] = [  # text, declared, header, guessed
    ("1,2\n3,4\n", None, False, False),
    ("a,b\n1,x\n", None, True, False),
    ("a,b\nNA,x\n2,y\n", None, True, False),
    (",a,b\n0,1,x\n1,2,y\n", None, True, False),  # as pandas writes an index
    ("id,zip\nx,00123\ny,94105\n", None, True, False),
    ("ann,bob\nbob,cid\n", None, False, False),
    ("a,b\n" + "x,y\n" * 300 + "b,z\n", None, False, False),
    ("ann,bob\ncid,dan\n", None, True, True),
    ("name,city\nann,rome\n", None, True, True),
    ("ann,bob\n", None, True, True),
    ("a,a\nb,c\n", None, False, False),
    (LATE, None, True, False),
    (LATE + "b,c\n", None, True, True),
    ("1\n", None, False, False),
    ("src,dst\n1,2\n", E, True, False),
    ("DST,Src,w\n1,2,3\n", E, True, False),
    ("from,to\n1,2\n", E, True, False),
    ("from,to\nNA,2\n3,4\n", E, True, False),
    ("1,2\n", E, False, False),
    ("src,dst\n", S, True, False),
    ("ann,bob\ncid,dan\n", S, False, False),
    ("src,5\nb,6\n", decl(src="symbol", n="int"), False, False),
    ("Order #,n\n1,2\n", None, True, False),
    ("% done,n\nNA,x\n2,y\n", None, True, False),
    ("1st place,00code, Amount (EUR) \n1,2,3\n", None, True, False),
    ("alice,30\nbob,41\n", None, False, False),
    ("5,ann\nb7,bob\n", None, False, False),  # a column of texts may hold a number
    ("1,x\n2.5,y\n", None, False, False),
    ("NA,2\n3,4\n", None, False, False),
    ("Order #,name\nA-1,ann\n", None, False, False),
    ("day,2024-01-01\nmon,5\n", None, True, False),
    ("name,true\nann,5\n", None, True, False),
    ("1999,2001\n5,7\n", None, False, False),
    ("region,2024,2025\nx,1,2\ny,17,20.5\n", None, True, True),
    (",2024,2025\n0,1,2\n1,3,4\n", None, True, True),  # as pandas writes an index
    ("region,2024,2024\nx,1,2\n", None, False, False),
    ("region,2024,2101\nx,1,2\n", None, False, False),
    ("ann,1985,2001\nbob,1990,7\n", None, False, False),
    ("ann,1985\neve,NA\nbob,1990\n", None, False, False),
    ("region,2024,2025\nx,1,-\n", None, False, False),
    ("Order #,n\n1,2\n", E, True, False),
    ("region,2024\nx,1\n", decl(where="symbol", n="int"), True, True),
    ("ann,1985\nbob,1990\n", decl(name="symbol", born="int"), False, False),
    ("2024,2025\n1,2\n", E, False, False),
]

WRONG: list[tuple[str, Any, bool, bool]] = [  # rows and headers that are refused then
    ("99999999999999999999\n5\n", None, False, False),
    ("Order #,src\n1,2\n", decl(src="int", n="int"), True, False),
    ("?,4\n1,2\n", E, False, False),
    (",\n1,2\n", E, False, False),
]

YEARS = "region,2024,2025\nnorth,10,20\nsouth,7,3\n"


@pytest.mark.parametrize(("text", "declared", "header", "guessed"), CASES)
def test_the_rule(
    text: str, declared: Any, header: bool, guessed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gdatalog")
    findings = Findings()
    nulls = "drop" if "NA" in text else "error"
    table = read(text, declared, findings=findings, nulls=nulls)
    lines = text.count("\n") - text.count("NA")
    assert table.length == lines - header and findings.header == header
    assert (findings.guess is not None) == guessed
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"e.csv: the first line is {'the header' if header else 'a row'}: "
    )


@pytest.mark.parametrize("name", ["e.csv", "e.tsv", "e.csv.gz", "e.csv.zst"])
@pytest.mark.parametrize("blocks", [False, True])
def test_all_readers_find_the_same_headers(
    name: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blocks:
        monkeypatch.setattr(large_files, "WHOLE", 1 << 62)
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", 14)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", 14)
    for text, declared, header, guessed in CASES + WRONG:
        lines = text.replace(",", "\t") if name == "e.tsv" else text
        data = lines.encode()
        if name.endswith(".gz"):
            data = gzip.compress(data)
        elif name.endswith(".zst"):
            data = pa.compress(data, codec="zstd", asbytes=True)
        findings = Findings()
        with suppress(DataError):  # a missing value, a number that is too large, a wrong cell
            read(data, declared, name, findings=findings)
        assert (findings.header, findings.guess is not None) == (header, guessed), text


def test_years_are_a_header_with_a_warning() -> None:
    put("sales.csv", YEARS)
    put("more.csv", YEARS)
    with gd.connect() as db:
        with pytest.warns(gd.ProgramWarning) as warned:
            db.load("sales", "sales.csv")
        assert str(warned[0].message) == (
            "warning: sales.csv: the first line, `region,2024,2025`, is taken for the header, for "
            "its numbers are years and those below them are not\n"
            "  hint: header=false takes it for a row, header=true for the header"
        )
        assert db["sales"].columns == ("region", "2024", "2025")
        assert db.query("s(sum(a + b)) <- sales(_, a, b).").fetchall() == [(40,)]
        text = '.decl s(r: symbol, a: int, b: int)\n.input s("sales.csv"{})\n?- s(_, a, b).'
        with pytest.warns(
            gd.ProgramWarning, match="its numbers are years and those below them are not"
        ):
            assert len(db.query(text.format(""))) == 2
        assert len(db.query(text.format(", header=true"))) == 2
        assert len(db.query(text.format(", header=false"))) == 3
        db.load("sales", "sales.csv", columns=["2025", "region"])
        assert sorted(db["sales"]) == [(3, "south"), (20, "north")]
        with pytest.warns(gd.ProgramWarning, match="its numbers are years"):
            db.load("sales", "*e*.csv")
        assert len(db["sales"]) == 2


def test_names_are_kept_as_they_are() -> None:
    text = "Order #,% done,1st place,00code, Amount (EUR) \n1,2,3,4,5\n"
    names = ("Order #", "% done", "1st place", "00code", "Amount (EUR)")
    assert read(text).names == names
    assert rows(text) == [(1, 2, 3, 4, 5)]
    assert rows(text, columns=["00code", " Amount (EUR) ", "order #"]) == [(4, 5, 1)]
    with gd.connect() as db:
        assert db.query('.input e("e.csv", columns="% done, Order #")\n?- e.').fetchall() == [
            (2, 1)
        ]
    table = read("A,B\n1,2\n", columns=["b", "a"])
    assert (table.names, to_rows(table)) == (("b", "a"), [(2, 1)])
    assert "columns asks for 2 columns (b, x), the data has 2 columns (a, b)" in refused(
        "a,b\n1,2\n", columns=["b", "x"]
    )


@pytest.mark.parametrize("said", [True, False])
def test_what_is_said_decides(said: bool) -> None:
    for text in ("1,2\n3,4\n", "ann,bob\ncid,dan\n", "name,city\nann,rome\n", "a,b\nb,a\n"):
        findings = Findings()
        assert read(text, findings=findings, header=said).length == 2 - said
        assert findings.header == said and findings.guess is None


def test_a_name_for_two_columns() -> None:
    assert refused("a,a\n1,2\n") == (
        "e.csv:1:3: data error: two columns are named 'a'\n"
        "  note: e.csv:1:1: the other one is here\n"
        "  hint: rename one; or name all columns, columns=[...]; header=false takes this line for "
        "a row"
    )
    assert "e.csv:1:5: data error: two columns are named 'b'" in refused("a,b,b,b\n1,2,3,4\n")
    assert "two columns are named 'a'" in refused("a,a\nx,y\n", header=True)
    assert read("a,a\n1,2\n", columns=["x", "y"]).names == ("x", "y")
    assert read("a,b,a\n1,2,3\n", columns=["b"]).names == ("b",)
    assert "several columns are named 'a'" in refused("a,b,a\n1,2,3\n", columns=["a"])
    assert rows("a,a\nx,y\n", header=False) == [("a", "a"), ("x", "y")]


def test_names_of_which_some_are_declared() -> None:
    assert refused("dst,source\n1,2\n", E) == (
        "e.csv:1:1: data error: the relation has 2 columns (src: int, dst: int), the data has 2 "
        "columns (dst, source); only some names are the same\n"
        "  hint: there is no column 'src': did you mean 'source'?; header=false takes this line "
        "for a row"
    )
    assert "only some names are the same" in refused("src,other\na,b\n", S)
    assert "the data has 3 columns (dst, w, v)" in refused("dst,w,v\n1,2,3\n", E)
    assert rows("src,other\na,b\n", S, header=False) == [("src", "other"), ("a", "b")]
    assert rows("a,b\n1,2\n", E, columns=["b", "a"]) == [(2, 1)]


def test_header_is_said() -> None:
    put("e.csv", "ann,bob\ncid,dan\n")
    with gd.connect() as db:
        with pytest.warns(gd.ProgramWarning, match="`ann,bob`, is taken for the header"):
            db.load("e", "e.csv")
        assert db["e"].columns == ("ann", "bob")
        db.load("e", "e.csv", header=False)
        assert len(db["e"]) == 2
        text = '.input f("e.csv", header=false)\n?- f(x, y).'
        assert len(db.query(text)) == 2
        form = '.input g(filename="e.csv", delimiter=",", {})\n?- g(x, y).'
        text = f".decl g(a: symbol, b: symbol)\n{form}"
        for how, count in (("header=true", 1), ("headers=true", 1), ("headers=false", 2)):
            assert len(db.query(text.format(how))) == count
        with pytest.raises(UsageError, match=r"header is true or false, found 'yes'"):
            db.query('.input h("e.csv", header=yes)\n?- h(x, y).')
        with pytest.raises(UsageError, match="header is for text files"):
            db.load("e", [(1, 2)], header=True)
        with pytest.raises(UsageError, match="header is True, False or None, found 'no'"):
            db.load("e", "e.csv", header="no")  # type: ignore[arg-type]
        assert len(db["e"]) == 2
