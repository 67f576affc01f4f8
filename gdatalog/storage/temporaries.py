"""Files and folders that are filled under another name, beside the place that they take.

Their process holds a lock on each. A process that was killed leaves them behind; the next one that
writes into that folder removes those that nobody holds.
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
_swept: set[str] = set()  # folders that this process has looked through


@contextmanager
def beside(folder: str, make: Callable[[str], None]) -> Iterator[str]:
    """A new file or folder in `folder`, which `make` makes at a path; removed at the end if it is
    still there."""
    _sweep(folder)
    while True:
        path = os.path.join(folder, f".gdatalog-{secrets.token_hex(8)}.tmp")
        make(path)
        held, taken = _lock(path)
        if not taken and os.path.exists(path):
            break
        if held is not None:  # another process has taken it for left behind
            os.close(held)
    try:
        yield path
    finally:
        _remove(path)
        if held is not None:
            os.close(held)


def _lock(path: str) -> tuple[int | None, bool]:
    """What holds a file or folder until it is closed, and whether another process holds it. The
    first is None also where files cannot be held."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is removed
        return None, False
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        return None, False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        return None, isinstance(error, BlockingIOError)
    return opened, False


def _sweep(folder: str) -> None:
    """Removes what processes that are gone have left."""
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
