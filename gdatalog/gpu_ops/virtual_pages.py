"""Ranges of addresses whose pages are in a GPU's memory or in the host's.

Kernels read such a range like other memory. Every page has host memory. A page that is *placed*
also has memory on the GPU, to which its address is mapped instead. CUDA's driver library allocates
pages and maps them to addresses. Without virtual memory, a range is pinned memory of the host, and
no page is placed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from gdatalog.storage.table import Array

# CUDA's virtual memory: allocates pages on a GPU or the host, and maps them to addresses.

PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
ON_DEVICE, ON_HOST_NODE = 1, 3  # CU_MEM_LOCATION_TYPE_DEVICE and _HOST_NUMA
READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
HOST_NODE = 134  # CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
PAGE = 1 << 21  # bytes, at the least


class Refused(Exception):
    """The driver's library lacks a function, or the function failed. `status`: CUDA's error
    number."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name}: error {status}")
        self.status = status


def unless_refused() -> AbstractContextManager[None]:
    """Ignores an error of freeing a page, so that the other pages are freed all the same."""
    return suppress(Refused, MemoryError)


class _Location(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("number", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class VirtualMemory:
    """Allocates and maps pages of GPU `number`, with the driver's library. `page`: the bytes of a
    page."""

    def __init__(self, number: int) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        self._library = ctypes.CDLL(name)
        self._context = ctypes.c_void_p()  # CuPy's; another one may be current
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), number)
        self._on_device = _Location(ON_DEVICE, number)
        node = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(node), HOST_NODE, number)
        self._on_host = _Location(ON_HOST_NODE, max(0, node.value))
        self.page = PAGE
        for location in (self._on_device, self._on_host):
            found = ctypes.c_size_t()
            properties = ctypes.byref(self._properties(location))
            self._call("cuMemGetAllocationGranularity", ctypes.byref(found), properties, 0)
            self.page = max(self.page, found.value)

    def try_out(self) -> None:
        """Raises `Refused` if a page of each kind cannot be mapped side by side."""
        address, handles = self.reserved(2 * self.page), []
        try:
            handles = [self.created(False)]
            handles.append(self.created(True))
            self.map(address, handles)
            self.unmap(address, 2)
        finally:
            for handle in handles:
                self.release(handle)
            self.free(address, 2 * self.page)

    def reserved(self, size: int) -> int:
        """Reserves a range of addresses."""
        found = ctypes.c_uint64()
        self._call("cuMemAddressReserve", ctypes.byref(found), size, self.page, 0, 0)
        return int(found.value)

    def created(self, on_device: bool) -> int:
        """Allocates a page, without mapping it."""
        found = ctypes.c_uint64()
        properties = self._properties(self._on_device if on_device else self._on_host)
        self._call("cuMemCreate", ctypes.byref(found), self.page, ctypes.byref(properties), 0)
        return int(found.value)

    def map(self, address: int, handles: Sequence[int]) -> None:
        """Maps pages to consecutive addresses from `address` on; all of them, or none if it
        fails."""
        done = 0
        try:
            for at, handle in enumerate(handles):
                self._call("cuMemMap", address + at * self.page, self.page, 0, handle, 0)
                done += 1
            access = _Access(self._on_device, READ_WRITE)
            size = len(handles) * self.page
            self._call("cuMemSetAccess", address, size, ctypes.byref(access), 1)
        except BaseException:
            if done:
                with unless_refused():
                    self.unmap(address, done)
            raise

    def unmap(self, address: int, pages: int) -> None:
        self._call("cuMemUnmap", address, pages * self.page)

    def release(self, handle: int) -> None:
        self._call("cuMemRelease", handle)

    def free(self, address: int, size: int) -> None:
        """Frees a range of addresses."""
        self._call("cuMemAddressFree", address, size)

    def settle(self) -> None:
        """Waits for all kernels on the GPU."""
        with self.current():
            self._call("cuCtxSynchronize")

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the GPU current in this thread. Another one may be current when pages are freed."""
        before = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(before))
        if before.value == self._context.value:
            yield
            return
        self._call("cuCtxSetCurrent", self._context)
        try:
            yield
        finally:
            self._call("cuCtxSetCurrent", before)

    def _properties(self, location: _Location) -> _Properties:
        return _Properties(kind=PINNED, location=location)

    def _call(self, name: str, *args: Any) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise Refused(name, 0) from None
        # Numbers have 64 bits; where C expects an int, it ignores the upper half.
        words = [ctypes.c_uint64(arg) if isinstance(arg, int) else arg for arg in args]
        status = int(function(*words))
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"pages of an index: {name}: out of memory")
        if status:
            raise Refused(name, status)


def opened(number: int) -> VirtualMemory | None:
    """The virtual memory of a GPU; None if it cannot be used. Raises `MemoryError` if the GPU is
    full."""
    try:
        memory = VirtualMemory(number)
        with memory.current():
            memory.try_out()
    except (OSError, Refused):
        return None
    return memory


# Ranges of addresses.

WORD = 8  # bytes: pages are copied word by word


class VirtualPages:
    """A range of addresses whose pages are in the host's memory or the device's. The range is freed
    with its last array. `page`: the bytes of a page; `count`: the number of pages.

    `copy` copies bytes from one address to another with a kernel. `array` makes an array at an
    address, which keeps its last argument alive.
    """

    def __init__(
        self,
        memory: VirtualMemory,
        size: int,
        copy: Callable[[int, int, int], None],
        array: Callable[[int, int, npt.DTypeLike, object], Array],
        copied: Callable[[], Any],
    ) -> None:
        self.page = memory.page
        self.count = -(-size // self.page)
        self._memory, self._copy, self._array, self._copied = memory, copy, array, copied
        self._address = memory.reserved(self.count * self.page)
        self._host: list[int] = []
        self._placed: dict[int, int] = {}  # the GPU's memory of a page, by its number
        self._mapped: set[int] = set()  # the numbers of all pages, unless a swap has failed
        args = memory, self._address, self.count, self._host, self._placed, self._mapped
        gone = finalize(self, _let_go, *args)
        gone.atexit = False
        try:
            for _ in range(self.count):
                self._host.append(memory.created(False))
            memory.map(self._address, self._host)
        except BaseException:
            gone()  # the error keeps `self` alive
            raise
        self._mapped.update(range(self.count))

    @property
    def placed(self) -> frozenset[int]:
        """The numbers of the pages on the device."""
        return frozenset(self._placed)

    def array(self, at: int, length: int, dtype: npt.DTypeLike) -> Array:
        """An array in the range, from byte `at` on."""
        return self._array(self._address + at, length, dtype, self)

    def write(self, at: int, here: Array) -> Any:
        """Starts writing a pinned buffer to the range, from byte `at` on. Kernels launched later
        read it. Wait for the result, a `CupyCopied`, before you change the buffer. Writes whole
        words, so that no other array may begin in the padding of the last word."""
        self._copy(here.ctypes.data, self._address + at, here.nbytes)
        return self._copied()

    def place(self, wanted: Collection[int]) -> None:
        """Moves these pages to the device, as far as it has memory, and all others to the host.
        Contents and addresses stay the same. Waits for all kernels."""
        leaving = sorted(self._placed.keys() - set(wanted))
        coming = sorted(set(wanted) - self._placed.keys())
        holes: set[int] = set()
        if len(self._mapped) < self.count:
            holes = set(range(self.count)) - self._mapped
        if not leaving and not coming and not holes:
            return
        memory, page = self._memory, self.page
        memory.settle()  # kernels may still read pages that move
        for number in holes:
            self._map(number, self._own(number))
        for number in leaving:
            self._swap(number, self._host[number])
            memory.release(self._placed.pop(number))
        if not coming:
            return
        made: list[int] = []
        copied = 0  # how many of these are mapped at `aside`
        aside = memory.reserved(len(coming) * page)
        try:
            for _ in coming:
                made.append(memory.created(True))
            memory.map(aside, made)
            copied = len(made)
            for first, last in _runs(coming):
                begin = self._address + coming[first] * page
                self._copy(begin, aside + first * page, (last - first) * page)
            memory.settle()
            memory.unmap(aside, copied)
            copied = 0
            while made:
                handle, number = made[-1], coming[len(made) - 1]
                self._swap(number, handle)
                self._placed[number] = made.pop()
        finally:
            if copied:
                with unless_refused():
                    memory.settle()
                with unless_refused():
                    memory.unmap(aside, copied)
            for handle in made:
                with unless_refused():
                    memory.release(handle)
            with unless_refused():
                memory.free(aside, len(coming) * page)

    def _own(self, number: int) -> int:
        """The memory to map for a page."""
        return self._placed.get(number, self._host[number])

    def _map(self, number: int, handle: int) -> None:
        self._memory.map(self._address + number * self.page, [handle])
        self._mapped.add(number)

    def _swap(self, number: int, handle: int) -> None:
        """Maps a page to other memory, which already holds its data. If this fails, maps the old
        memory again."""
        self._memory.unmap(self._address + number * self.page, 1)
        self._mapped.remove(number)
        try:
            self._map(number, handle)
        except BaseException:
            with unless_refused():  # the next `place` tries it once more
                self._map(number, self._own(number))
            raise


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of positions of consecutive numbers, as (first, end).

    >>> _runs([3, 4, 5, 9, 11, 12])
    [(0, 3), (3, 4), (4, 6)]
    """
    cuts = np.flatnonzero(np.diff(np.asarray(numbers)) != 1) + 1
    ends = [0, *cuts.tolist(), len(numbers)]
    return list(pairwise(ends))


