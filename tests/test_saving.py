"""`.save` and `.undo`: what was saved comes back as it was, and what was done is undone."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.engine.catalog.folders import Folders
from gdatalog.shell import conversation
from gdatalog.shell.output import Output
from gdatalog.shell.parameters import parameter_text, read_parameters
from gdatalog.shell.repl import Repl
from tests.draw import PROFILES, drawn
from tests.test_engine_oracle import frame

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


class Prompt:
    """A prompt that is fed lines, over a database of its own."""

    def __init__(
        self,
        params: dict[str, Any] | None = None,
        facts: str = ".",
        opened: str | None = None,
    ) -> None:
        self.db = gd.connect(opened)
        self.shown = io.StringIO()
        folders = Folders(facts)
        self.repl = Repl(self.db, Output(self.shown), folders, params, interactive=False)

    def feed(self, *lines: str) -> str:
        """Feeds lines; gives what was answered."""
        at = self.shown.tell()
        for line in lines:
            self.repl.feed(line)
        return self.shown.getvalue()[at:].strip("\n")

    def held(self) -> dict[str, Any]:
        """All relations, or why there is none."""
        found: dict[str, Any] = {}
        for name in self.db.relations:
            try:
                result = self.db[name]
                found[name] = result.dtypes, result.columns, result.sorted().fetchall()
            except gd.Error as error:
                found[name] = error.message
        return found


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_drawn_programs_come_back(profile: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    came_back = 0
    for seed in range(4):
        program = drawn(seed, PROFILES[profile])
        first, second = Prompt(), Prompt()
        for name, (types, rows) in program.data.items():
            first.db[name] = frame(types, rows)
        first.feed(*program.text.splitlines(), ".save out/session.dl")
        second.feed(".read out/session.dl")
        assert second.held() == first.held(), program
        first.feed(f".save {seed}.gdb")
        third = Prompt(opened=f"{seed}.gdb")
        assert third.held() == first.held(), program
        came_back += bool(first.held())
    assert came_back == 4


CORNERS = [
    "e(-9223372036854775807 - 1, 1.5e-300, -(inf)). e(1, 0.1, inf).",
    r"""s("\u0000\u001f\"\\ \n\t", @1677-09-21T00:12:43.145224194). s("é中😀", @2262-04-11).""",
    "a.b(true, 2*3). E'(1 bshl 40).",
    "nothing() <- 1 < 2. never() <- 1 > 2.",
    ".decl w(x: float, y: timestamp)",
    ".type Id = int",
    ".decl of_type(i: Id)",
    't(x, cat(x, "\'")) <- s(x, _). u(x), v(y) <- e(x, y, _) ; x = 7, y = 2.5.',
    "n(count()) <- e(_, _, _). .limitsize n(n=10)",
]


def test_corners_come_back(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    first = Prompt()
    for line in CORNERS:
        first.feed(line)
    assert not first.repl.failed
    when = pd.to_datetime(["1999-12-31T23:59:59.123456789"], utc=True)
    first.db["given"] = pd.DataFrame({"t": when, "a b": ["é\n\0"]})
    first.db.load("w", pd.DataFrame({"y": [0.1], "t": when}), columns=["x", "y"])
    first.db.load("none", pd.DataFrame({"a": pd.Series([], dtype="float64")}))
    first.feed(".save session.dl")
    names = sorted(os.listdir(tmp_path / "session_data"))
    assert names == ["given.parquet", "none.parquet", "w.parquet"]
    before = first.held()
    assert len(before) == 14
    second = Prompt()
    second.feed(".read session.dl")
    assert second.held() == before
    # What was read may be saved in its turn, elsewhere and over itself.
    second.feed(".save deep/er/again.dl", ".save session.dl")
    third, fourth = Prompt(), Prompt()
    third.feed(".read deep/er/again.dl")
    fourth.feed(".read session.dl")
    assert third.held() == fourth.held() == before


def test_what_comes_from_files_is_read_from_them(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "bare.facts").write_text("1\t007\n")
    (tmp_path / "facts" / "opt.txt").write_text("1;2\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "lib.dl").write_text('.input near("near.csv")')
    (tmp_path / "lib" / "near.csv").write_text("k\n5\n")
    (tmp_path / "e.csv").write_text("a,b\n1,x\n")
    (tmp_path / "changing.csv").write_text("a\n1\n")
    first = Prompt(facts="facts")
    first.feed(
        ".decl bare(x: int, y: symbol) input", ".decl opt(x: int, y: int)",
        '.input opt(IO=file, filename="opt.txt", delimiter=";")', '.include "lib/lib.dl"',
        ".load e.csv", ".load changing.csv", "e(2, \"y\").", "p(x) <- e(x, _), bare(x, _).",
    )  # fmt: skip
    (tmp_path / "changing.csv").write_text("a\n1\n2\n")
    first.feed(".save out/s.dl")
    assert not first.repl.failed
    held = first.held()
    text = (tmp_path / "out" / "s.dl").read_text()
    assert '.input e("../e.csv")' in text and '.input near("../lib/near.csv")' in text
    assert '.input changing("s_data/changing.parquet")' in text
    monkeypatch.chdir(tmp_path / "lib")
    second = Prompt()
    second.feed(".read ../out/s.dl")
    assert second.held() == held
    assert held["p"][2] == [(1,)] and held["bare"][2] == [(1, "007")]
    assert held["changing"][2] == [(1,)]


def test_declared_columns_of_data_in_another_order(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    first, second = Prompt(), Prompt()
    first.feed(".load e.csv", ".decl e(b: int, a: int)", ".save s.dl")
    second.feed(".read s.dl")
    assert first.held() == second.held() == {"e": (("int", "int"), ("b", "a"), [(1, 2)])}


def test_parameters_are_told(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"least": 1, "f": 2, "s": "it's", "t": pd.Timestamp("2026-11-20"), "unused": 5}
    first = Prompt(given)
    first.feed("e(1). e(2).", "p(x) <- e(x), x > $least.", "q(x) <- x = $f, x > 1.5, 1.0 < $f.")
    first.feed("r($s, $t).", ".save s.dl")
    options = "-M f=2.0 -M least=1 -M 's=\"it'\"'\"'s\"' -M t=2026-11-20"
    assert (tmp_path / "s.dl").read_text().splitlines()[1] == (
        f"// It has parameters: gdatalog {options} s.dl"
    )
    assert f"to run it: gdatalog {options} s.dl\n" in capsys.readouterr().err
    second = Prompt(read_parameters(["f=2.0", "least=1", 's="it\'s"', "t=2026-11-20"]))
    second.feed(".read s.dl")
    assert second.held() == first.held()


@pytest.mark.parametrize(
    "value", [0, -7, 2.5, 1e16, float("-inf"), True, "", "1", 'a"\\b\n', "true", "2026-11-20"]
)
def test_a_parameter_is_read_as_it_is_written(value: Any) -> None:
    again = read_parameters([f"p={parameter_text(value)}"])["p"]
    assert (type(again), again) == (type(value), value)


# ------------------------------------------------------------------------------------- undo


def test_every_change_is_taken_back(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("a,b\n1,2\n2,3\n")
    (tmp_path / "p.dl").write_text("q(x) <- e(x, _).\nr(1).\n")
    prompt = Prompt()
    steps = [
        "e(7, 8).",
        ".decl f(x: int)",
        ".load e e.csv",
        "p(x, z) <- e(x, y), e(y, z).",
        "?- p(x, z).",
        "e(7, 8).",
        ".read p.dl",
        ".drop 2",
        ".load e p.dl",
        "e(3, 4). e(4, 5).",
        ".drop q r",
        ".clear all",
        "s(1 / 0).",
    ]
    states = [prompt.held()]
    for step in steps:
        prompt.feed(step)
        if prompt.held() != states[-1]:
            states.append(prompt.held())
    capsys.readouterr()
    assert len(states) == 11
    for state in reversed(states[:-1]):
        prompt.feed(".undo")
        assert prompt.held() == state
    prompt.feed(".undo")
    assert capsys.readouterr().err.splitlines() == [
        "reverted: .clear all",
        "reverted: .drop q r",
        "reverted: e(3, 4). (and 1 more)",
        "reverted: .drop 2",
        "reverted: .read p.dl",
        "reverted: e(7, 8).",
        "reverted: p(x, z) <- e(x, y), e(y, z).",
        "reverted: .load e e.csv",
        "reverted: .decl f(x: int)",
        "reverted: e(7, 8).",
        "nothing to revert",
    ]


def test_undoing_notes_no_more_than_it_may(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(conversation, "MOST_TEXTS", 10)
    prompt = Prompt()
    prompt.feed(*(f"e({n})." for n in range(6)))
    for _ in range(3):
        prompt.feed("f(1).", ".drop f")
    capsys.readouterr()
    prompt.feed(*[".undo"] * 4)
    # Each `.drop` leaves seven statements that only `.undo` needs; those of two are too many.
    assert capsys.readouterr().err.splitlines() == [
        "reverted: .drop f",
        "reverted: f(1).",
        "nothing to revert",
        "nothing to revert",
    ]


def test_statements_that_are_still_there_are_no_reason_to_forget(
    monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(conversation, "MOST_TEXTS", 10)
    prompt = Prompt()
    prompt.feed(*(f"e({n})." for n in range(30)))
    capsys.readouterr()
    prompt.feed(*[".undo"] * 31)
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "reverted: e(0).",
        "nothing to revert",
    ]


def test_undoing_holds_no_more_data_than_it_may(capsys: Any) -> None:
    prompt = Prompt()
    prompt.repl.history.most_bytes = 50_000
    prompt.db["e"] = pd.DataFrame({"a": range(10_000)})
    prompt.feed("p(x) <- e(x).", ".clear all", ".undo", "q(1).", ".undo", ".undo")
    assert capsys.readouterr().err.splitlines()[1:] == [
        "the database is empty",
        "nothing to revert: the data that earlier changes replaced is no longer in memory",
        "q: 1 fact added, 1 tuple",
        "reverted: q(1).",
        "nothing to revert: the data that earlier changes replaced is no longer in memory",
    ]
