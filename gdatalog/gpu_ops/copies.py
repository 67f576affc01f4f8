"""Copies to and from a real GPU, in a separate stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.errors import DeviceError
from gdatalog.gpu_ops.driver_library import Refused
from gdatalog.storage.threads import in_ranges

BUFFER = 1 << 25  # bytes of a pinned buffer


class NoMemory(MemoryError):
    """The GPU is out of memory."""


class CupyCopied:
    """A CUDA event in a stream of copies: it happens when all earlier copies are done."""

    def __init__(self, cuda: Any, stream: Any) -> None:
        self._cuda = cuda
        self._event = cuda.Event(disable_timing=True)
        self._event.record(stream)

    def wait(self) -> None:
        """Waits for it on the host."""
        with explaining_failure("a copy"):
            self._event.synchronize()

    def before_kernels(self) -> None:
        """Makes later kernels wait for it on the device."""
        with explaining_failure("a copy"):
            self._cuda.get_current_stream().wait_event(self._event)


class CupyCopier:
    """Copies from the host to the device in a stream of its own, while kernels run.

    Any thread may start copies, not only the one that launches kernels.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._stream = cuda.Stream(non_blocking=True)

    def pinned(self, size: int) -> Any:
        """A pinned host buffer of `size` bytes, as a NumPy array."""
        with explaining_failure("a pinned buffer of the host"):
            return np.frombuffer(self._cuda.alloc_pinned_memory(size), np.uint8, size)

    def after_kernels(self) -> None:
        """Makes later copies wait for all kernels launched so far."""
        with explaining_failure("a copy"):
            event = self._cuda.Event(disable_timing=True)
            event.record()
            self._stream.wait_event(event)

    def copy(self, there: Any, at: int, here: Any) -> None:
        """Starts copying a pinned buffer into an array, from the array's byte `at` on."""
        runtime = self._cuda.runtime
        with explaining_failure("a copy to the GPU"):
            runtime.memcpyAsync(
                there.data.ptr + at,
                here.ctypes.data,
                here.nbytes,
                runtime.memcpyHostToDevice,
                self._stream.ptr,
            )

    def copied(self) -> CupyCopied:
        """The point when all copies started so far are done."""
        with explaining_failure("a copy"):
            return CupyCopied(self._cuda, self._stream)


def fetched(cuda: Any, array: Any) -> Any:
    """A GPU array as a NumPy array. The GPU fills one pinned buffer while threads empty the
    other."""
    if array.nbytes < 2 * BUFFER or array.ndim != 1 or not array.flags.c_contiguous:
        with explaining_failure("a copy from the GPU"):
            return array.get()
    out = np.empty(len(array), dtype=array.dtype)
    width, most = array.itemsize, BUFFER // array.itemsize
    with explaining_failure("a copy from the GPU"):
        stream = cuda.get_current_stream()
        held = [cuda.alloc_pinned_memory(BUFFER) for _ in range(2)]
        buffers = [np.frombuffer(one, array.dtype, most) for one in held]

        def begin(start: int) -> Any:
            size = min(most, len(array) - start) * width
            source, target = array.data.ptr + start * width, held[start // most % 2].ptr
            runtime = cuda.runtime
            runtime.memcpyAsync(target, source, size, runtime.memcpyDeviceToHost, stream.ptr)
            event = cuda.Event(disable_timing=True)
            event.record(stream)
            return event

        event = begin(0)
        for start in range(0, len(array), most):
            event.synchronize()
            end = min(len(array), start + most)
            if end < len(array):
                event = begin(end)
            here, into = buffers[start // most % 2], out[start:end]

            def part(rows: slice, here: Any = here, into: Any = into) -> None:
                into[rows] = here[rows]

            in_ranges(part, end - start)
    return out


class explaining_failure:
    """Raises CUDA's errors as gdatalog's; but a lack of memory as a `MemoryError`, as CuPy does."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if not isinstance(problem, (RuntimeError, Refused)):
            return
        if not isinstance(problem, Refused) and not is_cudas(problem):
            return
        if str(problem).startswith(("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")):
            raise NoMemory(f"{self._what}: {problem}") from problem
        raise DeviceError(
            f"{self._what} failed on the GPU: {problem}",
            hint='please report this; device="cpu" answers meanwhile. This process cannot use '
            "the GPU any more: start it again",
        ) from problem


def is_cudas(problem: BaseException) -> bool:
    """Whether the error is CUDA's: CuPy's CUDARuntimeError or CUDADriverError."""
    return type(problem).__name__.startswith("CUDA")
