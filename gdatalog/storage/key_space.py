"""Numbers all possible rows: a number for each row within a box of values.

Bitmaps are indexed by row number, and hash sets store row numbers; on a device two numbers of a row
in a larger box, one for each part of its columns. A value outside the box has no number; then the
box is widened.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.table import Array

MOST_ROW_NUMBERS = 1 << 62  # row numbers

RelationColumn = tuple[str, int]  # of a relation


def span_of(values: Array) -> Span | None:
    return (int(values.min()), int(values.max())) if len(values) else None


def union(*spans: Span | None) -> Span | None:
    """The range from the least to the greatest value of some ranges; None if all are empty."""
    known = [span for span in spans if span is not None and span[0] <= span[1]]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """`least`: the least value of each column; `spans`: how many values follow it."""

    least: tuple[int, ...]
    spans: tuple[int, ...]

    @staticmethod
    def of(columns: Sequence[Array]) -> KeySpace | None:
        """The smallest space of some rows, at least one."""
        bounds = [(int(column.min()), int(column.max())) for column in columns]
        return KeySpace.within(bounds)

    @staticmethod
    def within(bounds: Sequence[tuple[int, int]], parts: int = 1) -> KeySpace | None:
        """The space between some values, inclusive; None if it is too large, even for numbers of so
        many parts of the columns."""
        least, spans = [], []
        for low, high in bounds:
            if low < -MOST_ROW_NUMBERS or high > MOST_ROW_NUMBERS:
                return None
            least.append(low)
            spans.append(high - low + 1)
        if max(spans, default=0) > MOST_ROW_NUMBERS:
            return None  # one column has too many numbers
        found = KeySpace(tuple(least), tuple(spans))
        return found if prod(spans) <= MOST_ROW_NUMBERS or len(found.parts) <= parts else None

    def contains(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Whether it has the space between some values, inclusive."""
        pairs = zip(self.box, bounds, strict=True)
        return all(least <= low and high < least + span for (least, span), (low, high) in pairs)

    @property
    def size(self) -> int:
        """How many rows are possible."""
        return prod(self.spans)

    @property
    def parts(self) -> list[KeySpace]:
        """As few spaces as number the columns together, each as many of them as it can."""
        if self.size <= MOST_ROW_NUMBERS:
            return [self]
        ends = range(1, len(self.spans))
        end = max(end for end in ends if end == 1 or prod(self.spans[:end]) <= MOST_ROW_NUMBERS)
        rest = KeySpace(self.least[end:], self.spans[end:])
        return [KeySpace(self.least[:end], self.spans[:end]), *rest.parts]

    @property
    def box(self) -> list[tuple[int, int]]:
        """The least value of each column and the number of values."""
        return list(zip(self.least, self.spans, strict=True))

    @property
    def bounds(self) -> list[int]:
        """The box, concatenated."""
        return [number for pair in self.box for number in pair]

    def holds(self, columns: Sequence[Array]) -> bool:
        return all(
            len(column) == 0 or (int(column.min()) >= low and int(column.max()) < low + span)
            for column, low, span in zip(columns, self.least, self.spans, strict=True)
        )

    def numbers(self, columns: Sequence[Array], xp: Any = np) -> Array:
        numbers: Array = xp.zeros(len(columns[0]), dtype=np.int64)
        for column, low, span in zip(columns, self.least, self.spans, strict=True):
            numbers *= span
            numbers += column
            numbers -= low
        return numbers

    def rows(self, numbers: Array) -> Columns:
        columns = []
        for low, span in zip(reversed(self.least), reversed(self.spans), strict=True):
            rest, numbers = numbers, numbers // span
            rest = rest - numbers * span
            rest += low
            columns.append(rest)
        return tuple(reversed(columns))

    def joined(self, other: KeySpace) -> KeySpace | None:
        """The smallest space that contains both."""
        return KeySpace.within(
            [
                (min(a, b), max(a + m, b + n) - 1)
                for a, m, b, n in zip(self.least, self.spans, other.least, other.spans, strict=True)
            ]
        )

    def widened(self, columns: Sequence[Array]) -> KeySpace | None:
        """A space that contains these rows too, with room beyond them where they leave this one, so
        that growing values do not widen it each time. None if it is too large."""
        least = KeySpace.of(columns)
        joined = None if least is None else self.joined(least)
        if joined is None or joined == self:
            return joined
        bounds = []
        for low, span, a, n in zip(self.least, self.spans, joined.least, joined.spans, strict=True):
            bounds.append((a - n if a < low else a, a + (2 * n if a + n > low + span else n) - 1))
        return KeySpace.within(bounds) or joined
