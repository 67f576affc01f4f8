"""Where CuPy keeps the machine code of kernels: beside that of compiled loops.

CuPy reads the folder's name from the environment when it is imported. What a user has set, and
what a program that imported CuPy first has chosen, stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from gdatalog.codegen.cache import CacheSize, home, own

MOST_BYTES = 512 << 20

_NAME = "CUPY_CACHE_DIR"
_held: list[tempfile.TemporaryDirectory[str]] = []  # go when this process ends


def import_cupy() -> ModuleType:
    """CuPy, told of the folder before it is imported."""
    if "cupy" in sys.modules or _NAME in os.environ:
        import cupy

        return cupy  # type: ignore[no-any-return]  # CuPy has no types
    os.environ[_NAME] = _made()
    try:
        import cupy
    finally:
        del os.environ[_NAME]  # it is nothing to other programs that we start
    return cupy  # type: ignore[no-any-return]  # CuPy has no types


def folder() -> Path:
    """Ours; CuPy has another, if the user has set it."""
    return home() / "kernels"


def _made() -> str:
    try:
        found = own(folder())
        let_go()
        return str(found)
    except OSError:  # a query is answered all the same
        held = tempfile.TemporaryDirectory(prefix="gdatalog-kernels-")
        _held.append(held)
        return held.name


def _kernels() -> Iterator[tuple[float, int, Path]]:
    """All that is kept in our folder: when it was made, its size, its file."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder()):
            if entry.is_file(follow_symlinks=False):
                state = entry.stat()
                yield state.st_mtime, state.st_size, Path(entry)


def size() -> CacheSize:
    """How much is kept now."""
    sizes = [size for _, size, _ in _kernels()]
    return CacheSize(len(sizes), sum(sizes))


def let_go(most: int = MOST_BYTES) -> CacheSize:
    """Deletes what is oldest, where there is more than so many bytes; tells how much it was."""
    found = sorted(_kernels())
    total = sum(size for _, size, _ in found)
    files = freed = 0
    for _, size, path in found:
        if total - freed <= most:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            files, freed = files + 1, freed + size
    return CacheSize(files, freed)
