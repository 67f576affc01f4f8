"""A set of rows as one bit for each row that there could be, which threads may set at a time.

The loops test and set a bit by an atomic operation. Here whole columns are tested and set, by one
thread, between the runs of the loops. Marks that memory has no room for lie in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gdatalog.engine.keyspace import KeySpace
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array

AT_ONCE = 1 << 18  # words that are looked at at a time


class RowBitmap:
    """Rows of a space; bit k & 63 of word k >> 6 is that of the row whose number is k."""

    def __init__(self, space: KeySpace, spill: Spill | None = None) -> None:
        """`spill`: where the marks lie, if not in memory."""
        self.space = space
        length = (space.size + 63) >> 6
        # Pages that hold no mark are never touched, so they take no memory.
        self.words: Array = (
            np.zeros(length, dtype=np.int64) if spill is None else spill.zeros(length, np.int64)
        )
        # What loops are given of it.
        self.arguments = {"marks": self.words, "space": np.array(space.bounds, dtype=np.int64)}

    @staticmethod
    def bytes_for(space: KeySpace) -> int:
        return (space.size + 63) >> 6 << 3

    @property
    def nbytes(self) -> int:
        return held_bytes(self.words)

    def rows(self) -> Columns:
        """All rows, sorted."""
        return self._rows_of(self.words, 0)

    def blocks(self) -> Iterator[Columns]:
        """All rows, some at a time."""
        for start in range(0, len(self.words), AT_ONCE):
            yield self._rows_of(self.words[start : start + AT_ONCE], start)

    def _rows_of(self, words: Array, start: int) -> Columns:
        filled = np.flatnonzero(words)
        octets = words[filled].astype("<i8").view(np.uint8).reshape(-1, 8)
        which, bits = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        return self.space.rows((filled[which] + start << 6) + bits)

    def news(self, rows: Columns) -> Array:
        """Marks different rows of the space; which of them had no mark."""
        numbers = self.space.numbers(rows)
        places = numbers >> 6
        bits = np.left_shift(np.int64(1), numbers & 63)
        fresh: Array = (self.words[places] & bits) == 0
        np.bitwise_or.at(self.words, places[fresh], bits[fresh])
        return fresh
