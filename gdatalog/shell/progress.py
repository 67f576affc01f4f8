"""A line that tells what a long call is at, and goes away when it ends."""

from __future__ import annotations

import os
from threading import Event, Thread
from time import perf_counter
from types import TracebackType
from typing import TextIO

from gdatalog.cancellation import Watch
from gdatalog.progress import Progress, duration, format_bytes
from gdatalog.widths import cut, width

AFTER = 2.0  # seconds: what is quicker needs no line
EVERY = 0.2
LONGEST_BAR, LEAST_BAR = 30, 8


class ProgressLine:
    """Used around what may take long; writes only to a terminal.

    It has a thread of its own, which looks at the watch of the database: what takes longest tells
    nothing by itself meanwhile, but time goes on.
    """

    def __init__(self, stream: TextIO, watch: Watch, after: float = AFTER) -> None:
        self.stream = stream
        self.watch = watch
        self.after = after
        self.what = ""
        self._ended = Event()
        self._thread: Thread | None = None
        self._started = 0.0

    def __call__(self, what: str) -> ProgressLine:
        """For `with line("tr"):`, which names what is evaluated."""
        self.what = what
        return self

    def __enter__(self) -> None:
        if self._thread is None and self.stream.isatty():
            self._started = perf_counter()
            self._ended.clear()
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def _show(self) -> None:
        shown = ""
        while not self._ended.wait(EVERY):
            before = shown
            shown = self.text(self._columns()) if self._is_time() else ""
            if shown or before:
                self.stream.write(f"\r\x1b[2K{shown}")
                self.stream.flush()
        if shown:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()

    def _is_time(self) -> bool:
        """A compilation is told of at once: to who does not expect it, it looks like a fault."""
        if perf_counter() - self._started >= self.after:
            return True
        now = self.watch.now
        return now is not None and now.stage == "compiling"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def text(self, columns: int = 80) -> str:
        """The line, for a terminal of so many columns: one that wrapped could not be taken back."""
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
    """What this process holds, in bytes; None where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        import resource

        return pages * resource.getpagesize()
    except (OSError, ValueError, ImportError):
        return None
