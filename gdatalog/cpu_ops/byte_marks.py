"""The rows seen so far, as one byte for each possible row: without sorting or searching.

For rows whose columns together have few possible values. The range of values grows with the rows.
When the marks would become too large, `fits` returns False, and the set stays as it is.
"""

from __future__ import annotations

import numpy as np

from gdatalog.cancellation import current_watch, working_space
from gdatalog.records import replace
from gdatalog.storage.rows import Columns, RowPacking, Span, spans_of
from gdatalog.storage.table import Array
from gdatalog.values import INT_MIN

STRETCH = 1 << 22  # marks in one batch


def seen_rows(most: int) -> ByteMarks:
    """An empty set of rows, with at most `most` bytes of marks."""
    return ByteMarks(most)


class ByteMarks:
    packing = RowPacking

    def __init__(self, most: int) -> None:
        self.most = most  # bytes
        self._packing: RowPacking | None = None
        self._spans: list[Span] = []  # each column's least and greatest value
        self._marks = self.zeros(0)
        self._no_more = False  # a larger range did not fit into `most` bytes

    @property
    def nbytes(self) -> int:
        return int(self._marks.nbytes)

    def zeros(self, size: int) -> Array:
        return np.zeros(size, dtype=np.bool_)

    def spans(self, rows: Columns) -> list[Span]:
        """The least and the greatest value of each column, (0, 0) if there are no rows."""
        return spans_of([rows]) or [(0, 0)] * len(rows)

    def fits(self, rows: Columns) -> bool:
        """Extends the range of possible rows by these. Returns False, and changes nothing, if the
        marks would take more than `most` bytes."""
        if self._packing is not None and not len(rows[0]):
            return True
        spans = self.spans(rows)
        if self._spans:
            both = zip(self._spans, spans, strict=True)
            spans = [(min(a, c), max(b, d)) for (a, b), (c, d) in both]
        held = self._packing is not None and self._packing.covers(spans)
        if not held and (self._no_more or not self._widen(spans)):
            self._no_more = True
            return False
        if len(rows[0]):
            self._spans = spans
        return True

    def _widen(self, spans: list[Span]) -> bool:
        """Extends the marks to rows in these ranges. Returns False if they become too large."""
        for spare in (1, 0):
            packing = self.packing.within(spans, spare)
            if packing is not None and 1 << sum(packing.bits) <= self.most:
                self._grow(replace(packing, least=self._least(packing, spans)))
                return True
        return False

    def _grow(self, packing: RowPacking) -> None:
        before, old = self._packing, self._marks
        with working_space("marks", 1 << sum(packing.bits)):
            self._packing, self._marks = packing, self.zeros(1 << sum(packing.bits))
            wide = [np.dtype(np.int64)] * len(packing.bits)
            for start in range(0, len(old) if before is not None else 0, STRETCH):
                assert before is not None
                found = np.flatnonzero(old[start : start + STRETCH])
                found += start
                self._marks[packing.pack(before.unpack(found, wide))] = True

    def _least(self, packing: RowPacking, spans: list[Span]) -> tuple[int, ...]:
        """The least value of each column's range. Spare room is below the values if they have
        fallen, so that falling values outgrow the range as rarely as rising ones."""
        if not self._spans:
            return packing.least
        return tuple(
            max(INT_MIN, high - (1 << bits) + 1) if low < before else low
            for bits, (low, high), (before, _) in zip(packing.bits, spans, self._spans, strict=True)
        )

    def add(self, rows: Columns) -> None:
        """Marks rows, for which `fits` was true."""
        assert self._packing is not None
        self._marks[self._packing.pack(rows)] = True

    def news(self, rows: Columns) -> Array:
        """Marks rows, for which `fits` was true. Returns the ascending indices of those that were
        not marked, one for each distinct row."""
        assert self._packing is not None
        packed = self._packing.pack(rows)
        found = self._fresh(packed)
        self._marks[packed[found]] = True
        return found

    def _fresh(self, packed: Array) -> Array:
        fresh = np.flatnonzero(~self._marks[packed])
        _, first = np.unique(packed[fresh], return_index=True)
        first.sort()
        found: Array = fresh[first]
        return found

    def count(self) -> int:
        """How many rows are marked."""
        return int(np.count_nonzero(self._marks))

    def rows(self, dtypes: list[np.dtype[np.generic]]) -> Columns:
        """The marked rows, sorted."""
        assert self._packing is not None
        count = self.count()
        spill = current_watch().account.spill_for(count * sum(dtype.itemsize for dtype in dtypes))
        spilled = None if spill is None else spill.columns(dtypes)
        columns = tuple(np.empty(count if spilled is None else 0, dtype=dtype) for dtype in dtypes)
        at = 0
        for start in range(0, len(self._marks), STRETCH):
            found = np.flatnonzero(self._marks[start : start + STRETCH])
            found += start
            rows = self._packing.unpack(found, dtypes)
            if spilled is not None:
                spilled.append(rows)
                continue
            for column, part in zip(columns, rows, strict=True):
                column[at : at + len(part)] = part
            at += len(found)
        return columns if spilled is None else spilled.finish()
