"""A row set as a bitmap with one bit for each possible row.

Compiled loops test and set bits atomically, from several threads; this module does it for whole
columns in one thread, between runs of the loops. Large bitmaps lie in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gdatalog.engine.fixpoint.keyspace import KeySpace
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array

AT_ONCE = 1 << 18  # words scanned at once


class RowBitmap:
    """Rows of a space; bit k & 63 of word k >> 6 is that of the row whose number is k."""

    def __init__(self, space: KeySpace, spill: Spill | None = None) -> None:
        """`spill`: where the bitmap lies if not in memory."""
        self.space = space
        length = (space.size + 63) >> 6
        # Pages without a set bit are never touched, so they take no memory.
        self.words: Array = (
            np.zeros(length, dtype=np.int64) if spill is None else spill.zeros(length, np.int64)
        )
        # Arguments of compiled loops.
        self.arguments = {"marks": self.words, "space": np.array(space.bounds, dtype=np.int64)}

    @staticmethod
    def bytes_for(space: KeySpace) -> int:
        return (space.size + 63) >> 6 << 3

    @property
    def nbytes(self) -> int:
        return held_bytes(self.words)

    def rows(self) -> Columns:
        """Returns all rows, sorted."""
        return self._rows_of(self.words, 0)

    def blocks(self) -> Iterator[Columns]:
        """Yields all rows, block by block."""
        for start in range(0, len(self.words), AT_ONCE):
            yield self._rows_of(self.words[start : start + AT_ONCE], start)

    def _rows_of(self, words: Array, start: int) -> Columns:
        filled = np.flatnonzero(words)
        octets = words[filled].astype("<i8").view(np.uint8).reshape(-1, 8)
        which, bits = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        return self.space.rows((filled[which] + start << 6) + bits)

    def news(self, rows: Columns) -> Array:
        """Sets the bits of distinct rows of the space; returns which were not set before."""
        numbers = self.space.numbers(rows)
        places = numbers >> 6
        bits = np.left_shift(np.int64(1), numbers & 63)
        fresh: Array = (self.words[places] & bits) == 0
        np.bitwise_or.at(self.words, places[fresh], bits[fresh])
        return fresh
