"""Opens files that gdatalog keeps for itself: the cache, the history, locks."""

from __future__ import annotations

import errno
import os
import stat

_PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def open_own(path: str | os.PathLike[str], flags: int) -> int:
    """Opens a file, and nothing else: a pipe would wait for its other end, and a device may do
    anything. Raises an `OSError` if something else is there.

    >>> open_own(os.devnull, os.O_RDONLY)
    Traceback (most recent call last):
    OSError: [Errno 22] not a regular file: '/dev/null'
    """
    if not flags & os.O_CREAT or os.path.exists(path):
        _check(os.stat(path), path)
    handle = os.open(path, flags | _PLAIN, 0o600)
    try:
        _check(os.fstat(handle), path)  # it may have been replaced
    except OSError:
        os.close(handle)
        raise
    return handle


def _check(of: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(of.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
