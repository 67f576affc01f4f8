"""The rows seen so far on a device, as one byte for each possible row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.cpu_ops.byte_marks import ByteMarks
from gdatalog.gpu_ops.rows import Array, DevicePacking, RowOperations
from gdatalog.storage.rows import Columns, RowPacking


class DeviceByteMarks(ByteMarks):
    packing = DevicePacking

    def __init__(self, ops: RowOperations, most: int) -> None:
        self.ops = ops
        super().__init__(most)

    def zeros(self, size: int) -> Array:
        return self.ops.xp.zeros(size, dtype=bool)

    def spans(self, rows: Columns) -> list[tuple[int, int]]:
        return self.ops.spans(rows)

    def _grow(self, packing: RowPacking) -> None:
        known = (
            None if self._packing is None else self.rows([np.dtype(np.int64)] * len(packing.bits))
        )
        self._packing, self._marks = packing, self.zeros(1 << sum(packing.bits))
        if known is not None:
            self.add(known)

    def _fresh(self, packed: Array) -> Array:
        fresh = self.ops.survivors(~self._marks[packed])
        return fresh[self.ops.first_rows((packed[fresh],))]

    def count(self) -> int:
        return len(self.ops.survivors(self._marks))

    def rows(self, dtypes: Sequence[np.dtype[np.generic]]) -> Columns:
        assert self._packing is not None
        return self._packing.unpack(self.ops.survivors(self._marks), dtypes)
