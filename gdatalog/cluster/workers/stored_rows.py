"""The rows that a worker keeps in memory or in files. `set_free` runs on the scheduler."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import finalize

from gdatalog.cluster.workers.own_process import own_worker
from gdatalog.storage.rows import Columns

ALIGNED = 64  # bytes: the alignment that vector instructions prefer


def write(value: object, path: str) -> int:
    """Writes a value such that its arrays can be mapped; returns the file's size in bytes."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = pickle.dumps([len(body), *(view.nbytes for view in views)], protocol=5)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + body)
        for view in views:
            file.write(bytes(-file.tell() % ALIGNED))
            file.write(view)
        return file.tell()


def read(path: str) -> Any:
    """Reads a value whose arrays are mapped: only pages that are read take memory, once for all
    workers of a machine. Changes stay private to this process."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    at = 8 + int.from_bytes(mapped[:8], "little")
    length, *sizes = pickle.loads(mapped[8:at])
    body = mapped[at : at + length]
    at += length
    buffers = []
    for size in sizes:
        at += -at % ALIGNED
        buffers.append(mapped[at : at + size])
        at += size
    return pickle.loads(body, buffers=buffers)


class StoredRows:
    """Rows that a worker keeps in a file, with at least one column. Workers read ranges of them;
    Dask would read a spilled value as a whole."""

    def __init__(self, columns: Columns) -> None:
        worker = own_worker()
        folder = tempfile.gettempdir() if worker is None else worker.local_directory
        self._path = str(Path(folder, f"gdatalog-{uuid4().hex}"))
        finalize(self, _remove, self._path)
        write(columns, self._path)

    def read(self, start: int = 0, stop: int | None = None) -> Columns:
        """A range of the rows."""
        return tuple(column[start:stop] for column in read(self._path))

    def __reduce__(self) -> tuple[object, ...]:
        return StoredRows, (self.read(),)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def set_free(dask_scheduler: Any, wanted: Sequence[str] = (), failed: Sequence[str] = ()) -> None:
    """Resumes tasks that Dask (2026.8) has forgotten.

    First, tasks that may run anywhere but preferred a worker that died when there was no other:
    Dask reconsiders them only when that worker comes back. Second, `wanted` tasks, or their
    dependencies, that were lost after one of their own dependencies had failed: they would wait for
    ever. Retrying that dependency passes its result or error on to them. Third, `failed` tasks.
    """
    stuck = {ts.key: "processing" for ts in dask_scheduler.unrunnable if ts.loose_restrictions}
    if stuck and dask_scheduler.running:
        dask_scheduler.transitions(stuck, stimulus_id="gdatalog-set-free")
    tasks = dask_scheduler.tasks
    forgotten: set[Any] = set()
    retried = {key for key in failed if key in tasks and tasks[key].state == "erred"}
    todo = [tasks[key] for key in wanted if key in tasks and tasks[key].state != "erred"]
    while todo:
        task = todo.pop()
        if task.state in ("waiting", "released") and task not in forgotten:
            forgotten.add(task)
            todo += task.dependencies
        elif task.state == "erred":
            retried.add(task.key)
    if retried:
        again = {task.key: "waiting" for task in forgotten if task.state == "released"}
        dask_scheduler.stimulus_retry(keys=list(retried))
        dask_scheduler.transitions(again, stimulus_id="gdatalog-set-free")
