"""A long conversation at a terminal: answers, mistakes, files, and what stands on the screen."""

from __future__ import annotations

import ast
import io
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import gdatalog as gd
from gdatalog.shell.messages import say
from gdatalog.shell.output import Output
from tests.terminal import CTRL_D, ENTER, ROOT, Terminal

LONG = "and on " * 30


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_conversation(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f'name,msg,n\nann,"a\nb",1\nbob,😀 {LONG},22\n李,中文字,333\n')
    (tmp_path / "bad.csv").write_text("city,minutes\nBern,18\nThun,x7\n")
    (tmp_path / "edges.csv").write_text("a,b\n" + "".join(f"{n},{n + 1}\n" for n in range(60)))
    with Terminal(folder=tmp_path, lines=24, columns=60) as at:

        def ask(line: str, *wanted: str) -> str:
            """Types a line; gives the screen once all that is wanted stands below it."""
            at.type(line + ENTER)
            begun = f"gdatalog> {line[:40]}"
            texts = (*wanted, "gdatalog>")

            def is_there(screen: str) -> bool:
                _, typed, below = screen.rpartition(begun)
                return bool(typed) and all(text in below for text in texts)

            return at.wait_for(is_there).rpartition(begun)[2]

        at.wait_for("gdatalog>")
        ask(".load m.csv", "m(name: symbol, msg: symbol, n: int): 3 tuples")
        # Wide signs, cut texts and numbers keep the lines straight.
        shown = ask("m(name, message, n).", "3 rows")
        assert "│ ann  │ a\\nb" in shown and "│  22 │" in shown and "│ 李" in shown
        rows = [line for line in shown.splitlines() if line.startswith(("│", "┌", "├", "└"))]
        assert len(rows) == 7
        assert "… │  22 │" in shown
        assert re.search(r"\n3 rows \(\d+\.\d{3} s\)\n", shown)

        # Many rows are as many as fit, and the first and the last.
        ask(".load edges.csv", "edges(a: int, b: int): 60 tuples")
        shown = ask("edges(x, y).", "60 rows (")
        assert "│  0 │  1 │" in shown and "│ 59 │ 60 │" in shown and "│  … │  … │" in shown
        assert 8 < len(shown.splitlines()) <= 24
        at.resize(lines=14, columns=30)
        at.type("edges(u, v)." + ENTER)
        # What was typed may have left so small a screen; the table is what stands from its top on.
        at.wait_for(lambda screen: re.search(r"│  u │.*gdatalog>", screen, re.DOTALL) is not None)
        shown = at.screen.rpartition("┌")[2]
        assert shown.count("│") == 3 * 7 and "│  0 │  1 │" in shown and "│ 59 │ 60 │" in shown
        at.resize(lines=40, columns=100)

        # Mistakes: of the language, of files, of data, of commands.
        ask("p(x) <- edges(x, y), y > z.", "unsafe rule")
        assert at.colours("unsafe rule:") == {"red"} and at.colours("^") == {"red"}
        ask(".load nowhere.csv", "data error: nowhere.csv: there is no such file")
        ask(".decl bad(city: symbol, minutes: int)", "declared bad(")
        shown = ask(".load bad bad.csv", "bad.csv:3")
        assert "x7" in shown and "expected int" in shown
        ask(".relatoins", "hint: did you mean .relations?")
        assert at.colours("hint: did you mean .relations?") == {"cyan"}
        ask("edgse(1, x).", "did you mean `edges`?")
        ask("edges(30, x), x > 1000000.", "0 rows (")

        # Rules and what is known of them; taking them back.
        ask("path(x, y) <- edges(x, y).", "path: 60 tuples (")
        ask("path(x, z) <- path(x, y), edges(y, z).", "path: 1,830 tuples (")
        shown = ask(".rules", "// path: 1,830 tuples")
        assert "1  .decl bad(city: symbol, minutes: int)" in shown
        ask(".undo", "reverted: path(x, z) <- path(x, y), edges(y, z).")
        ask("path(0, y).", "1 row (")
        ask(".undo", "reverted: path(x, y) <- edges(x, y).")
        ask("path(0, y).", "there is no relation `path`")

        # Saving, forgetting, reading.
        ask('fact("it\'s", 2.5, true).', "fact: 1 fact added, 1 tuple")
        ask(".save session.dl", "session.dl: 4 statements; .read session.dl restores them")
        ask(".clear all", "the database is empty")
        ask(".relations", "no relations yet")
        ask(".read session.dl", "fact: 1 fact added, 1 tuple")
        ask(".relations", "fact(c0: symbol, c1: float, c2: bool)")
        ask(".explain edges(1, y). > plan.html", "-> plan.html")
        ask(".mode csv", "mode: csv")
        assert "\ny\n2\n" in ask("edges(1, y).", "2")
        ask(".set", "strategy        auto")
        at.type(CTRL_D)
        assert at.wait_for_end() == 0
    assert "<html" in (tmp_path / "plan.html").read_text()


def test_what_fits_the_terminal_is_shown_whole(monkeypatch: Any) -> None:
    shown = {}
    for lines, count in ((50, 41), (50, 42), (12, 42), (24, 15), (24, 16)):
        size = os.terminal_size((80, lines))
        monkeypatch.setattr(
            "gdatalog.shell.output.shutil.get_terminal_size", lambda *_, size=size, **__: size
        )
        screen = Screen()
        Output(screen).answer("?1", gd.query(f"x(i) <- i = range(0, {count})."))
        shown[lines, count] = screen.getvalue().count("\n") - 5  # without the box around
    assert shown == {(50, 41): 41, (50, 42): 21, (12, 42): 5, (24, 15): 15, (24, 16): 16}


def test_colours_are_left_out_where_nobody_wants_them(tmp_path: Path, monkeypatch: Any) -> None:
    with Terminal(["-c", "?- nothing(x)."], folder=tmp_path, environment={"NO_COLOR": "1"}) as at:
        assert at.wait_for_end() == 1
        assert b"name error" in at.written and b"\x1b" not in at.written
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    for term, coloured in (("xterm", True), ("dumb", False)):
        monkeypatch.setenv("TERM", term)
        say("a.dl:1:2: type error: no\n 1 | p(x)\n   | ^^^^\n  hint: so")
        assert ("\x1b[1;31mtype error:\x1b[0m" in screen.getvalue()) is coloured
        assert ("\x1b[36mhint: so\x1b[0m" in screen.getvalue()) is coloured
        screen.truncate(0)


def test_the_session_in_readme_is_what_its_script_types() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "images" / "session.svg")
    tags = {node.tag.rpartition("}")[2] for node in picture.iter()}
    assert tags == {"svg", "rect", "text", "path"}  # nothing that runs, and nothing from elsewhere
    lines: dict[str, str] = {}
    for node in picture.iter("{http://www.w3.org/2000/svg}text"):
        lines[node.attrib["y"]] = lines.get(node.attrib["y"], "") + (node.text or "")
    shown = "\n".join(lines.values()).replace(" ", "")  # blanks are not drawn
    script = (ROOT / "docs" / "make_session.py").read_text(encoding="utf-8")
    typed = [ast.literal_eval(line)[0] for line in re.findall(r"^    (\(.*\)),$", script, re.M)]
    assert len(typed) == 8
    assert [line for line in typed if line.replace(" ", "") not in shown] == []
