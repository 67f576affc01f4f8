"""The kernels that CuPy caches, in a folder beside that of compiled code.

CuPy reads the folder's name from the environment when it is imported. A folder that the user has
set stays, and so does that of a program that has imported CuPy before.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from gdatalog.codegen.cache import CacheSize, files_in, free, size_of
from gdatalog.own_files import home, own

MOST_KERNEL_BYTES = 512 << 20

_CUPY_FOLDER = "CUPY_CACHE_DIR"
_held_folders: list[tempfile.TemporaryDirectory[str]] = []  # deleted when this process ends


def import_cupy() -> ModuleType:
    """Imports CuPy, with our folder as its cache."""
    if "cupy" in sys.modules or _CUPY_FOLDER in os.environ:
        import cupy

        return cupy  # type: ignore[no-any-return]  # CuPy has no types
    os.environ[_CUPY_FOLDER] = _made_folder()
    try:
        import cupy
    finally:
        del os.environ[_CUPY_FOLDER]  # child processes do not inherit it
    return cupy  # type: ignore[no-any-return]  # CuPy has no types


def kernel_folder() -> Path:
    """Our folder. CuPy uses another one if the user has set it."""
    return home() / "kernels"


def _made_folder() -> str:
    try:
        found = own(kernel_folder())
        free_kernels()
        return str(found)
    except OSError:  # queries run without a lasting cache
        held = tempfile.TemporaryDirectory(prefix="gdatalog-kernels-")
        _held_folders.append(held)
        return held.name


def kernels_size() -> CacheSize:
    """How many files are cached, and their size."""
    return size_of(list(files_in(kernel_folder())))


def free_kernels(most: int = MOST_KERNEL_BYTES) -> CacheSize:
    """Deletes the oldest files until no more than `most` bytes are left; returns how much it
    deleted."""
    return size_of(free(files_in(kernel_folder()), most))
