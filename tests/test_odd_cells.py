"""What is said of a cell that is not of its column's type."""

from __future__ import annotations

from pathlib import Path

import pytest
from loading import decl, refused

from gdatalog.storage.cells import why_unreadable
from gdatalog.values import TypeName

FORM = "a timestamp is written 2026-11-20 or 2026-11-20T08:30:00.5"


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("", "int", None),
        ("NA", "bool", None),
        ("-NaN", "float", "a NaN is not a value"),
        ("2.5", "int", "declare the column float if it holds fractions"),
        ("1e6", "int", "declare the column float if it holds fractions"),
        ("2,5", "int", "declare the column float if it holds fractions"),
        ("2,5", "float", "a decimal point is a dot: 2.5"),
        ("1,234", "int", "write digits together: 1234"),
        ("1 234 567", "int", "write digits together: 1234567"),
        ("1'234", "float", "write digits together: 1234"),
        ("12 km", "int", "write the number alone: 12"),
        ("$9.99", "float", "write the number alone: 9.99"),
        ("45%", "float", "write the number alone: 45"),
        ('"7"', "int", "quotes mean nothing in a facts file: take them away, or read the file "
         "as .csv"),
        ("yes", "bool", "a bool is written true or false; as it is, the column is symbol"),
        ("0", "bool", "a bool is written true or false; as it is, the column is int"),
        ("maybe", "bool", "a bool is written true or false"),
        ("2026/1/9", "timestamp", f"{FORM}: here 2026-01-09"),
        ("9.1.2026", "timestamp", f"{FORM}: the year first, then the month"),
        ("01/09/26 8:30", "timestamp", f"{FORM}: the year first, then the month"),
        ("yesterday", "timestamp", FORM),
        ("abc", "int", None),
        ("abc", "float", None),
    ],
)  # fmt: skip
def test_what_it_probably_is(text: str, kind: TypeName, why: str | None) -> None:
    assert why_unreadable(text, kind) == why


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_a_folder")
def test_other_rows_are_counted() -> None:
    one = "x\n1\na\n2\nb\n"
    assert "another row of this column cannot be read either" in refused(one, decl(x="int"))
    many = "x\n" + "a\n" * 5000
    assert "more than 1,000 other rows of this" in refused(many, decl(x="int"))
    assert "note" not in refused("x\n1\na\n", decl(x="int"))


@pytest.mark.usefixtures("in_a_folder")
def test_the_cell_is_pointed_at_between_quotes() -> None:
    assert refused('x,y\n1,"a, b"\n2,"c ""d"", e"\n', decl(x="symbol", y="int")).startswith(
        "e.csv:2:3: data error: column 2 'y': expected int, found 'a, b'"
    )
    assert refused('x,y\n"c ""d"", e",1\n"f, g",h\n', decl(x="symbol", y="int")).startswith(
        "e.csv:3:8: data error: column 2 'y': expected int, found 'h'"
    )
