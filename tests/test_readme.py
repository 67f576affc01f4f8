"""README is true: its Python, its sessions, its shell commands and its program are run.

Sessions run in a pseudo-terminal, so that what is compared is what a person would see. Times are
left out of the comparison, nothing else is.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from sessions import PROMPT, Conversation, Shell, split_commands, typed_in, without_times

import gdatalog as gd
from gdatalog.errors import Caution

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


SHOWN = [found for block in blocks("console") for found in split_commands(block)]
SESSIONS = [(command, shown) for command, shown in SHOWN if PROMPT in shown]
COMMANDS = [(command, shown) for command, shown in SHOWN if PROMPT not in shown]


def test_python() -> None:
    programs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", README, re.M | re.S)
    assert len(programs) == len(blocks("python")) == 4
    for program, shown in programs:
        assert len(program.splitlines()) <= 10
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, "README.md", "exec"), {})
        assert out.getvalue() == shown


def test_the_language() -> None:
    (program,) = blocks("datalog")
    with gd.connect(files="none") as db:
        cautions: list[Caution] = []
        db.workspace.on_caution = cautions.append
        db.run(program, {"limit": 20})
        held = {name: db[name].sorted().fetchall() for name in db.relations}
        # one query, at the end: it answers what the text around it lets expect
        query = program[program.index("?-") :]
        assert db.query(query).sorted().fetchall() == [(3,), (4,)]
    assert [caution.message for caution in cautions] == ["`run` keeps rules and answers no query"]
    assert [name for name, rows in held.items() if not rows] == ["cyclic"]
    assert held["time"] == [("Bern", 0), ("Brig", 58), ("Thun", 18)]
    assert held["square"] == [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]
    assert held["below"] == [(1, 3), (2, 2), (3, 1)]


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if not link.startswith("https://"):
            target, _, anchor = link.partition("#")
            there = ROOT / target if target else path
            assert there.exists(), link
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.M) if anchor else []
            assert not anchor or anchor in {title.lower().replace(" ", "-") for title in titles}


def test_what_it_names_is_there() -> None:
    tree = README.split("## Repository layout")[1].split("\n\n")[1]
    package = re.findall(r"^      (\w+)/ ", tree, re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "gdatalog").glob("*/*.py")}
    assert set(package) == folders
    for folder in re.findall(r"^    (\w+)/ ", tree, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
    assert len(list((ROOT / "queries").glob("*.dl"))) == 15 and "has fifteen programs" in README
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^    |`)make (\w+)", README, re.MULTILINE)
    assert {"demo", "test", "bench"} <= set(targets)
    for target in targets:
        assert f"\n{target}: " in makefile


# ----------------------------------------------------------------------------- at a terminal


@pytest.mark.parametrize(("command", "shown"), SESSIONS)
def test_sessions(command: str, shown: str, tmp_path: Path) -> None:
    assert shown.endswith(f"{PROMPT}.quit\n")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    talk = Conversation(command, tmp_path, scripts)
    try:
        came = talk.banner() + "".join(map(talk.take, typed_in(shown)))
        assert without_times(came) == without_times(shown)
        assert talk.ended and talk.terminal.process.wait(10) == 0
    finally:
        talk.close()


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands(command: str, shown: str, tmp_path: Path) -> None:
    shell = Shell(ROOT, tmp_path)
    assert shell.run(command) == shown
    assert shell.code == 0


def test_there_is_something_to_run() -> None:
    assert len(SESSIONS) == 1 and len(COMMANDS) == 2
