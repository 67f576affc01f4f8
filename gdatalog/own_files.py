"""The files and folders that gdatalog keeps for itself: the cache, the history, locks."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

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


def home() -> Path:
    """The folder of all that is generated: code, for any device, and the tables of the parser."""
    setting = os.environ.get("GDATALOG_CACHE")
    if setting:
        return Path(setting).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("gdatalog"))


def own(path: Path) -> Path:
    """Creates a folder that only this user can write to or replace, because its files are executed.
    So its parent must belong to this user or to root, and other users must not be able to rename
    files in the parent."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    check_owner(path)
    if hasattr(os, "getuid"):
        path.chmod(0o700)
    import tempfile

    tempfile.TemporaryFile(dir=path).close()
    return path


def check_owner(path: Path) -> None:
    """Raises a `PermissionError` unless only this user, or root, can replace a folder."""
    if hasattr(os, "getuid"):
        above, found = path.parent.stat(), path.lstat()
        user = os.getuid()
        shared = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
        if shared or above.st_uid not in (user, 0):
            raise PermissionError(f"{path.parent} can be changed by other users")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
            raise PermissionError(f"{path} is no folder of this user")


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically, also if other processes write it."""
    import tempfile

    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
