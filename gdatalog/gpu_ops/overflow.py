"""An allocator that gives arrays the host's memory where a device has no room for them.

Kernels read and write such arrays over the link: sequential passes (sorts, merges) run as fast as
that. Memory of the host is slow to make, so what an array leaves serves the next one.
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
        self._free: dict[int, list[Pages]] = {}  # by their bytes

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
        free = self._free.setdefault(rounded, [])
        lease = Lease(free.pop() if free else self._pages(rounded))
        finalize(lease, free.append, lease.pages).atexit = False
        return self._within(lease.pages, size, lease)
