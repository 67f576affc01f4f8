"""Virtual memory of the device that is not there: what is mapped at an address, and what is not.

What was mapped goes with `unmap`, and nonsense stands in its place.
"""

from __future__ import annotations

import ctypes
import mmap
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gdatalog.gpu_ops.virtual_memory import Refused
from tests.cuda_host.arrays import ndarray

_LIBC, _NO_RESERVE = ctypes.CDLL(None), 0x4000
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class HostMemory:
    """`gpu_ops.virtual_memory.Memory`. `fail_after`: so many pages are made, for the device or the
    host, and no more. `refused`: the calls of a function, from 0 on, that CUDA refuses."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.fail_after: dict[bool, int] = {}
        self.refused: dict[str, Collection[int]] = {}
        self.called: Counter[str] = Counter()
        self.made = {False: 0, True: 0}  # pages that have ever been made; True: on the device
        self.ranges: dict[int, Bytes] = {}
        self.handles: dict[int, tuple[bool, Bytes]] = {}
        self.mapped: dict[int, int] = {}  # handles, by address
        self._next = 1

    def _call(self, name: str) -> None:
        number = self.called[name]
        self.called[name] += 1
        if number in self.refused.get(name, ()):
            raise Refused(name, 1)

    @property
    def held(self) -> int:
        """The bytes that pages take on the device."""
        return sum(len(held) for on_device, held in self.handles.values() if on_device)

    def reserved(self, size: int) -> int:
        found = np.full(size, 0xEE, dtype=np.uint8)
        self.ranges[found.ctypes.data] = found
        return found.ctypes.data

    def created(self, on_device: bool, pages: int = 1) -> int:
        if self.made[on_device] + pages > self.fail_after.get(on_device, 1 << 60):
            raise MemoryError("a page: out of memory")
        self.made[on_device] += pages
        self._next += 1
        self.handles[self._next] = on_device, np.full(pages * self.page, 0xDD, dtype=np.uint8)
        return self._next

    def _at(self, address: int, size: int) -> Bytes:
        for start, found in self.ranges.items():
            if start <= address < start + len(found):
                return found[address - start :][:size]
        raise AssertionError("no such address")

    def _open(self, address: int, size: int, is_open: bool) -> None:
        """Whether bytes may be read and written."""

    def map(self, address: int, handles: Sequence[int], pages: int = 1) -> None:
        self._call("map")
        for number, handle in enumerate(handles):
            there, held = address + number * pages * self.page, self.handles[handle][1]
            assert len(held) == pages * self.page
            assert not any(there <= at < there + len(held) for at in self.mapped)
            assert handle not in self.mapped.values()
            self.mapped[there] = handle
            self._open(there, len(held), True)
            self._at(there, len(held))[:] = held

    def unmap(self, address: int, pages: int) -> None:
        there, end = address, address + pages * self.page
        while there < end:
            held = self.handles[self.mapped.pop(there)][1]
            found = self._at(there, len(held))
            held[:] = found
            found[:] = 0xEE
            self._open(there, len(held), False)
            there += len(held)
        assert there == end

    def release(self, handle: int) -> None:
        assert handle not in self.mapped.values()
        del self.handles[handle]

    def free(self, address: int, size: int) -> None:
        assert len(self.ranges.pop(address)) == size
        assert not any(address <= there < address + size for there in self.mapped)

    def settle(self) -> None:
        """Kernels have ended when their launch does."""
        self._call("settle")

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()


class GuardedMemory(HostMemory):
    """The same with addresses of the operating system: kernels that use those without memory end
    with its signal."""

    def __init__(self) -> None:
        super().__init__(mmap.PAGESIZE)

    def reserved(self, size: int) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        address = _LIBC.mmap(None, size, 0, flags, -1, 0)
        held = (ctypes.c_uint8 * size).from_address(address)
        self.ranges[address] = np.ctypeslib.as_array(held)
        return int(address)

    def _open(self, address: int, size: int, is_open: bool) -> None:
        allowed = mmap.PROT_READ | mmap.PROT_WRITE if is_open else 0
        assert _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed) == 0

    def free(self, address: int, size: int) -> None:
        super().free(address, size)
        _LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))


def copy(source: int, target: int, size: int) -> None:
    ctypes.memmove(target, source, size)


def array(address: int, length: int, dtype: Any, owner: Any) -> ndarray:
    """An array of the device at an address, which keeps its owner."""
    kind = np.dtype(dtype)
    if not length:
        return ndarray(np.empty(0, dtype=kind))
    held = (ctypes.c_char * (length * kind.itemsize)).from_address(address)
    held.owner = owner  # type: ignore[attr-defined]
    return ndarray(np.frombuffer(held, dtype=kind))
