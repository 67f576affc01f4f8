"""The lists of one level of a trie, on a device."""

from __future__ import annotations

from typing import Any

from gdatalog.gpu_ops.arrays import Array
from gdatalog.storage.trie import TrieLevel


class DeviceLevel(TrieLevel):
    """As `TrieLevel`, over the arrays of `xp`; searches are verbs of `meet.py`."""

    __slots__ = ("xp",)

    def __init__(self, xp: Any, values: Array, offsets: Array) -> None:
        super().__init__(values, offsets)
        self.xp = xp

    @property
    def longest(self) -> int:
        """How long the longest of the lists is."""
        if self._longest is None:
            lengths = self.offsets[1:] - self.offsets[:-1]
            self._longest = int(lengths.max()) if len(lengths) else 0
        return self._longest

    def dense_index(self) -> tuple[int, Array] | None:
        """(least value, position by value - least or -1), if the list is dense enough."""
        if self._index is None:
            xp, values = self.xp, self.values
            low, high = 0, -1
            if len(values):
                low, high = xp.stack([values[0], values[-1]]).tolist()
            if not len(values) or high - low + 1 > 4 * len(values) + 1024:
                self._index = (0, xp.empty(0, dtype=xp.int32))
            else:
                index = xp.full(high - low + 1, -1, dtype=xp.int32)
                index[values.astype(xp.int64) - low] = xp.arange(len(values), dtype=xp.int32)
                self._index = (low, index)
        return self._index if len(self._index[1]) else None
