"""CUDA's context of a GPU, which another thread makes while this one imports CuPy or reads files.

Making it takes as long as importing CuPy. CuPy uses it, since it is the GPU's primary context.
"""

from __future__ import annotations

import ctypes
import sys

from gdatalog.threads import PoolTask, begun

_begun: dict[int, PoolTask] = {}


def driver_library() -> ctypes.CDLL | None:
    """The library of NVIDIA's driver, if it is there."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def begin(number: int) -> PoolTask:
    """Begins to make the context of a GPU, once. If that fails, CuPy's attempt says why."""
    task = _begun.get(number)
    if task is None:
        task = _begun[number] = begun(lambda: _make(number))
    return task


def _make(number: int) -> None:
    library = driver_library()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if library is None or library.cuInit(0) or library.cuDeviceGet(ctypes.byref(device), number):
        return
    library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
