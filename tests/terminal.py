"""A program at a pseudo-terminal, and what stands on its screen: typing, waiting, looking."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

ROOT = Path(__file__).resolve().parent.parent

TAB, ENTER, BACKSPACE, ESCAPE = "\t", "\r", "\x7f", "\x1b"
CTRL_C, CTRL_D, CTRL_R = "\x03", "\x04", "\x12"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"

_NOT_OURS = frozenset(
    {"COLUMNS", "LINES", "INPUTRC", "NO_COLOR", "GDATALOG_STATE", "XDG_STATE_HOME"}
)


class Terminal:
    """`gdatalog` (or another command of this Python) on a screen of some lines and columns.

    What the program writes is read in the calls that wait; `screen` is what a person sees then,
    `written` all bytes that came. Where there are no pseudo-terminals the test is skipped.
    """

    def __init__(
        self,
        args: Sequence[str] = (),
        *,
        folder: Path | None = None,
        lines: int = 40,
        columns: int = 100,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "gdatalog"),
    ) -> None:
        pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
        pyte = pytest.importorskip("pyte")
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.end, theirs = pty.openpty()
        _set_size(theirs, lines, columns)
        own = {k: v for k, v in os.environ.items() if k not in _NOT_OURS}
        own |= {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "TERM": "xterm-256color"}
        own |= environment or {}
        self._state = tempfile.mkdtemp(prefix="gdatalog-state-")  # for a history of its own
        if "XDG_STATE_HOME" not in own:
            own.setdefault("GDATALOG_STATE", self._state)
        self.process = subprocess.Popen(
            [*command, *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=own,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self.written = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.end)
        shutil.rmtree(self._state, ignore_errors=True)

    @property
    def screen(self) -> str:
        """The lines of the screen, without blanks at their ends and empty lines below."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def cursor_line(self) -> str:
        """The line that the cursor stands in."""
        return self.line(self._screen.cursor.y)

    def line(self, row: int) -> str:
        """A line of the screen, without blanks at its end."""
        line = self._screen.buffer[row]
        return "".join(line[x].data for x in range(self._screen.columns)).rstrip()

    @property
    def cursor_row(self) -> int:
        """Which line that is; the first is 0."""
        return int(self._screen.cursor.y)

    def colours(self, text: str) -> set[str]:
        """The colours in which a text stands on the screen, where it first does."""
        for y, line in enumerate(self._screen.display):
            x = line.find(text)
            if x >= 0:
                return {self._screen.buffer[y][x + at].fg for at in range(len(text))}
        raise AssertionError(f"{text!r} is not on the screen:\n{self.screen}")

    def resize(self, lines: int, columns: int) -> None:
        """Has the terminal another size."""
        _set_size(self.end, lines, columns)
        self._screen.resize(lines, columns)

    def type(self, keys: str) -> None:
        """Presses keys; names of special ones are this module's constants."""
        os.write(self.end, keys.encode())

    def paste(self, text: str) -> None:
        """Pastes, as terminals do it that tell what is pasted from what is typed."""
        self.type(PASTE_BEGINS + text.replace("\n", "\r") + PASTE_ENDS)

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 30) -> str:
        """Reads until a text stands on the screen, or a test of it holds; gives the screen."""
        holds = wanted if callable(wanted) else lambda screen: wanted in screen
        until = time.monotonic() + seconds
        while not holds(self.screen):
            left = until - time.monotonic()
            if left <= 0 or not self._read(left):
                what = repr(wanted) if isinstance(wanted, str) else "what is waited for"
                raise AssertionError(f"{what} did not come; the screen:\n{self.screen}")
        return self.screen

    def wait_until(self, holds: Callable[[], bool], seconds: float = 30) -> bool:
        """Reads until a test holds; False if the program has ended before."""
        until = time.monotonic() + seconds
        while not holds():
            left = until - time.monotonic()
            if left <= 0:
                raise AssertionError(f"what is waited for did not come; the screen:\n{self.screen}")
            if not self._read(left) and time.monotonic() < until:
                return False
        return True

    def wait_for_end(self, seconds: float = 30) -> int:
        """Reads until the program has ended; gives its exit code."""
        until = time.monotonic() + seconds
        while self._read(max(0.0, until - time.monotonic())):
            pass
        return self.process.wait(max(1.0, until - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        """Reads what is there, waiting for it so long at the most; False if nothing came."""
        ready, _, _ = select.select([self.end], [], [], seconds)
        if not ready:
            return False
        try:
            more = os.read(self.end, 65536)
        except OSError:  # the other side is closed
            return False
        self.written += more
        self._stream.feed(more)
        self._answer(more)
        return bool(more)

    def _answer(self, more: bytes) -> None:
        """A terminal is asked where its cursor stands, and says so."""
        if b"\x1b[6n" in more:
            cursor = self._screen.cursor
            os.write(self.end, f"\x1b[{cursor.y + 1};{cursor.x + 1}R".encode())


def _set_size(terminal: int, lines: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _take_terminal() -> None:
    """Makes the pseudo-terminal the process's own, so that Ctrl-C reaches it as a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
