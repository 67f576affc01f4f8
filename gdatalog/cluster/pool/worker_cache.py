"""What a worker has of the values that are placed on all: mapped from files, or kept as sent.

This runs on workers, but for `write`. The values that were used last are kept, as long as they
take no more than half of the worker's memory; what comes back is mapped anew, or asked for.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any

from gdatalog.cluster.workers.worker import own_memory
from gdatalog.records import dataclass

BAD = ("lost", "cancelled", "error")  # how futures are that have nothing
ALIGNED = 64  # bytes: what a vector instruction likes


@dataclass(frozen=True, slots=True)
class BroadcastRef:
    """What a value is known by on workers, and the file where it lies; None if it was sent.
    `once`: workers do not keep it."""

    token: str
    path: str | None
    once: bool = False


class MissingBroadcast(Exception):
    """A worker that is asked for a value does not have it. `unseen`: it should see the file where
    that lies."""

    def __init__(self, unseen: bool) -> None:
        super().__init__(unseen)
        self.unseen = unseen


_held: OrderedDict[str, tuple[Any, int]] = OrderedDict()  # those used last at the end
_lock = RLock()


def value_of(ref: BroadcastRef, brought: Mapping[BroadcastRef, Any]) -> Any:
    """The value; raises `MissingBroadcast` if nobody has brought it."""
    with _lock:
        found = _held.get(ref.token)
        if found is not None:
            _held.move_to_end(ref.token)
            return found[0]
        if ref in brought:
            value = brought[ref]
            size = int(getattr(value, "nbytes", 0))
        elif ref.path is None:
            raise MissingBroadcast(unseen=False)
        else:
            try:
                value, size = read(ref.path), os.path.getsize(ref.path)
            except FileNotFoundError as error:
                raise MissingBroadcast(unseen=True) from error
        if not ref.once:
            _keep(ref.token, value, size)
        return value


def forget(tokens: Iterable[str]) -> None:
    """Lets go of values."""
    with _lock:
        for token in tokens:
            _held.pop(token, None)


def _keep(token: str, value: Any, size: int) -> None:
    _held[token] = value, size
    limit = own_memory()
    if limit is not None:
        while len(_held) > 1 and sum(size for _, size in _held.values()) > limit // 2:
            _held.popitem(last=False)


# ------------------------------------------------------------------------------------ files


def can_read(path: str, token: str) -> bool:
    """Whether a file is seen here, and is the one that is meant."""
    try:
        return Path(path).read_text(encoding="utf-8") == token
    except OSError:
        return False


def write(value: Any, path: str) -> int:
    """Writes a value so that its arrays can be mapped; how many bytes that takes."""
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
    """The value of a file. Its arrays are mapped: they take no memory but of what is read, once
    for all workers of a machine; what somebody changes is changed for nobody else."""
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
