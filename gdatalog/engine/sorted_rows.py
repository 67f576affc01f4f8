"""A set of rows as sorted runs, merged geometrically: for rows of any width, on any device.

Rows that fit are packed into integers, so that a thousand tiny additions cost no thousand passes.
It holds arrays of the device whose operations it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array


class SortedRows:
    """The rows themselves, and so all that is held of them."""

    def __init__(self, width: int, ops: Any) -> None:
        self.width = width
        self.ops = ops
        self._packing: Any = None
        self._runs: list[Array] = []  # packed rows, each run sorted
        self._wide: Columns | None = None  # the rows, where they cannot be packed

    @property
    def nbytes(self) -> int:
        if self._wide is not None:
            return sum(int(column.nbytes) for column in self._wide)
        return sum(int(run.nbytes) for run in self._runs)

    def news(self, rows: Columns) -> Columns:
        """Adds different rows in any order; gives those that are new."""
        if self._wide is None and self._fit(rows):
            return self._add_packed(rows)
        return self._add_wide(rows)

    def rows(self) -> Columns:
        """All rows, sorted."""
        if self._wide is not None:
            return self._wide
        if not self._runs:
            return tuple(self.ops.xp.empty(0, dtype="int32") for _ in range(self.width))
        self._runs = [self.ops.merged(self._runs)]
        return self._unpack(self._runs[0])

    def blocks(self, most: int) -> Iterator[Columns]:
        """All rows in any order, no more than so many at once: nothing is merged."""
        if self._wide is not None:
            yield self._wide
        for run in self._runs:
            for start in range(0, len(run), most):
                yield self._unpack(run[start : start + most])

    def _fit(self, rows: Columns) -> bool:
        """Makes sure that the packing holds these rows; False if no packing does."""
        if self._packing is not None and self.ops.holds(self._packing, rows):
            return True
        everything = self.ops.concatenate([*(self._unpack(run) for run in self._runs), rows])
        packing = self.ops.packing(everything, spare=4)
        if packing is None:
            return False
        self._runs = [packing.pack(self._unpack(run)) for run in self._runs]
        self._packing = packing
        return True

    def _unpack(self, run: Array) -> Columns:
        rows: Columns = self._packing.unpack(run, [self.ops.xp.dtype("int64")] * self.width)
        return rows

    def _add_packed(self, rows: Columns) -> Columns:
        ops = self.ops
        packed = ops.xp.sort(self._packing.pack(rows))  # of sorted rows, a single look
        for run in self._runs:
            packed = packed[ops.survivors(~ops.in_sorted(packed, run))]
        if len(packed):
            self._runs.append(packed)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            small, large = self._runs.pop(), self._runs.pop()
            self._runs.append(ops.merged([large, small]))
        return self._unpack(packed)

    def _add_wide(self, rows: Columns) -> Columns:
        ops, xp = self.ops, self.ops.xp
        if self._wide is None:
            runs = [self._unpack(run) for run in self._runs]
            empty = tuple(xp.empty(0, dtype=xp.int64) for _ in range(self.width))
            self._wide = ops.sort_rows(ops.concatenate([empty, *runs]))
            self._runs, self._packing = [], None
        both = ops.concatenate([self._wide, rows])
        known = xp.zeros(len(both[0]), dtype=bool)
        known[: len(self._wide[0])] = True
        order = ops.order_rows(both)  # equal rows as they stand: a known one before its equal
        ordered = tuple(column[order] for column in both)
        marks = ops.row_firsts(ordered)
        kept = ops.survivors(marks)
        self._wide = tuple(column[kept] for column in ordered)
        new = ops.survivors(marks & ~known[order])
        return tuple(column[new] for column in ordered)
