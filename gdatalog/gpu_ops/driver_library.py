"""The library of CUDA's driver, for what CuPy has no functions for."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class Refused(Exception):
    """The driver's library lacks a function, or the function failed. `status`: CUDA's error
    number."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name}: error {status}")
        self.status = status


class DriverLibrary:
    """Calls functions of the library for GPU `number`. `what`: what takes memory, for errors."""

    def __init__(self, number: int, what: str) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        self._library, self._what = ctypes.CDLL(name), what
        self._context = ctypes.c_void_p()  # CuPy's; another one may be current
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), number)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the GPU current in this thread. Another one may be current when pages are freed."""
        before = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(before))
        if before.value == self._context.value:
            yield
            return
        self.call("cuCtxSetCurrent", self._context)
        try:
            yield
        finally:
            self.call("cuCtxSetCurrent", before)

    def call(self, name: str, *args: Any) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise Refused(name, 0) from None
        # Numbers have 64 bits; where C expects an int, it ignores the upper half.
        words = [ctypes.c_uint64(arg) if isinstance(arg, int) else arg for arg in args]
        status = int(function(*words))
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{self._what}: {name}: out of memory")
        if status:
            raise Refused(name, status)
