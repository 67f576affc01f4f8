"""The values that a worker has read from files of broadcasts.

Workers keep the most recently used values, in at most half of their memory.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from threading import RLock

from gdatalog.cluster.workers.own_process import own_memory
from gdatalog.cluster.workers.stored_rows import read
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class BroadcastFile:
    """The file of a value. `once`: workers do not keep it."""

    path: str
    once: bool = False

    def value(self) -> object:
        with _lock:
            found = _held.get(self.path)
            if found is not None:
                _held.move_to_end(self.path)
                return found[0]
            try:
                value, size = read(self.path), os.path.getsize(self.path)
            except FileNotFoundError as error:
                raise MissingBroadcast(self.path) from error
            if self.once:
                return value
            _held[self.path] = value, size
            limit = own_memory()
            while limit and len(_held) > 1 and sum(n for _, n in _held.values()) > limit // 2:
                _held.popitem(last=False)
            return value


class MissingBroadcast(Exception):
    """A worker does not see the file of a value that a call needs, or its input's call."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


_held: OrderedDict[str, tuple[object, int]] = OrderedDict()  # by path, in order of last use
_lock = RLock()


def forget(paths: tuple[str, ...]) -> None:
    """Drops the values of files whose paths start so."""
    with _lock:
        for path in [path for path in _held if path.startswith(paths)]:
            _held.pop(path, None)


def can_read(path: str, token: str) -> bool:
    """Whether this process sees a file, and it contains the expected token."""
    try:
        return Path(path).read_text(encoding="utf-8") == token
    except OSError:
        return False
