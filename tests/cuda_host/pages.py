"""Virtual memory of the device that is not there: what is mapped at an address, and what is not.

What was mapped goes with `unmap`, and nonsense stands in its place.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gdatalog.gpu_ops.virtual_memory import Refused
from tests.cuda_host.arrays import ndarray

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
        return self.page * sum(on_device for on_device, _ in self.handles.values())

    def reserved(self, size: int) -> int:
        found = np.full(size, 0xEE, dtype=np.uint8)
        self.ranges[found.ctypes.data] = found
        return found.ctypes.data

    def created(self, on_device: bool) -> int:
        if self.made[on_device] >= self.fail_after.get(on_device, 1 << 60):
            raise MemoryError("a page: out of memory")
        self.made[on_device] += 1
        self._next += 1
        self.handles[self._next] = on_device, np.full(self.page, 0xDD, dtype=np.uint8)
        return self._next

    def _at(self, address: int) -> Bytes:
        for start, found in self.ranges.items():
            if start <= address < start + len(found):
                return found[address - start :][: self.page]
        raise AssertionError("no such address")

    def map(self, address: int, handles: Sequence[int]) -> None:
        self._call("map")
        for number, handle in enumerate(handles):
            there = address + number * self.page
            assert there not in self.mapped
            assert handle not in self.mapped.values()
            self.mapped[there] = handle
            self._at(there)[:] = self.handles[handle][1]

    def unmap(self, address: int, pages: int) -> None:
        for there in range(address, address + pages * self.page, self.page):
            found = self._at(there)
            self.handles[self.mapped.pop(there)][1][:] = found
            found[:] = 0xEE

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
