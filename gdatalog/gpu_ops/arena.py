"""Memory of a device for arrays that grow in place.

A large array has a range of addresses of its own, which could hold all of the device's memory. Only
the begin of the range has memory; when the array grows, more is mapped behind. So nothing is
copied, addresses stay, and recorded launches stay valid. Small arrays, and all arrays of a driver
without virtual memory, are copied to longer ones. A range that no array uses any more keeps its
memory for the next array, until memory is short or much of it is unused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from gdatalog.gpu_ops.copies import NoMemory, explaining_failure
from gdatalog.gpu_ops.virtual_memory import VirtualMemory, unless_refused
from gdatalog.records import dataclass, field
from gdatalog.storage.table import Array

UNUSED_SHARE = 16  # one part of so many of the device's memory may be in unused ranges
ROOMY = 2  # times the memory that an array needs, which a range that it takes over may have


@dataclass(slots=True, eq=False)
class _Mapped:
    """A range, the bytes at its begin that have memory, and the handles of this memory."""

    address: int
    size: int = 0
    handles: list[int] = field(default_factory=list)


class Arena:
    """The ranges of one device. `most`: the bytes of its memory; `array`: makes an array at an
    address, which keeps its last argument alive; `relieve`: frees memory that nothing uses."""

    def __init__(
        self,
        memory: VirtualMemory,
        most: int,
        array: Callable[[int, int, npt.DTypeLike, object], Array],
        relieve: Callable[[], None],
    ) -> None:
        self.memory, self.page = memory, memory.page
        self.most = -(-most // self.page) * self.page
        self._array, self._relieve = array, relieve
        self._unused: list[_Mapped] = []
        self.held = 0  # bytes of memory, used or not

    @property
    def unused(self) -> int:
        """The bytes of ranges that no array uses."""
        return sum(each.size for each in [*self._unused])

    def range(self, size: int) -> MappedRange:
        """A range with so many bytes of memory, at least."""
        fitting = [each for each in [*self._unused] if size <= each.size <= ROOMY * size]
        for each in sorted(fitting, key=lambda each: each.size):
            try:
                self._unused.remove(each)
            except ValueError:
                continue  # another thread has taken it
            return MappedRange(self, each)
        with explaining_failure("memory that grows"):
            found = MappedRange(self, _Mapped(self.memory.reserved(self.most)))
        found.grow(size)
        return found

    def give_back(self, mapped: _Mapped) -> None:
        self._unused.append(mapped)

    def extend(self, mapped: _Mapped, size: int) -> None:
        """Maps memory behind the begin of a range, up to so many bytes. Frees what nothing uses if
        the device is full."""
        if size > self.most:
            raise NoMemory("memory that grows: more than the device has")
        self.release(self.most // UNUSED_SHARE)
        pages = -(-size // self.page) - mapped.size // self.page
        with explaining_failure("memory that grows"):
            try:
                self._extend(mapped, pages)
            except MemoryError:
                self._relieve()
                try:
                    self._extend(mapped, pages)
                except MemoryError as problem:
                    raise NoMemory(str(problem)) from problem

    def _extend(self, mapped: _Mapped, pages: int) -> None:
        handle = self.memory.created(True, pages)
        try:
            self.memory.map(mapped.address + mapped.size, [handle], pages)
        except BaseException:
            with unless_refused():
                self.memory.release(handle)
            raise
        mapped.handles.append(handle)
        mapped.size += pages * self.page
        self.held += pages * self.page

    def release(self, most: int = 0) -> None:
        """Frees the oldest ranges that no array uses, but for so many bytes. Waits for all kernels;
        frees nothing if that is refused, as while a graph is recorded."""
        if self.unused <= most:
            return
        memory = self.memory
        with unless_refused(), memory.current():
            memory.settle()
            while self._unused and self.unused > most:
                each = self._unused.pop(0)
                self.held -= each.size
                with unless_refused():
                    memory.unmap(each.address, each.size // self.page)
                for handle in each.handles:
                    with unless_refused():
                        memory.release(handle)
                with unless_refused():
                    memory.free(each.address, self.most)


class MappedRange:
    """Addresses that begin with memory. The arena takes it back with its last array."""

    def __init__(self, arena: Arena, mapped: _Mapped) -> None:
        self._arena, self._mapped = arena, mapped
        finalize(self, arena.give_back, mapped).atexit = False

    @property
    def nbytes(self) -> int:
        return self._mapped.size

    def grow(self, size: int) -> None:
        """Makes sure that it has so many bytes of memory."""
        if size > self._mapped.size:
            self._arena.extend(self._mapped, size)

    def array(self, dtype: npt.DTypeLike) -> Array:
        """An array as long as the addresses."""
        length = self._arena.most // np.dtype(dtype).itemsize
        return self._arena._array(self._mapped.address, length, dtype, self)


class GrowingArray:
    """An array that grows. `array`: from its address on; in a range it is longer than the `length`
    that has memory. `moves`: how often it has got another address."""

    def __init__(self, driver: Any, array: Array) -> None:
        self._driver, self.moves = driver, 0
        self._take(array)

    def _take(self, array: Array) -> None:
        self._range: MappedRange | None = None
        self.array, self.length = array, len(array)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes) if self._range is None else self._range.nbytes

    def leave(self) -> None:
        """Forgets its memory, which others may have."""
        self._take(self._driver.xp.empty(0, dtype=self.array.dtype))

    def lengthen(self, length: int, kept: int = 0) -> None:
        """Makes room for so many entries; the first ones, as many as are `kept`, stay."""
        if length <= self.length:
            return
        dtype, arena = self.array.dtype, self._driver.arena
        if self._range is not None:
            self._range.grow(length * dtype.itemsize)
            self.length = length
            return
        before = self.array
        if not kept:
            self.leave()  # so that its memory may serve
        if arena is None or length * dtype.itemsize <= arena.page:
            longer, room = self._driver.xp.empty(length, dtype=dtype), None
        else:
            room = arena.range(length * dtype.itemsize)
            longer = room.array(dtype)
        if kept:
            longer[:kept] = before[:kept]
        self.array, self.length, self._range = longer, length, room
        self.moves += 1
