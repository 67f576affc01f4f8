"""Rows that a worker keeps, in memory while there is room, else in files; and the memory that this
leaves for calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from threading import RLock
from typing import Any
from uuid import uuid4
from weakref import finalize

import numpy as np

from gdatalog.cluster.workers.worker import left_of, own_memory, own_worker
from gdatalog.storage.rows import Columns

UNLIMITED = 4 << 30  # a worker's memory, where nothing limits it
# Of a worker's memory, and of what it does not need for itself: what buckets take in memory.
STORED, STORED_OF_LEFT = 1 / 8, 1 / 4
# And what slices take on their way, of which there are some copies.
MOVING, MOVING_OF_LEFT, MOST_MOVING, COPIES = 1 / 32, 1 / 16, 32 << 20, 4


def room_of(memory: int) -> float:
    """What is left of a worker's memory for the calls that it runs."""
    left = left_of(memory)
    moving = int(min(MOST_MOVING, memory * MOVING, left * MOVING_OF_LEFT))
    return left - _stored_of(memory) - COPIES * moving


def _stored_of(memory: int) -> int:
    return int(min(memory * STORED, left_of(memory) * STORED_OF_LEFT))


class StoredRows:
    """Rows of at least one column that a worker keeps: in memory while there is room, else in a
    file, of which any range is read by itself. (Dask would read a value that it has spilled as a
    whole.)"""

    def __init__(self, columns: Columns) -> None:
        self.rows = len(columns[0])
        self.kinds = tuple(column.dtype.str for column in columns)
        self._columns: Columns | None = None
        size = sum(column.nbytes for column in columns)
        if _stored.take(size):
            # A part of a longer array would keep all of it.
            self._columns = tuple(c if c.base is None else c.copy() for c in columns)
            finalize(self, _stored.give, size)
        else:
            worker = own_worker()
            folder = gettempdir() if worker is None else worker.local_directory
            self._path = Path(folder, f"gdatalog-{uuid4().hex}")
            finalize(self, _remove, self._path)
            with self._path.open("wb") as file:
                for column in columns:
                    np.ascontiguousarray(column).tofile(file)

    def read(
        self, start: int = 0, stop: int | None = None, only: Sequence[int] | None = None
    ) -> Columns:
        """The rows from one place to another; of some columns, if said."""
        stop = self.rows if stop is None else stop
        wanted = range(len(self.kinds)) if only is None else only
        if self._columns is not None:
            return tuple(self._columns[at][start:stop] for at in wanted)
        widths = [np.dtype(kind).itemsize for kind in self.kinds]
        found = []
        with self._path.open("rb") as file:
            for at in wanted:
                file.seek(self.rows * sum(widths[:at]) + start * widths[at])
                found.append(np.fromfile(file, self.kinds[at], stop - start))
        return tuple(found)

    def columns(self) -> Columns:
        return self.read()

    def __sizeof__(self) -> int:
        return 100 + sum(column.nbytes for column in self._columns or ())

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredRows, (self.read(),)


class _Room:
    """The memory of this process that stored rows may take."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._lock = RLock()  # the collector may give back while this thread takes

    def take(self, size: int) -> bool:
        """Whether there is so much left; then it is taken."""
        with self._lock:
            if self._left is None:
                self._left = _stored_of(own_memory() or UNLIMITED)
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits

    def give(self, size: int) -> None:
        with self._lock:
            assert self._left is not None
            self._left += size


_stored = _Room()


def _remove(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)
