"""A line that tells what a long query is at, and goes away when it ends."""

from __future__ import annotations

from threading import Event, Thread
from time import perf_counter
from types import TracebackType
from typing import TextIO

from gdatalog.executors.limits import format_bytes
from gdatalog.workspace import Progress

AFTER = 2.0  # seconds: what is quicker needs no line
EVERY = 0.25


class ProgressLine:
    """Used around an evaluation; writes only to a terminal.

    It has a thread of its own, for a join that takes long reports nothing by itself.
    """

    def __init__(self, stream: TextIO, after: float = AFTER) -> None:
        self.stream = stream
        self.after = after
        self.what = ""
        self.round: Progress | None = None
        self._done = Event()
        self._thread: Thread | None = None
        self._started = 0.0

    def __call__(self, what: str) -> ProgressLine:
        """For `with line("tr"):`, which names what is evaluated."""
        self.what = what
        return self

    def see(self, progress: Progress) -> None:
        """What a Database calls once a round."""
        self.round = progress

    def __enter__(self) -> None:
        self.round = None
        if self.stream.isatty():
            self._started = perf_counter()
            self._done.clear()
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        if self._done.wait(self.after):
            return
        while True:
            self.stream.write(f"\r\x1b[2K{self.text()}")
            self.stream.flush()
            if self._done.wait(EVERY):
                break
        self.stream.write("\r\x1b[2K")
        self.stream.flush()

    def text(self) -> str:
        parts = [f"{perf_counter() - self._started:.0f} s"]
        what = self.what
        if self.round is not None:
            what = ", ".join(self.round.relations)
            parts.append(f"round {self.round.round}")
            parts.append(f"{self.round.new_rows:,} new of {self.round.total_rows:,} rows")
        held = memory_used()
        if held is not None:
            parts.append(format_bytes(held))
        # Short enough for any terminal: a line that wraps could not be taken back.
        return f"{what[:24]}: {', '.join(parts)}"[:78]


def memory_used() -> int | None:
    """What this process holds, in bytes; None where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        import resource

        return pages * resource.getpagesize()
    except (OSError, ValueError, ImportError):
        return None
