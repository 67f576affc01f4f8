"""An allocator that gives large arrays the host's memory where a device has no room for them.

Of the room on the device half is left for what comes and goes: a kernel's scratch, rows that have
just come. Sequential passes over arrays of the host (sorts, merges) run as fast as the link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SMALL = 1 << 20  # bytes: smaller arrays always lie on the device
LARGE = 8  # an array that takes such a part of the room lies on the host


class Overflow:
    """`allocate` takes memory of the device, of which so many bytes are `used`; `on_host` takes
    the host's."""

    def __init__(
        self,
        allocate: Callable[[int], Any],
        on_host: Callable[[int], Any],
        used: Callable[[], int],
        room: int,
    ) -> None:
        self.room = room
        self.moved = 0  # bytes of arrays that were given the host's memory
        self._allocate, self._host, self._used = allocate, on_host, used
        self._before = used()

    @property
    def left(self) -> int:
        """The bytes of the room that are free."""
        return max(0, self.room - (self._used() - self._before))

    def __call__(self, size: int) -> Any:
        if size < SMALL:
            return self._allocate(size)
        if LARGE * size <= self.room and size <= self.left - self.room // 2:
            try:
                return self._allocate(size)
            except MemoryError:
                pass  # others have taken it
        self.moved += size
        return self._host(size)
