"""A process that does the work of one side: it can be timed, measured and stopped.

Each side has a process of its own, so that its memory can be told from the others', and that
what does not end can be killed. A worker waits while it is another one's turn.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Protocol

from benchmarks import memory
from benchmarks.columns import Columns, read_columns

BUILDING = 300.0  # seconds that loading and indexing may take


class Side(Protocol):
    """One way of doing a piece of work. A value that can be sent to another process."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def load(self, data: Columns) -> Any:
        """Imports, and the data in the form that this side reads. Not timed."""

    def build(self, given: Any) -> Any:
        """From data in memory to what is asked again and again: tables, graphs, indexes."""

    def answer(self, state: Any) -> Any:
        """The work itself."""

    def value(self, answer: Any) -> Any:
        """What the answers of all sides are compared by. Not timed."""


class Stopped(Exception):
    """The work was not done within its time."""


class Broken(Exception):
    """The work could not be done: why."""


@dataclass(frozen=True, slots=True)
class Cold:
    """From data in memory to the answer."""

    building: float
    answering: float
    answer: Any
    grown: int  # the most bytes, beyond what held the data
    peak: int = 0  # the most bytes of the whole process
    compiled: bool = False  # whether code was compiled, and kept

    def seconds(self) -> float:
        return self.building + self.answering


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes around one warm run: before it, and the most during it."""

    resident: int
    peak: int


class Worker:
    """The process, as who asks it sees it."""

    def __init__(self, side: Side, folder: Path, cap: float, cache: Path | None = None) -> None:
        """`cache`: where compiled code is kept; without it in a folder of its own, empty."""
        self.side, self.cap, self.compiles = side, cap, cache is None
        self._connection, theirs = get_context("spawn").Pipe()
        self._own = TemporaryDirectory(prefix="gdatalog-code-", ignore_cleanup_errors=True)
        self._code = Path(cache or self._own.name)
        self._process = get_context("spawn").Process(
            target=_serve, args=(theirs, side, folder, str(self._code)), daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            self._expect(BUILDING)
        except BaseException:
            self.close()
            raise

    def cold(self) -> Cold:
        """Builds everything anew, and answers."""
        before = self._kept()
        self._connection.send("cold")
        building = self._expect(BUILDING)
        seconds, answer, grown, peak = self._expect(self.cap)
        return Cold(building, seconds, answer, grown, peak, self._kept() != before)

    def _kept(self) -> int:
        """How many files of compiled code are kept."""
        return sum(1 for _ in self._code.rglob("*"))

    def warm(self) -> tuple[float, Any]:
        """Seconds, and the answer."""
        self._connection.send("warm")
        seconds, answer = self._expect(self.cap)
        return seconds, answer

    def held(self) -> Held:
        self._connection.send("held")
        return Held(*self._expect(self.cap))

    def _expect(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            raise Stopped(f"not done in {seconds:g} s")
        try:
            kind, content = self._connection.recv()
        except EOFError:
            self._process.join()
            raise Broken(f"its process ended ({self._process.exitcode})") from None
        if kind == "trouble":
            raise Broken(content)
        return content

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._connection.close()
        self._own.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _serve(connection: Connection, side: Side, folder: Path, cache: str) -> None:
    """What the process does."""
    os.environ["GDATALOG_CACHE"] = cache
    os.environ["NUMBA_CACHE_DIR"] = cache
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(side.threads)
    state: Any = None
    try:
        given = side.load(read_columns(folder))
        connection.send(("ready", None))
        while True:
            verb = connection.recv()
            if verb == "cold":
                state = None
                memory.forget()
                before = memory.resident()
                started = perf_counter()
                state = side.build(given)
                built = perf_counter()
                connection.send(("built", built - started))
                answered_from = perf_counter()
                answer = side.answer(state)
                seconds = perf_counter() - answered_from
                peak = memory.peak()
                connection.send(("done", (seconds, side.value(answer), peak - before, peak)))
            elif verb == "warm":
                started = perf_counter()
                answer = side.answer(state)
                seconds = perf_counter() - started
                connection.send(("done", (seconds, side.value(answer))))
            else:
                answer = None
                memory.forget()
                before = memory.resident()
                side.answer(state)
                connection.send(("done", (before, memory.peak())))
            answer = None
    except (EOFError, KeyboardInterrupt):
        return
    except BaseException as error:
        text = traceback.format_exception_only(error)[-1].strip()
        connection.send(("trouble", text))
