"""A line that tells what a long query is at, and goes away when it ends."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter
from types import TracebackType
from typing import TextIO

from gdatalog.progress import Progress, format_bytes

AFTER = 2.0  # seconds: what is quicker needs no line
EVERY = 0.25


class ProgressLine:
    """Used around an evaluation; writes only to a terminal.

    It has a thread of its own, for a join that takes long reports nothing by itself.
    """

    def __init__(
        self, stream: TextIO, after: float = AFTER, at_work: Callable[[], str] = lambda: ""
    ) -> None:
        """`at_work` says what is known of the join that runs; it is asked while the line shows."""
        self.stream = stream
        self.after = after
        self.at_work = at_work
        self.what = ""
        self.round: Progress | None = None
        self.doing = ""
        self._woken = Event()
        self._done = False
        self._thread: Thread | None = None
        self._started = 0.0

    def __call__(self, what: str) -> ProgressLine:
        """For `with line("tr"):`, which names what is evaluated."""
        self.what = what
        return self

    def see(self, progress: Progress) -> None:
        """What a Database calls once a round."""
        self.round = progress

    def announce(self, what: str) -> None:
        """What is begun that is better told of at once, such as a compilation; "" ends it."""
        self.doing = what
        if what:
            self._woken.set()

    def __enter__(self) -> None:
        self.round = None
        self.doing = ""
        if self.stream.isatty():
            self._started = perf_counter()
            self._done = False
            self._woken.clear()
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._done = True
            self._woken.set()
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        shown = ""
        while True:
            left = self._started + self.after - perf_counter()
            self._woken.wait(EVERY if shown or left < EVERY else left)
            self._woken.clear()
            if self._done:
                break
            before = shown
            shown = (
                self.text() if self.doing or perf_counter() - self._started >= self.after else ""
            )
            if shown or before:
                self.stream.write(f"\r\x1b[2K{shown}")
                self.stream.flush()
        if shown:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()

    def text(self) -> str:
        parts = [f"{perf_counter() - self._started:.0f} s"]
        if self.doing:
            return f"{self.doing[:64]}... {parts[0]}"
        what = self.what
        if self.round is not None:
            what = self.round.title
            parts += self.round.figures()
        at_work = self.at_work()
        if at_work:
            parts.append(f"now {at_work}")
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
