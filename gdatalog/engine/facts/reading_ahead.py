"""Reads files in a thread, before rules request them, in the order of these requests.

The thread drops errors: the rule that requests the file reads it again and gets the error. It
reads the files in a fixed order, so that a program's strings get codes of the same ranges in each
run: plans and loops depend on these ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

from gdatalog.cancellation import PATIENCE, Watch, current_watch, working_for
from gdatalog.records import dataclass, field
from gdatalog.storage.load_options import Findings
from gdatalog.storage.relation import Relation
from gdatalog.threads import begun

LARGE = 1 << 21  # bytes of a file worth reading ahead
LONG = 1 << 20  # bytes of a file that compiled code reads
ROOM = 4  # bytes of memory needed for each byte of a file

Key = tuple[object, ...]
FileContent = tuple[Relation, Findings]  # the content of a file, and the notes about it


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
        self._watch: Watch | None = None

    def after(self, size: int) -> None:
        """Called after a file of this many bytes was read on request. After the first long file, a
        thread reads the others: by then the modules that it needs are imported."""
        if self._watch is None and self._waiting and size >= LONG:
            self._watch = Watch(current_watch())
            begun(self._run)

    def stop(self) -> None:
        """Stops the thread at its next poll, because no one needs files any more."""
        self._waiting.clear()
        if self._watch is not None:
            self._watch.left = True

    def take(self, key: Key) -> FileContent | None:
        """Waits for the thread, and returns a file's content; None if it does not read the file."""
        file = self._waiting.get(key)
        if file is not None and self._watch is not None:
            watch = current_watch()
            while not file.done.wait(PATIENCE):
                watch.poll()
        self._waiting.pop(key, None)
        return None if file is None else file.made

    def _run(self) -> None:
        assert self._watch is not None
        working_for(self._watch)
        try:
            for file in list(self._waiting.values()):
                try:
                    if file.key in self._waiting and ROOM * file.size <= self._spare():
                        with self._watch.work("loading", file.what):
                            file.made = file.read()
                except BaseException:  # also cancellation
                    pass
                finally:
                    file.done.set()
        finally:
            working_for(Watch())
