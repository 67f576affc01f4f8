"""The cache of compiled code: object files by name, in the user's cache folder.

A file may be damaged, so it starts with a hash of its name and contents. If the folder cannot be
used, queries use a temporary folder, or none. Names are content hashes and are never reused, so
processes may write the files of a name in any order.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from threading import RLock
from time import time

from gdatalog import distribution
from gdatalog.own_files import home, open_own, own, write_whole
from gdatalog.records import dataclass

MOST_BYTES, MOST_FILES = 128 << 20, 8000
DAY = 86_400.0  # seconds

_FOLDERS, _SUFFIX = "code-*", ".code"
_SUM = 32  # bytes of a hash
_SELDOM = 64  # files that a process writes between two checks of the total size

_lock = RLock()


@dataclass(slots=True)
class _CacheFolder:
    """The folder of this process's code. `trouble`: why it is not the user's cache folder."""

    path: Path | None = None
    trouble: str | None = None
    kept: int = 0  # files


_place = _CacheFolder()


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The size of the cache, of all versions of gdatalog."""

    modules: int
    bytes: int


def read(name: str) -> bytes | None:
    """The code that is cached under a name, if its file is undamaged."""
    try:
        path = folder() / (name + _SUFFIX)
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            data = file.read()
            used = os.fstat(file.fileno()).st_mtime
        if time() - used > DAY:
            os.utime(path)  # the time of last use
    except OSError:
        return None
    kept = data[_SUM:]
    return kept if _sum(name, kept) == data[:_SUM] else None


def keep(name: str, code: bytes) -> None:
    """Caches code under a name, if the disk has room."""
    data = _sum(name, code) + code
    with contextlib.suppress(OSError):
        try:
            write_whole(folder() / (name + _SUFFIX), data)
        except OSError as problem:
            if _place.trouble is not None:
                return
            write_whole(_elsewhere(problem) / (name + _SUFFIX), data)
        count()


def count() -> None:
    """Counts a file that was written to the folder, and makes room from time to time."""
    with _lock:
        _place.kept += 1
        many = _place.kept % _SELDOM == 1
    if many:
        _let_go()


def _sum(name: str, code: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(code)
    return digest.digest()


def folder() -> Path:
    """The folder of this process's code, created on first use."""
    with _lock:
        if _place.path is None:
            try:
                _place.path = own(home() / _version())
            except OSError as problem:
                _place.path = _elsewhere(problem)
        return _place.path


def trouble() -> str | None:
    """Why code is in a temporary folder, which is deleted when this process ends; None if it is
    not."""
    return _place.trouble


def _version() -> str:
    return f"code-{distribution.VERSION}"


def _elsewhere(problem: OSError) -> Path:
    """Moves the cache to a temporary folder, which is deleted when this process ends."""
    _place.trouble = " ".join(str(problem).split())
    root, process = tempfile.mkdtemp(prefix="gdatalog-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not in a child that was forked
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    _place.path = own(Path(root) / _version())
    return _place.path


File = tuple[float, int, str]  # time of last use, size, path


def files_in(where: Path) -> Iterator[File]:
    for parent, _, names in os.walk(where):
        for name in names:
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):
                state = os.lstat(path)
                yield state.st_mtime, state.st_size, path


def _code_files() -> list[File]:
    """All files of code, of other versions and left-overs too."""
    return [file for where in folder().parent.glob(_FOLDERS) for file in files_in(where)]


def free(files: Iterable[File], most_bytes: float, most_files: float = inf) -> list[File]:
    """Deletes the least recently used files until no more are left than this; returns which."""
    found, gone = sorted(files), list[File]()
    count, total = len(found), sum(size for _, size, _ in found)
    for file in found:
        if count <= most_files and total <= most_bytes:
            break
        with contextlib.suppress(OSError):
            os.unlink(file[2])
            gone.append(file)
            count, total = count - 1, total - file[1]
    return gone


def _let_go() -> None:
    """Makes room if the cache of code is too large."""
    found = _code_files()
    if len(found) > MOST_FILES or size_of(found).bytes > MOST_BYTES:
        free(found, MOST_BYTES * 0.8, MOST_FILES * 0.8)


def size_of(files: Sequence[File], suffix: str = "") -> CacheSize:
    modules = sum(path.endswith(suffix) for _, _, path in files)
    return CacheSize(modules, sum(size for _, size, _ in files))


def size() -> CacheSize:
    """The present size of the cache."""
    return size_of(_code_files(), _SUFFIX)


def clear() -> CacheSize:
    """Deletes all cached files of all versions; returns how much that was.

    Code in memory stays, for running queries.
    """
    gone = free(_code_files(), -1)
    for where in folder().parent.glob(_FOLDERS):
        for parent, _, _ in os.walk(where, topdown=False):
            if Path(parent) != folder():
                with contextlib.suppress(OSError):
                    os.rmdir(parent)
    return size_of(gone, _SUFFIX)
