"""What was typed before, in a file of the user's: an entry a line, as JSON, the latest last.

Sessions that run side by side add to the same file. Each entry is there once, and there are never
more than so many.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from prompt_toolkit.history import History

MOST = 2000  # entries
LONGEST = 20_000  # characters of an entry; what is longer was pasted from a file


class KeptHistory(History):
    """History for prompt_toolkit. `trouble` says why it cannot be kept, if it cannot."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.trouble = ""
        self._path = path

    def load_history_strings(self) -> Iterator[str]:
        """The latest first."""
        try:
            if self._path is None:
                self._path = state_folder() / "history"
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path) as file:
                entries = _entries(file.read())
                kept = list(dict.fromkeys(reversed(entries)))[:MOST]
                if len(entries) > 2 * MOST:
                    file.seek(0)
                    file.write(b"".join(map(_line, reversed(kept))))
                    file.truncate()
        except OSError as problem:
            self._fail(problem)
            return iter(())
        # What was typed before it was read is the latest.
        return iter(list(dict.fromkeys([*self._loaded_strings, *kept])))

    def append_string(self, string: str) -> None:
        string = string.strip()
        if string in self._loaded_strings:
            self._loaded_strings.remove(string)
        if string:
            super().append_string(string)

    def store_string(self, string: str) -> None:
        if self.trouble or self._path is None or len(string) > LONGEST:
            return
        try:
            with _locked(self._path) as file:
                file.seek(0, os.SEEK_END)
                file.write(_line(string))
        except OSError as problem:
            self._fail(problem)

    def _fail(self, problem: OSError) -> None:
        why = problem.strerror or type(problem).__name__
        self.trouble = f"(what you type is not kept for later sessions: {self._path}: {why})"


def state_folder() -> Path:
    """Where what is to outlive a session is kept; $GDATALOG_STATE moves it."""
    given = os.environ.get("GDATALOG_STATE")
    if given:
        return Path(given)
    from platformdirs import user_state_path

    return user_state_path("gdatalog", appauthor=False)


def _line(entry: str) -> bytes:
    # Half characters, as a terminal may send them, are written as escapes.
    return (json.dumps(entry) + "\n").encode("ascii")


def _entries(data: bytes) -> list[str]:
    """The entries of a file; lines that are none, such as one cut short, are left out."""
    found = []
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, str):
            found.append(entry)
    return found


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, for one process at a time; it is made if it is not there."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file is closed
        yield file
