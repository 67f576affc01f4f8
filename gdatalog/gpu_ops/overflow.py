"""An allocator that gives arrays the host's memory where a device has no room for them.

Kernels read and write such arrays over the link: sequential passes (sorts, merges) run as fast as
that. Memory of the host is slow to make, so what an array leaves serves the next one of its size.
Idle ranges of other sizes go before a new one is made, once they hold more than the arrays do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize

from gdatalog.gpu_ops.driver import Pages

SMALL = 1 << 20  # bytes: smaller arrays always lie on the device
LARGE = 8  # arrays that take such a part of the room leave half of it free
STEPS = 3  # sizes of pages that serve arrays of other sizes are told apart by so many leading bits


class Lease:
    """Pages, as long as an array lies in them."""

    __slots__ = ("__weakref__", "pages")

    def __init__(self, pages: Pages) -> None:
        self.pages = pages


class Overflow:
    """`allocate` takes memory of the device, of which so many bytes are `used`; `pages` makes pages
    of the host; `within` gives the memory of pages, as arrays hold it, for an owner of theirs."""

    def __init__(
        self,
        allocate: Callable[[int], Any],
        pages: Callable[[int], Pages],
        within: Callable[[Pages, int, Lease], Any],
        used: Callable[[], int],
        room: int,
    ) -> None:
        self.room = room
        self.moved = 0  # bytes of arrays that were given the host's memory
        self._allocate, self._pages, self._within, self._used = allocate, pages, within, used
        self._before = used()
        self._held = 0  # bytes of all pages, those that are idle too
        self._idle: list[tuple[int, Pages]] = []  # with their bytes; the oldest first
        self._open = True

    @property
    def left(self) -> int:
        """The bytes of the room that are free."""
        return max(0, self.room - (self._used() - self._before))

    def __call__(self, size: int) -> Any:
        if size < SMALL:
            return self._allocate(size)
        free = self.left if LARGE * size <= self.room else self.left - self.room // 2
        if size <= free:
            try:
                return self._allocate(size)
            except MemoryError:
                pass  # others have taken it
        return self.on_host(size)

    def on_host(self, size: int) -> Any:
        """Memory of the host for so many bytes."""
        self.moved += size
        step = 1 << max(0, size.bit_length() - STEPS)
        rounded = -(-size // step) * step
        lease = Lease(self._range(rounded))
        finalize(lease, self._leave, rounded, lease.pages).atexit = False
        return self._within(lease.pages, size, lease)

    def close(self) -> None:
        """Keeps no idle pages any more. Arrays that are left keep theirs."""
        self._open = False
        self._idle.clear()

    def _leave(self, size: int, pages: Pages) -> None:
        """By a finalizer, at any time."""
        if self._open:
            self._idle.append((size, pages))

    def _range(self, size: int) -> Pages:
        for at in reversed(range(len(self._idle))):
            if self._idle[at][0] == size:
                return self._idle.pop(at)[1]
        idle = sum(each for each, _ in self._idle)
        live = self._held - idle + size
        while idle > live:
            idle -= self._drop()
        try:
            return self._new(size)
        except MemoryError:
            if not self._idle:
                raise
        while self._idle:
            self._drop()
        return self._new(size)  # here: the error would keep what had been made of the first try

    def _new(self, size: int) -> Pages:
        made = self._pages(size)
        self._held += size
        return made

    def _drop(self) -> int:
        """Lets go of the pages that have been idle for the longest time."""
        size, _ = self._idle.pop(0)
        self._held -= size
        return size


class Relieved:
    """An allocator that asks for relief where memory is short, and tries once more."""

    def __init__(self, allocate: Callable[[int], Any], relief: Callable[[], None]) -> None:
        self._allocate, self._relief = allocate, relief

    def __call__(self, size: int) -> Any:
        try:
            return self._allocate(size)
        except MemoryError:
            self._relief()
        return self._allocate(size)
