"""What documentation shows of terminals, run: shell commands, and conversations with the prompt.

A conversation runs at a pseudo-terminal, so that what is compared is what a person would see.
`gdatalog` with options is run in this process, which takes it for a terminal too; a command with
a pipe, or of another program, by `sh`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from terminal import CTRL_C, ENTER, Terminal

from gdatalog.shell import cli

PROMPT, GOES_ON = "gdatalog> ", "     ...> "
COLUMNS = 100

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07")
_TAKEN_BACK = re.compile(r"[^\n]*\r\x1b\[2K")  # a line of progress
_SHELL = re.compile(r"[|<>&;()`$*?]+")


def without_times(text: str) -> str:
    return re.sub(r"\b\d+(\.\d+)? (s|ms|µs)\b", "TIME", text)


def split_commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, and all that is shown after it.

    A command goes on in the next line after a backslash, or while a quote is open.
    """
    found: list[tuple[str, str]] = []
    lines = block.splitlines(keepends=True)
    while lines:
        line = lines.pop(0)
        if line.startswith("$ "):
            while lines and _goes_on(line):
                line += lines.pop(0)
            found.append((line[2:].rstrip("\n"), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
        else:
            raise ValueError(f"what is shown comes before any command: {line!r}")
    return found


def typed_in(shown: str) -> Iterator[list[str]]:
    """What is typed in a conversation: the lines of one statement, or command, after the other."""
    typed: list[str] = []
    for line in shown.split("\n"):
        if line.startswith(PROMPT):
            if typed:
                yield typed
            typed = [line.removeprefix(PROMPT)]
        elif line.startswith(GOES_ON):
            typed.append(line.removeprefix(GOES_ON))
    if typed:
        yield typed


def _goes_on(line: str) -> bool:
    if line.endswith("\\\n"):
        return True
    try:
        shlex.split(line)
    except ValueError:  # a quote is open
        return True
    return False


class OnTerminal(io.StringIO):
    """Takes what is written, as a terminal would."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Commands, one after the other, in a folder."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        """`scripts`: a folder outside, for the command `gdatalog` as installing makes it."""
        self.folder = folder
        self.scripts = scripts
        self.code = 0  # of the last command: `$?`

    def run(self, command: str) -> str:
        """What a command writes on a terminal."""
        words = _words_of_gdatalog(command)
        if words is None:
            return self._run_by_sh(command)
        shown = OnTerminal()
        before, there = os.environ.get("COLUMNS"), os.getcwd()
        os.environ["COLUMNS"] = str(COLUMNS)
        os.chdir(self.folder)
        try:
            with redirect_stdout(shown), redirect_stderr(shown):
                self.code = cli.run(words)
        finally:
            os.chdir(there)
            os.environ.pop("COLUMNS")
            if before is not None:
                os.environ["COLUMNS"] = before
        return _plain(shown.getvalue())

    def _run_by_sh(self, command: str) -> str:
        environment = {"TERM": "dumb", "PATH": self.path()}
        script = f"(exit {self.code})\n{command}"
        with Terminal(
            [script],
            folder=self.folder,
            columns=COLUMNS,
            environment=environment,
            command=("sh", "-c"),
        ) as terminal:
            self.code = terminal.wait_for_end()
            return _plain(terminal.written.decode(errors="replace").replace("\r\n", "\n"))

    def path(self) -> str:
        """A PATH that begins with a folder where `gdatalog` is."""
        script = self.scripts / "gdatalog"
        if not script.exists():
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gdatalog "$@"\n')
            script.chmod(0o755)
        return f"{self.scripts}{os.pathsep}{os.environ['PATH']}"


def _words_of_gdatalog(command: str) -> list[str] | None:
    """The arguments, if the command is `gdatalog` and nothing is for the shell to do."""
    unquoted = re.sub(r"'[^']*'|\"[^\"$`]*\"", "''", command)
    words = shlex.split(command)
    return words[1:] if words[0] == "gdatalog" and not _SHELL.search(unquoted) else None


def _plain(text: str) -> str:
    return _ESCAPES.sub("", _TAKEN_BACK.sub("", text))


class Conversation:
    """A prompt that answers, on a terminal so high that nothing leaves the screen."""

    def __init__(self, command: str, folder: Path, scripts: Path) -> None:
        words = shlex.split(command)
        if "--device" not in words:
            words += ["--device", "cpu"]  # with a GPU the first line would say more
        state = str(scripts / "state")
        environment = {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state}
        self.terminal = Terminal(
            words[1:], folder=folder, lines=400, columns=COLUMNS, environment=environment
        )
        self._read_from = 0  # the first line of the screen that was not given yet
        self._wait(-1)

    def banner(self) -> str:
        """What stands above the first prompt."""
        return self._since_then()

    def take(self, lines: list[str]) -> str:
        """Types the lines of a statement or a command; gives them as echoed, and the answer."""
        y = self.terminal.cursor_row
        if lines == ["^C"]:
            self.terminal.type(CTRL_C)
        elif len(lines) == 1:
            self.terminal.type(lines[0] + ENTER)
        else:  # pasted: nothing is indented then that is not so here
            self.terminal.paste("\n".join(lines))
            self.terminal.type(ENTER)
        self._wait(y)
        return self._since_then()

    def close(self) -> None:
        self.terminal.__exit__(None, None, None)

    def _since_then(self) -> str:
        """The screen's lines from those that were not given yet to the prompt that waits."""
        until = self.terminal.cursor_row
        lines = [self.terminal.line(row) for row in range(self._read_from, until)]
        self._read_from = until
        return "".join(line + "\n" for line in lines)

    def _wait(self, above: int) -> None:
        """Waits for an empty prompt below a row of the screen, or for the end."""

        def asks() -> bool:
            below = self.terminal.cursor_row > above
            return below and self.terminal.cursor_line == PROMPT.rstrip()

        self.ended = not self.terminal.wait_until(asks)
