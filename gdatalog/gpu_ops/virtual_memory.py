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
    page; `host`: whether some of them are in the host's memory."""

    def __init__(self, number: int, host: bool) -> None:
        super().__init__(number, "pages of an index" if host else "memory that grows")
        self._on_device = _Location(ON_DEVICE, number)
        self._kinds, locations = [True], [self._on_device]
        if host:
            node = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(node), HOST_NODE, number)
            self._on_host = _Location(ON_HOST_NODE, max(0, node.value))
            self._kinds, locations = [False, True], [self._on_device, self._on_host]
        self._readers = [number, *([] if host else self._peers(number))]
        self.page = PAGE
        for location in locations:
            found = ctypes.c_size_t()
            properties = ctypes.byref(self._properties(location))
            self.call("cuMemGetAllocationGranularity", ctypes.byref(found), properties, 0)
            self.page = max(self.page, found.value)

    def try_out(self) -> None:
        """Raises `Refused` if a page of each kind cannot be mapped side by side."""
        count, handles = len(self._kinds), list[int]()
        address = self.reserved(count * self.page)
        try:
            for on_device in self._kinds:
                handles.append(self.created(on_device))
            self.map(address, handles)
            self.unmap(address, count)
        finally:
            for handle in handles:
                self.release(handle)
            self.free(address, count * self.page)

    def _peers(self, number: int) -> list[int]:
        """Other GPUs that can read the memory of this one."""
        count, found = ctypes.c_int(), list[int]()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        for other in range(count.value):
            can = ctypes.c_int()
            if other != number:
                self.call("cuDeviceCanAccessPeer", ctypes.byref(can), other, number)
            found += [other] * can.value
        return found

    def reserved(self, size: int) -> int:
        """Reserves a range of addresses."""
        found = ctypes.c_uint64()
        self.call("cuMemAddressReserve", ctypes.byref(found), size, self.page, 0, 0)
        return int(found.value)

    def created(self, on_device: bool, pages: int = 1) -> int:
        """Allocates pages, without mapping them."""
        found, size = ctypes.c_uint64(), pages * self.page
        properties = self._properties(self._on_device if on_device else self._on_host)
        self.call("cuMemCreate", ctypes.byref(found), size, ctypes.byref(properties), 0)
        return int(found.value)

    def map(self, address: int, handles: Sequence[int], pages: int = 1) -> None:
        """Maps what was allocated, of so many pages each, to consecutive addresses from `address`
        on; all of it, or nothing if it fails."""
        done, size = 0, pages * self.page
        try:
            for at, handle in enumerate(handles):
                self.call("cuMemMap", address + at * size, size, 0, handle, 0)
                done += pages
            readers = [_Access(_Location(ON_DEVICE, at), READ_WRITE) for at in self._readers]
            access = (_Access * len(readers))(*readers)
            self.call("cuMemSetAccess", address, len(handles) * size, access, len(readers))
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


def opened(number: int, host: bool) -> VirtualMemory | None:
    """The virtual memory of a GPU; None if it cannot be used. Raises `MemoryError` if the GPU is
    full."""
    try:
        memory = VirtualMemory(number, host)
        with memory.current():
            memory.try_out()
    except (OSError, Refused):
        return None
    return memory