def _let_go(
    memory: VirtualMemory,
    address: int,
    count: int,
    host: list[int],
    placed: dict[int, int],
    mapped: set[int],
) -> None:
    """Frees everything; a step that fails does not stop the others."""
    numbers, page = sorted(mapped), memory.page
    with ExitStack() as stack:
        with unless_refused():
            stack.enter_context(memory.current())
        with unless_refused():
            memory.settle()
        for first, behind in _runs(numbers) if numbers else ():
            with unless_refused():
                memory.unmap(address + numbers[first] * page, behind - first)
        for handle in (*host, *placed.values()):
            with unless_refused():
                memory.release(handle)
        with unless_refused():
            memory.free(address, count * page)


class PinnedPages:
    """The same without virtual memory: pinned memory of the host."""

    page = PAGE
    placed: frozenset[int] = frozenset()

    def __init__(
        self,
        held: Any,
        size: int,
        array: Callable[[int, int, npt.DTypeLike, object], Array],
        copied: Any,
    ) -> None:
        """`held`: the pinned memory, with its address as `ptr`."""
        self.count = -(-size // self.page)
        self._held, self._array, self._copied = held, array, copied
        self._bytes = np.frombuffer(held, np.uint8, size)

    def array(self, at: int, length: int, dtype: npt.DTypeLike) -> Array:
        return self._array(int(self._held.ptr) + at, length, dtype, self)

    def write(self, at: int, here: Array) -> Any:
        self._bytes[at : at + here.nbytes] = here
        return self._copied

    def place(self, wanted: Collection[int]) -> None:
        """Does nothing: all pages stay on the host."""


Pages = VirtualPages | PinnedPages
