"""Whether the first line of a text file is a header: the rule, and who is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from loading import E, S, decl, put, read, refused, rows

import gdatalog as gd
from gdatalog.errors import UsageError
from gdatalog.storage import Findings


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
]


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
