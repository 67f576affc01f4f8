"""Columns that no rule reads are not kept, where a program runs to its end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from test_cutting import compiled as compiled
from test_cutting import kernels as kernels

from gdatalog.engine.facts import inputs
from gdatalog.shell.cli import run

DECLARED = """
.decl e(a: symbol, b: number, c: symbol, d: float)
.input e
"""
RULES = {
    "r(x) <- e(x, _, _, _).": (0,),
    "r(x, y) <- e(x, y, _, _), y > 2.": (0, 1),
    "r(x) <- e(x, y, _, _), e(_, y, _, _).": (0, 1),
    'r(x) <- e(x, _, "t1", _).': (0, 2),
    "r(x) <- e(x, 3, x, _).": (0, 1, 2),
    "r(1) <- e(_, _, _, _).": (0,),
    "r(x) <- e(x, _, _, d), d > 1.0.": (0, 3),
    "q(x) <- e(_, _, x, _). r(x) <- e(x, _, _, _), !q(x).": (0, 2),
    'r(x) <- e(x, _, _, _), !e(_, 4, "t2", _).': (0, 1, 2),
    "r(x, count()) <- e(x, y, _, _).": None,
    "r(x, n) <- e(x, _, _, _), n = count : { e(x, _, _, _) }.": None,
    "r(x, n) <- e(x, _, _, _), n = sum b : { e(x, b, _, _) }.": None,
    "r(x, y) <- e(x, y, z, w), z != x, w < 3.0.": None,
    "r(x) <- (e(x, _, _, _) ; e(_, _, x, _)).": (0, 2),
    "r(x) <- e(x, _, _, _). r(y) <- r(x), e(x, _, y, _).": (0, 2),
}


def write(folder: Path, text: str) -> list[str]:
    rng = random.Random(7)
    lines = (
        f"t{rng.randrange(6)}\t{rng.randrange(9)}\tt{rng.randrange(6)}\t{rng.randrange(9) / 2}\n"
        for _ in range(300)
    )
    (folder / "e.facts").write_text("".join(lines))
    (folder / "p.dl").write_text(f"{DECLARED}\n{text}\n.output r\n")
    return ["-F", str(folder), "-D", str(folder), str(folder / "p.dl")]


@pytest.mark.parametrize(("text", "read"), RULES.items())
def test_the_columns_that_rules_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, read: tuple[int, ...] | None
) -> None:
    tables: list[Any] = []
    read_relation = inputs.read_relation

    def read_tables(*given: Any) -> Any:
        for table in read_relation(*given):
            tables.append(table)
            yield table

    monkeypatch.setattr(inputs, "read_relation", read_tables)
    args = write(tmp_path, text)
    assert run(args) == 0
    found = sorted((tmp_path / "r.csv").read_text().splitlines())
    assert tables[-1].names == tuple("abcd"[at] for at in (range(4) if read is None else read))
    monkeypatch.setattr("gdatalog.engine.execution.columns_read", lambda checked, names: {})
    assert run(args) == 0
    assert sorted((tmp_path / "r.csv").read_text().splitlines()) == found
    assert tables[-1].names == tuple("abcd")


@pytest.mark.parametrize(
    "more", [".printsize e", ".output e", "?- e(x, y, _, _).", 'e("t9", 1, "t9", 1.0).']
)
def test_what_is_asked_for_has_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    tables: list[Any] = []
    read_relation = inputs.read_relation

    def read_tables(*given: Any) -> Any:
        for table in read_relation(*given):
            tables.append(table)
            yield table

    monkeypatch.setattr(inputs, "read_relation", read_tables)
    assert run(write(tmp_path, f"r(x) <- e(x, _, _, _).\n{more}")) == 0
    assert tables[-1].names == tuple("abcd")


@pytest.mark.parametrize("line", ["t1\tx\tt2\t1.0", "t1\t1\tt2\tx", "t1\t1\tt2"])
def test_errors_in_such_columns_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    args = write(tmp_path, "r(x) <- e(x, _, _, _).")
    with (tmp_path / "e.facts").open("a") as file:
        file.write(line + "\n")
    assert run(args) == 1
    assert "e.facts" in capsys.readouterr().err


PLAIN = """
.decl e(a: symbol, b: number, c: symbol)
.input e
r(x) <- e(x, _, _).
.output r
"""


@pytest.mark.parametrize("cell", ["5", "five"])
def test_compiled_cutting_leaves_texts_out(
    tmp_path: Path, compiled: None, capsys: pytest.CaptureFixture[str], cell: str
) -> None:
    (tmp_path / "e.facts").write_text(f"a\t1\tb\nc\t{cell}\td\n")
    (tmp_path / "p.dl").write_text(PLAIN)
    code = run(["-F", str(tmp_path), "-D", str(tmp_path), str(tmp_path / "p.dl")])
    assert code == (0 if cell == "5" else 1)
    if code:
        assert "'five'" in capsys.readouterr().err
    else:
        assert sorted((tmp_path / "r.csv").read_text().split()) == ["a", "c"]
