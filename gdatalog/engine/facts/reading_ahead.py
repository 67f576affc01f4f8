"""A thread that reads files before rules request them, in the order of these requests.

Errors in the thread are dropped: the rule that requests the file reads it again and gets the error.
Files are read one after the other, in a fixed order, so that a program's strings get codes of the
same ranges each time: plans and loops depend on these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Lock
from typing import Any

from gdatalog.cancellation import PATIENCE, Watch, current_watch, working_for
from gdatalog.records import dataclass, field
from gdatalog.storage.load_options import Findings
from gdatalog.storage.relation import Relation
from gdatalog.threads import begun

LARGE = 1 << 21  # bytes of a file worth reading ahead
LONG = 1 << 20  # bytes of a file that compiled code reads
ROOM = 4  # bytes of memory needed for each byte of a file

Key = tuple[Any, ...]


@dataclass(slots=True)
class FileContent:
    """The content of a file, and the notes about it."""

    relation: Relation
    findings: Findings


@dataclass(slots=True)
class FileReading:
    """A file to read."""

    key: Key  # cache key of its content
    what: str  # for progress reports
    size: int
    read: Callable[[], FileContent]
    made: FileContent | None = None
    done: Event = field(default_factory=Event)


class ReadingAhead:
    """Reads files, one after the other, during the evaluation."""

    def __init__(self, files: Sequence[FileReading], spare: Callable[[], int]) -> None:
        """`spare`: how many more bytes may be held."""
        worth = any(each.size >= LARGE for each in files)
        self._waiting = {each.key: each for each in files} if worth else {}
        self._spare = spare
        self._lock = Lock()
        self._watch: Watch | None = None

    def after(self, size: int) -> None:
        """Called after a file of this many bytes was read on request. After the first long file, a
        thread reads the others: by then the modules that it needs are imported."""
        if self._watch is None and self._waiting and size >= LONG:
            self._watch = current_watch().beside()
            begun(self._run)

    def stop(self) -> None:
        """Stops the thread at its next poll, because no one needs files any more."""
        with self._lock:
            self._waiting.clear()
        if self._watch is not None:
            self._watch.left = True

    def take(self, key: Key) -> FileContent | None:
        """The content of a file, if the thread reads it."""
        with self._lock:
            file = self._waiting.get(key)
        if file is not None and self._watch is not None:
            watch = current_watch()
            while not file.done.wait(PATIENCE):
                watch.poll()
        with self._lock:
            self._waiting.pop(key, None)
        return None if file is None else file.made

    def _run(self) -> None:
        assert self._watch is not None
        working_for(self._watch)
        try:
            for file in list(self._waiting.values()):
                try:
                    with self._lock:
                        asked = file.key in self._waiting
                    if asked and ROOM * file.size <= self._spare():
                        with self._watch.work("loading", file.what):
                            file.made = file.read()
                except BaseException:  # also cancellation
                    pass
                finally:
                    file.done.set()
        finally:
            working_for(Watch())
