"""The progress line of the command line and the prompt, on stderr."""

from __future__ import annotations

import os
from contextvars import copy_context
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from gdatalog.progress import Progress, duration, format_bytes
from gdatalog.terminal_text import cut, width

if TYPE_CHECKING:
    from gdatalog.cancellation import Watch

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
