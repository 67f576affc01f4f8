"""The folder where CuPy caches the machine code of kernels, beside that of compiled loops.

CuPy reads its name from the environment when it is imported. A folder that the user has set stays,
and so does that of a program that has imported CuPy before.
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
_held: list[tempfile.TemporaryDirectory[str]] = []  # deleted when this process ends


def import_cupy() -> ModuleType:
    """Imports CuPy, with our folder as its cache."""
    if "cupy" in sys.modules or _NAME in os.environ:
        import cupy

        return cupy  # type: ignore[no-any-return]  # CuPy has no types
    os.environ[_NAME] = _made()
    try:
        import cupy
    finally:
        del os.environ[_NAME]  # child processes do not inherit it
    return cupy  # type: ignore[no-any-return]  # CuPy has no types


def folder() -> Path:
    """Our folder. CuPy uses another one if the user has set it."""
    return home() / "kernels"


def _made() -> str:
    try:
        found = own(folder())
        let_go()
        return str(found)
    except OSError:  # queries run without a lasting cache
        held = tempfile.TemporaryDirectory(prefix="gdatalog-kernels-")
        _held.append(held)
        return held.name


def _kernels() -> Iterator[tuple[float, int, Path]]:
    """The files in our folder: modification time, size, path."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder()):
            if entry.is_file(follow_symlinks=False):
                state = entry.stat()
                yield state.st_mtime, state.st_size, Path(entry)


def size() -> CacheSize:
    """How many files are cached, and their size."""
    sizes = [size for _, size, _ in _kernels()]
    return CacheSize(len(sizes), sum(sizes))


def let_go(most: int = MOST_BYTES) -> CacheSize:
    """Deletes the oldest files until no more than `most` bytes are left; returns how much it
    deleted."""
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
