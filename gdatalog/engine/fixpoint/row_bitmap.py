"""A row set as a bitmap with one bit for each possible row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.loop_tables import versions
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, in_ranges, spread

WORDS_AT_ONCE = 1 << 18  # words scanned at once
PARTS = 64  # of a bitmap, whose rows threads make
MOST_TESTED_BITS = 1 << 22  # most bits that `rows_with` tests


def zeros(length: int, spill: Spill | None) -> Array:
    zeros: Array = np.zeros(length, np.int64) if spill is None else spill.zeros(length, np.int64)
    return zeros


class RowBitmap:
    """Rows of a space; bit k & 63 of word k >> 6 is that of the row whose number is k."""

    def __init__(self, space: KeySpace, spill: Spill | None = None) -> None:
        """`spill`: where the bitmap lies if not in memory."""
        self.space = space
        # Pages without a set bit are never touched, so they take no memory.
        self.words = zeros((space.size + 63) >> 6, spill)
        # Arguments of compiled loops.
        self.version = next(versions)
        self.arguments = {"marks": self.words, "space": np.array(space.bounds, dtype=np.int64)}

    @staticmethod
    def bytes_for(space: KeySpace) -> int:
        return (space.size + 63) >> 6 << 3

    @staticmethod
    def filled(space: KeySpace, blocks: Sequence[Columns]) -> RowBitmap:
        """The bitmap of many rows."""
        marks = np.zeros(space.size, dtype=np.bool_)
        for rows in blocks:

            def mark(part: slice, rows: Columns = rows) -> None:
                marks[space.numbers([column[part] for column in rows])] = True

            in_ranges(mark, len(rows[0]))
        made, octets = RowBitmap(space), np.packbits(marks, bitorder="little")
        made.words.view(np.uint8)[: len(octets)] = octets
        return made

    @property
    def nbytes(self) -> int:
        return held_bytes(self.words)

    def rows(self) -> Columns:
        """Returns all rows, sorted."""
        return self._rows_of(self.words, 0)

    def blocks(self) -> Iterator[Columns]:
        """Yields all rows, block by block."""
        for start in range(0, len(self.words), WORDS_AT_ONCE):
            yield self._rows_of(self.words[start : start + WORDS_AT_ONCE], start)

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

    def rows_with(self, column: int, values: Array) -> Columns | None:
        """The rows with one of some distinct values in a column; None if that takes long."""
        sizes = self.space.spans
        low, size = self.space.least[column], sizes[column]
        strides = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
        values = values[(values >= low) & (values < low + size)]
        if prod(sizes) // size * len(values) > MOST_TESTED_BITS:
            return None
        numbers = (values.astype(np.int64) - low) * strides[column]
        for at, (other, stride) in enumerate(zip(sizes, strides, strict=True)):
            if at != column:
                numbers = (numbers[:, None] + np.arange(other, dtype=np.int64) * stride).ravel()
        there = (self.words[numbers >> 6] >> (numbers & 63)) & 1 > 0
        return self.space.rows(numbers[there])


def rows_of_bits(space: KeySpace, words: Array, dtypes: Sequence[np.dtype[np.generic]]) -> Columns:
    """The rows that a bitmap marks, ascending, by compiled loops."""
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.bits import column_of_bits, count_bits

    words = words.view(np.uint64)
    count = native.of(count_bits, "u64[]", "i64", "i64")
    cuts = [len(words) * at // PARTS for at in range(PARTS + 1)]
    long = 64 * len(words) >= LONG
    counts = spread(lambda part: count(words, *part), pairwise(cuts), long)
    starts = [0, *accumulate(counts)]
    columns: list[Array] = []
    divisor = 1
    for low, span, dtype in zip(
        reversed(space.least), reversed(space.spans), reversed(dtypes), strict=True
    ):
        column = np.empty(starts[-1], dtype=dtype)
        kind = "i32[]" if column.itemsize == 4 else "i64[]"
        fill = native.of(column_of_bits, "u64[]", "i64", "i64", kind, *["i64"] * 4)

        def part(at: int, fill: Any = fill, given: Any = (column, divisor, span, low)) -> None:
            fill(words, cuts[at], cuts[at + 1], given[0], starts[at], *given[1:])

        spread(part, range(PARTS), long)
        columns.append(column)
        divisor *= span
    return tuple(reversed(columns))
