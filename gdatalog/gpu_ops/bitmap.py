"""A set of rows on a device as marks: one byte for each row that may occur.

The device version of `cpu_ops/intersection.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.arrays import Array
from gdatalog.gpu_ops.rows import Columns, DevicePacking, RowOperations


class DeviceMarkedRows:
    def __init__(self, ops: RowOperations, most: int) -> None:
        self.ops = ops
        self.most = most  # bytes
        self._packing: DevicePacking | None = None
        self._spans: list[tuple[int, int]] = []  # each column's least and greatest value
        self._marks = ops.xp.zeros(0, dtype=bool)
        self._no_more = False  # a larger range did not fit into `most` bytes

    @property
    def nbytes(self) -> int:
        return int(self._marks.nbytes)

    def fits(self, rows: Columns) -> bool:
        """Extends the range of possible rows by these. Returns False, and changes nothing, if the
        marks would take more than `most` bytes."""
        ops, xp = self.ops, self.ops.xp
        spans = ops.spans(rows)
        if self._spans and not len(rows[0]):
            return True
        if self._spans:
            both = zip(self._spans, spans, strict=True)
            spans = [(min(a, c), max(b, d)) for (a, b), (c, d) in both]
        before = self._packing
        if before is None or not before.holds(spans):
            if self._no_more:
                return False
            for spare in (1, 0):
                packing = DevicePacking.of(xp, spans, spare)
                if packing is not None and 1 << sum(packing.bits) <= self.most:
                    break
            else:
                self._no_more = True
                return False
            known = None if before is None else self.rows([xp.int64] * len(rows))
            self._packing = packing
            self._marks = xp.zeros(1 << sum(packing.bits), dtype=bool)
            if known is not None:
                self._marks[packing.pack(known)] = True
        if len(rows[0]):
            self._spans = spans
        return True

    def add(self, rows: Columns) -> None:
        """Marks rows, for which `fits` was true."""
        assert self._packing is not None
        self._marks[self._packing.pack(rows)] = True

    def news(self, rows: Columns) -> Array:
        """Marks rows, for which `fits` was true. Returns the ascending indices of those that were
        not marked, one for each distinct row."""
        assert self._packing is not None
        ops = self.ops
        packed = self._packing.pack(rows)
        fresh = ops.survivors(~self._marks[packed])
        found: Array = fresh[ops.first_rows((packed[fresh],))]
        self._marks[packed[found]] = True
        return found

    def count(self) -> int:
        """How many rows are marked."""
        return len(self.ops.survivors(self._marks))

    def rows(self, dtypes: Sequence[Any]) -> Columns:
        """The marked rows, sorted."""
        assert self._packing is not None
        return self._packing.unpack(self.ops.survivors(self._marks), dtypes)
