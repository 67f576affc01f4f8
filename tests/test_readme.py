"""README is true: its Python, its sessions, its shell commands and its program are run.

Sessions run in a pseudo-terminal, so that what is compared is what a person would see. Times are
left out of the comparison, nothing else is.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog.errors import Caution

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPTS = ("gdatalog> ", "     ...> ")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d{3} s", "TIME", text)


def shell_commands() -> list[tuple[str, str]]:
    """Each command of the console blocks, and all that is shown after it."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


SESSIONS = [(command, shown) for command, shown in shell_commands() if PROMPTS[0] in shown]
COMMANDS = [(command, shown) for command, shown in shell_commands() if PROMPTS[0] not in shown]


def test_python() -> None:
    programs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", README, re.M | re.S)
    assert len(programs) == len(blocks("python")) == 2
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
        db._workspace.on_caution = cautions.append
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
    tree = README.split("## The tree of the house")[1].split("\n\n")[1]
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


class Terminal:
    """A shell command at a pseudo-terminal of 100 columns."""

    def __init__(self, command: str, folder: Path, path: Path) -> None:
        pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
        import fcntl
        import struct
        import termios

        self.end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "INPUTRC")}
        environment |= {
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            "TERM": "dumb",
        }
        self.process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = b""

    def text(self) -> str:
        return self.seen.decode(errors="replace").replace("\r\n", "\n")

    def read_to(self, endings: tuple[str, ...], seconds: float = 30) -> None:
        """Reads until what came ends so, or until there is no more."""
        start, until = len(self.seen), time.monotonic() + seconds
        while not (len(self.seen) > start and self.text().endswith(endings)):
            ready, _, _ = select.select([self.end], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"nothing came after {self.text()!r}"
            try:
                more = os.read(self.end, 65536)
            except OSError:  # the other side is closed
                return
            if not more:
                return
            self.seen += more

    def type(self, line: str) -> None:
        os.write(self.end, f"{line}\n".encode())

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.end)


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with the command `gdatalog`, as installing makes it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "gdatalog"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gdatalog "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(("command", "shown"), SESSIONS)
def test_sessions(command: str, shown: str, tmp_path: Path, bin_folder: Path) -> None:
    typed = [line[len(PROMPTS[0]) :] for line in shown.splitlines(True) if line.startswith(PROMPTS)]
    assert typed[-1] == ".quit\n"
    terminal = Terminal(command, tmp_path, bin_folder)
    try:
        for line in typed:
            terminal.read_to(PROMPTS)
            terminal.type(line.rstrip("\n"))
        terminal.read_to(())
        assert without_times(terminal.text()) == without_times(shown)
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands(command: str, shown: str, bin_folder: Path) -> None:
    terminal = Terminal(command, ROOT, bin_folder)
    try:
        terminal.read_to(())
        assert terminal.text() == shown
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()


def test_there_is_something_to_run() -> None:
    assert len(SESSIONS) == 1 and len(COMMANDS) == 2
