"""CUDA's virtual memory: allocates pages on a GPU or the host, and maps them to addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress

from gdatalog.gpu_ops.driver_library import DriverLibrary, Refused

PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
ON_DEVICE, ON_HOST_NODE = 1, 3  # CU_MEM_LOCATION_TYPE_DEVICE and _HOST_NUMA
READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE
HOST_NODE = 134  # CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
PAGE = 1 << 21  # bytes, at the least


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


class VirtualMemory(DriverLibrary):
    """Allocates and maps pages of GPU `number`, with the driver's library. `page`: the bytes of a
    page."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "pages of an index")
        self._on_device = _Location(ON_DEVICE, number)
        node = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(node), HOST_NODE, number)
        self._on_host = _Location(ON_HOST_NODE, max(0, node.value))
        self.page = PAGE
        for location in (self._on_device, self._on_host):
            found = ctypes.c_size_t()
            properties = ctypes.byref(self._properties(location))
            self.call("cuMemGetAllocationGranularity", ctypes.byref(found), properties, 0)
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
        self.call("cuMemAddressReserve", ctypes.byref(found), size, self.page, 0, 0)
        return int(found.value)

    def created(self, on_device: bool) -> int:
        """Allocates a page, without mapping it."""
        found = ctypes.c_uint64()
        properties = self._properties(self._on_device if on_device else self._on_host)
        self.call("cuMemCreate", ctypes.byref(found), self.page, ctypes.byref(properties), 0)
        return int(found.value)

    def map(self, address: int, handles: Sequence[int]) -> None:
        """Maps pages to consecutive addresses from `address` on; all of them, or none if it
        fails."""
        done = 0
        try:
            for at, handle in enumerate(handles):
                self.call("cuMemMap", address + at * self.page, self.page, 0, handle, 0)
                done += 1
            access = _Access(self._on_device, READ_WRITE)
            size = len(handles) * self.page
            self.call("cuMemSetAccess", address, size, ctypes.byref(access), 1)
        except BaseException:
            if done:
                with unless_refused():
                    self.unmap(address, done)
            raise

    def unmap(self, address: int, pages: int) -> None:
        self.call("cuMemUnmap", address, pages * self.page)

    def release(self, handle: int) -> None:
        self.call("cuMemRelease", handle)

    def free(self, address: int, size: int) -> None:
        """Frees a range of addresses."""
        self.call("cuMemAddressFree", address, size)

    def settle(self) -> None:
        """Waits for all kernels on the GPU."""
        with self.current():
            self.call("cuCtxSynchronize")

    def _properties(self, location: _Location) -> _Properties:
        return _Properties(kind=PINNED, location=location)


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
