"""The code cache: object files by name, in the user's cache folder.

What is on disk is never trusted to be whole: a file begins with the hash of its name and the rest.
Whatever the disk refuses, a query is answered: from a temporary folder, and if there is none,
without keeping anything. Names are content hashes and are never reused, so processes may write the
files of a name in any order.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import RLock
from time import time

from gdatalog.records import dataclass

MOST_BYTES, MOST_FILES = 64 << 20, 8000
DAY = 86_400.0  # seconds

_FOLDERS, _SUFFIX = "code-*", ".code"
_SUM = 32  # bytes of a hash
_SELDOM = 64  # files that a process keeps between two looks at how much there is

_lock = RLock()


@dataclass(slots=True)
class _CacheFolder:
    """Where this process keeps its code. `trouble`: why not in the user's cache folder."""

    path: Path | None = None
    trouble: str | None = None
    kept: int = 0  # files


_place = _CacheFolder()


@dataclass(frozen=True, slots=True)
class CacheSize:
    """How much is kept, of all versions of gdatalog."""

    modules: int
    bytes: int


def read(name: str) -> bytes | None:
    """What was kept under a name, if it is whole."""
    try:
        path = folder() / (name + _SUFFIX)
        data = path.read_bytes()
        if time() - path.stat().st_mtime > DAY:
            os.utime(path)  # its time says when it was used last
    except OSError:
        return None
    kept = data[_SUM:]
    return kept if _sum(name, kept) == data[:_SUM] else None


def keep(name: str, code: bytes) -> None:
    """Keeps code under a name, where there is room."""
    data = _sum(name, code) + code
    with contextlib.suppress(OSError):
        try:
            _write(folder() / (name + _SUFFIX), data)
        except OSError as problem:
            if _place.trouble is not None:
                return
            _write(_elsewhere(problem) / (name + _SUFFIX), data)
        with _lock:
            _place.kept += 1
            many = _place.kept % _SELDOM == 1
        if many:
            _let_go(folder().parent)


def _sum(name: str, code: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(code)
    return digest.digest()


def _write(path: Path, data: bytes) -> None:
    """All of a file or nothing of it, whoever else writes it too."""
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise


# ----------------------------------------------------------------------------------- folders


def folder() -> Path:
    """The folder of this process's code. It is made if it is not there."""
    with _lock:
        if _place.path is None:
            try:
                _place.path = own(home() / _version())
            except OSError as problem:
                _place.path = _elsewhere(problem)
        return _place.path


def trouble() -> str | None:
    """Why code is in a temporary folder, if it is: nothing is kept after this process."""
    return _place.trouble


def home() -> Path:
    """The folder of all that is generated, for whichever device."""
    setting = os.environ.get("GDATALOG_CACHE")
    if setting:
        return Path(setting).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("gdatalog"))


def _version() -> str:
    return f"code-{sys.modules['gdatalog'].__version__}"


def own(path: Path) -> Path:
    """The folder, which nobody else can write to, or put another in the place of: what is in it is
    executed. So its parent belongs to this user or to root, and others cannot rename what is in
    that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if hasattr(os, "getuid"):
        above, found = path.parent.stat(), path.lstat()
        user = os.getuid()
        shared = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
        if shared or above.st_uid not in (user, 0):
            raise PermissionError(f"{path.parent} can be changed by other users")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
            raise PermissionError(f"{path} is no folder of this user")
        path.chmod(0o700)
    tempfile.TemporaryFile(dir=path).close()
    return path


def _elsewhere(problem: OSError) -> Path:
    """A folder that goes when this process ends: what is made from now on goes there."""
    _place.trouble = " ".join(str(problem).split())
    root, process = tempfile.mkdtemp(prefix="gdatalog-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not in a child that was forked
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    _place.path = own(Path(root) / _version())
    return _place.path


def _files(root: Path) -> Iterator[tuple[float, int, str]]:
    """All that is kept, left-overs and other versions' too: when used last, size, file."""
    for where in root.glob(_FOLDERS):
        for parent, _, names in os.walk(where):
            for name in names:
                path = os.path.join(parent, name)
                with contextlib.suppress(OSError):
                    state = os.lstat(path)
                    yield state.st_mtime, state.st_size, path


def _let_go(root: Path) -> None:
    """What was not used for longest goes, where there is too much."""
    found = sorted(_files(root))
    count, total = len(found), sum(size for _, size, _ in found)
    if count <= MOST_FILES and total <= MOST_BYTES:
        return
    for _, size, path in found:
        if count <= MOST_FILES * 0.8 and total <= MOST_BYTES * 0.8:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            count, total = count - 1, total - size


def size() -> CacheSize:
    """How much is kept now."""
    found = list(_files(folder().parent))
    modules = sum(path.endswith(_SUFFIX) for _, _, path in found)
    return CacheSize(modules, sum(size for _, size, _ in found))


def clear() -> CacheSize:
    """Deletes all that is kept, of all versions; tells how much it was.

    Code in memory stays: queries that run now use it.
    """
    modules = freed = 0
    for _, size, path in list(_files(folder().parent)):
        with contextlib.suppress(OSError):
            os.unlink(path)
            modules, freed = modules + path.endswith(_SUFFIX), freed + size
    for where in folder().parent.glob(_FOLDERS):
        for parent, _, _ in os.walk(where, topdown=False):
            if Path(parent) != folder():
                with contextlib.suppress(OSError):
                    Path(parent).rmdir()
    return CacheSize(modules, freed)
