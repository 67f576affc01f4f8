"""Ranges of addresses whose pages are in a GPU's memory or in the host's.

Kernels read such a range like other memory. Every page has host memory. A page that is *placed*
also has memory on the GPU, to which its address is mapped instead. CUDA's driver library allocates
pages and maps them to addresses. Without virtual memory, a range is pinned memory of the host, and
no page is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from gdatalog.gpu_ops.virtual_memory import PAGE, VirtualMemory, unless_refused
from gdatalog.storage.table import Array

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
