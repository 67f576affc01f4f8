"""Files and folders that are filled under a temporary name in the same folder.

Their process holds a lock on each. A process that was killed leaves them behind; the next one
that writes to that folder removes those without a lock.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NAME = re.compile(r"\.gdatalog-[0-9a-f]{16}\.tmp")
_swept: set[str] = set()  # folders that this process has cleaned


@contextmanager
def beside(folder: str, make: Callable[[str], None]) -> Iterator[str]:
    """A new file or folder in `folder`, which `make` makes at a path. Removed at the end if it
    still exists."""
    _sweep(folder)
    while True:
        path = os.path.join(folder, f".gdatalog-{secrets.token_hex(8)}.tmp")
        make(path)
        held, taken = _lock(path)
        if not taken and os.path.exists(path):
            break
        if held is not None:  # another process has removed it as left behind
            os.close(held)
    try:
        yield path
    finally:
        _remove(path)
        if held is not None:
            os.close(held)


@contextmanager
def locked(path: str) -> Iterator[bool]:
    """A context that holds the lock on a file or folder; whether no other process, or thread of
    this one, has it."""
    held, taken = _lock(path)
    try:
        yield not taken
    finally:
        if held is not None:
            os.close(held)


def _lock(path: str) -> tuple[int | None, bool]:
    """Locks a file or folder until the returned descriptor is closed; None if that is not possible.
    Also returns whether another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # on Windows nothing is removed
        return None, False
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
    except OSError:
        return None, False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        return None, isinstance(error, BlockingIOError)
    return opened, False


def _sweep(folder: str) -> None:
    """Removes the temporary files of processes that no longer exist."""
    if folder in _swept:
        return
    _swept.add(folder)
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        held, _ = _lock(path)
        if held is not None:
            _remove(path)
            os.close(held)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
