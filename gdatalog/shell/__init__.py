"""The command line and the prompt; here their messages on stderr, and the progress line."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from contextvars import copy_context
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from gdatalog.distribution import VERSION
from gdatalog.errors import Error
from gdatalog.progress import Progress, amount, duration, format_bytes
from gdatalog.values import brief, cut, visible, visible_lines, width

if TYPE_CHECKING:
    from gdatalog.cancellation import Watch
    from gdatalog.storage.relation import Relation

RED, YELLOW, CALM = "31", "33", "36"
_KINDS = "|".join(sorted({"error", "internal error", *(k.kind for k in Error.__subclasses__())}))
# Coloured are the kind of an error, but not its place, and carets and hints.
_PAINTED = (
    (re.compile(rf"^((?:.+:\d+:\d+: )?)((?:{_KINDS}):)", re.M), f"1;{RED}"),
    (re.compile(r"^((?:.+:\d+:\d+: )?)(warning:)", re.M), f"1;{YELLOW}"),
    (re.compile(r"^( *\|\s*)(\^+)", re.M), f"1;{RED}"),
    (re.compile(r"^( *)(hint: .*)", re.M), CALM),
)

PROMPT = "gdatalog> "
GOES_ON = "     ...> "


def took(seconds: float, whom: str) -> str:
    """Formats a duration, with the device unless that is the CPU."""
    return f"{seconds:.3f} s" if whom == "cpu" else f"{seconds:.3f} s, {whom}"


def say(text: str) -> None:
    """Prints text on stderr, with control characters escaped and long names cut, and colours on a
    terminal that has them, unless the user disabled them."""
    text = visible_lines(brief(text))
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if not plain and sys.stderr.isatty():
            for what, colour in _PAINTED:
                text = what.sub(rf"\1\033[{colour}m\2\033[0m", text)
        print(text, file=sys.stderr, flush=True)


def say_error(error: BaseException) -> None:
    """Prints a user's error with its place and hint."""
    if isinstance(error, Error):
        say(str(error))
    else:
        say(f"error: {error or type(error).__name__}")


def say_unexpected(error: BaseException) -> None:
    """Prints an internal error, and asks to report it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    say(
        f"internal error: {what} -- please report this with what you ran "
        "(GDATALOG_DEBUG=1 shows where it happened)"
    )
    if os.environ.get("GDATALOG_DEBUG"):
        say("".join(traceback.format_exception(error)).rstrip())


def size_of(relation: Relation) -> str:
    """The size of a relation; an upper bound where workers have not removed duplicates yet."""
    if relation.counted:
        return amount(relation.length, "tuples")
    return f"at most {amount(relation.at_most, 'tuples')}, on the workers"


def aligned(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Lines of columns; those at the positions `right` are aligned right."""
    shown = [list(map(visible, row)) for row in rows]
    widths = [max(map(width, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        pads = [" " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)]
        cells = [
            pad + cell if at in right else cell + pad
            for at, (cell, pad) in enumerate(zip(row, pads, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def banner(device: str = "") -> str:
    """The first line of the prompt."""
    where = f" on {device}" if device else ""
    return f"gdatalog {VERSION}{where}. A statement ends with a dot. .help helps, Ctrl-D leaves."


# The progress line of a long call; it disappears when the call ends.

AFTER = 2.0  # seconds until the line appears
EVERY = 0.2
LONGEST_BAR, LEAST_BAR = 30, 8


class ProgressPoll:
    """A thread that shows the progress of calls until it ends: a long step reports nothing
    itself."""

    def __init__(self) -> None:
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        self._ended.clear()
        # In this context, so that what a cell's thread shows goes to the cell.
        self._thread = Thread(target=copy_context().run, args=(self._poll,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def _poll(self) -> None:
        shown = False
        while not self._ended.wait(EVERY):
            before, shown = shown, self._show()
            if before and not shown:
                self._clear()
        if shown:
            self._clear()

    def _show(self) -> bool:
        """Shows the progress if it is time; returns whether it is shown."""
        raise NotImplementedError

    def _clear(self) -> None:
        raise NotImplementedError


class ProgressLine(ProgressPoll):
    """A context manager that shows a progress line on a terminal."""

    def __init__(self, stream: TextIO, watch: Watch, after: float = AFTER) -> None:
        super().__init__()
        self.stream = stream
        self.watch = watch
        self.after = after
        self.what = ""
        self._started = 0.0

    def __call__(self, what: str) -> ProgressLine:
        """Names what is evaluated: `with line("tr"):`."""
        self.what = what
        return self

    def __enter__(self) -> None:
        if self._thread is None and self.stream.isatty():
            self._started = perf_counter()
            self.start()

    def __exit__(self, *error: object) -> None:
        self.end()

    def _show(self) -> bool:
        if self._is_time():
            self._write(self.text(self._columns()))
            return True
        return False

    def _clear(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        self.stream.write(f"\r\x1b[2K{text}")
        self.stream.flush()

    def _is_time(self) -> bool:
        """Whether to show the line: after a delay, but at once during compilation, which users do
        not expect."""
        now = self.watch.now
        compiling = now is not None and now.stage == "compiling"
        return compiling or perf_counter() - self._started >= self.after

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def text(self, columns: int = 80) -> str:
        """The line for a terminal's width. It never wraps: a wrapped line cannot be erased."""
        progress, parts = self.watch.status()
        shown = progress or Progress("joining", self.what or "running")
        title = shown.title
        if shown.left is None:
            parts.append(duration(perf_counter() - self._started))
        held = memory_used()
        if held is not None and shown.stage != "compiling":
            parts.append(format_bytes(held))
        figures = ", ".join(parts)
        room = columns - 1
        bar = min(LONGEST_BAR, room - width(f"{title}  {figures}"))
        if shown.share is None or bar < LEAST_BAR:
            return cut(f"{title}: {figures}", room)
        return f"{title} {self._bar(shown.share, bar)} {figures}"

    def _bar(self, share: float, columns: int) -> str:
        plain = not (self.stream.encoding or "").lower().startswith("utf")
        full, empty = ("#", "-") if plain else ("█", "░")
        done = int(share * columns)
        return full * done + empty * (columns - done)


def memory_used() -> int | None:
    """The resident memory of this process in bytes, or None if the system does not report it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # not on every system
        return None
