"""Copies to a real GPU, in a stream of their own, and what CUDA says where something fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gdatalog.errors import DeviceError
from gdatalog.gpu_ops.virtual_memory import Refused


class NoMemory(MemoryError):
    """The GPU has none left for a kernel."""


class CupyCopied:
    """`driver.Copied`, by an event of CUDA's."""

    def __init__(self, cuda: Any, stream: Any) -> None:
        self._cuda = cuda
        self._event = cuda.Event(disable_timing=True)
        self._event.record(stream)

    def wait(self) -> None:
        with telling("a copy"):
            self._event.synchronize()

    def before_kernels(self) -> None:
        with telling("a copy"):
            self._cuda.get_current_stream().wait_event(self._event)


class CupyCopier:
    """`driver.Copier`, by a stream that does not wait for the default one."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._stream = cuda.Stream(non_blocking=True)

    def pinned(self, size: int) -> Any:
        with telling("a pinned buffer of the host"):
            return np.frombuffer(self._cuda.alloc_pinned_memory(size), np.uint8, size)

    def after_kernels(self) -> None:
        with telling("a copy"):
            event = self._cuda.Event(disable_timing=True)
            event.record()
            self._stream.wait_event(event)

    def copy(self, there: Any, at: int, here: Any) -> None:
        runtime = self._cuda.runtime
        with telling("a copy to the GPU"):
            runtime.memcpyAsync(
                there.data.ptr + at,
                here.ctypes.data,
                here.nbytes,
                runtime.memcpyHostToDevice,
                self._stream.ptr,
            )

    def copied(self) -> CupyCopied:
        with telling("a copy"):
            return CupyCopied(self._cuda, self._stream)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """CUDA's errors as ours; a lack of memory as a `MemoryError`, which CuPy's own is too."""
    try:
        yield
    except (RuntimeError, Refused) as problem:
        if not isinstance(problem, Refused) and not is_cudas(problem):
            raise
        if str(problem).startswith(("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")):
            raise NoMemory(f"{what}: {problem}") from problem
        raise DeviceError(
            f"{what} failed on the GPU: {problem}",
            hint='please report this; device="cpu" answers meanwhile. This process cannot use '
            "the GPU any more: start it again",
        ) from problem


def is_cudas(problem: BaseException) -> bool:
    """Whether it is what CUDA says: by CuPy's names, CUDARuntimeError and CUDADriverError."""
    return type(problem).__name__.startswith("CUDA")
