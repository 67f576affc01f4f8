"""Sets of rows that answer which of given rows are new: sorted runs, a bitmap, or a hash set.

Sorted runs merge geometrically: for rows of any width, on any device. Rows that fit are packed into
integers, so that a thousand small additions do not cost a thousand passes. The arrays belong to the
device whose operations it is given.

A bitmap has one bit for each possible row. A hash set of row numbers suits rows that are few among
the possible ones; it never fills up: `room` is the number of rows that fit before it must grow.
Compiled loops fill both atomically, from several threads; this module does it for whole columns,
between runs of the loops. Large ones lie in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gdatalog.cancellation import current_watch, working_space
from gdatalog.executors.ops import Ops
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns
from gdatalog.storage.spill import Spill, held_bytes, is_spilled
from gdatalog.storage.table import Array

STRETCH = 1 << 20  # rows repacked at once
MANY = 64  # runs from which they merge although memory is short
SEARCH = 40  # bytes for each row searched among known ones


class SortedRows:
    """A set of rows as sorted runs. It stores the rows themselves, so the caller needs no other
    copy."""

    def __init__(self, width: int, ops: Ops) -> None:
        self.width = width
        self.ops = ops
        self._packing: Any = None
        self._ends: Columns | None = None  # least and greatest values of each column
        self._runs: list[Array] = []  # packed rows, each run sorted
        self._wide: Columns | None = None  # the rows, if they cannot be packed

    @property
    def nbytes(self) -> int:
        if self._wide is not None:
            return sum(map(held_bytes, self._wide))
        return sum(map(held_bytes, self._runs))

    def news(self, rows: Columns) -> Columns:
        """Adds distinct rows in any order; returns those that are new."""
        if not len(rows[0]):
            return rows
        if self._wide is None and self._fit(rows):
            with working_space("looking for new rows", SEARCH * len(rows[0])):
                return self._add_packed(rows)
        return self._add_wide(rows)

    def rows(self) -> Columns:
        """Returns all rows, sorted."""
        if self._wide is not None:
            return self._wide
        if not self._runs:
            return tuple(self.ops.xp.empty(0, dtype="int32") for _ in range(self.width))
        while len(self._runs) > 1:
            self._merge()
        (run,) = self._runs
        dtypes = self._dtypes()
        count = sum(int(dtype.itemsize) for dtype in dtypes) * len(run)
        spill = self._spill_for(count)
        if spill is not None:
            rows = spill.columns(dtypes)
            for start in range(0, len(run), STRETCH):
                rows.append(self._unpack(run[start : start + STRETCH]))
            return rows.finish()
        with working_space("rows", count):
            return self._unpack(run)

    def blocks(self, most: int) -> Iterator[Columns]:
        """Yields all rows in any order and blocks of limited size, without merging."""
        if self._wide is not None:
            yield self._wide
        for run in self._runs:
            for start in range(0, len(run), most):
                yield self._unpack(run[start : start + most])

    def _fit(self, rows: Columns) -> bool:
        """Adapts the packing to these rows; returns False if no packing fits."""
        ops, xp = self.ops, self.ops.xp
        if self._packing is not None and ops.holds(self._packing, rows):
            return True
        ends = tuple(xp.stack([column.min(), column.max()]).astype("int64") for column in rows)
        if self._ends is not None:
            ends = ops.concatenate([self._ends, ends])
        packing = ops.packing(ends, spare=4)
        if packing is None:
            return False
        for at, run in enumerate(self._runs):
            if is_spilled(run):
                spill = current_watch().account.spill
                assert spill is not None
                column = spill.column(run.dtype)
                for start in range(0, len(run), STRETCH):
                    column.append(packing.pack(self._unpack(run[start : start + STRETCH])))
                self._runs[at] = column.finish()
                continue
            with working_space("rows", int(run.nbytes)):
                anew = xp.empty(len(run), dtype=run.dtype)
                for start in range(0, len(run), STRETCH):
                    part = slice(start, start + STRETCH)
                    anew[part] = packing.pack(self._unpack(run[part]))
                self._runs[at] = anew
            del run
        self._packing, self._ends = packing, ends
        return True

    def _spill_for(self, count: int) -> Spill | None:
        """Where this many bytes go if they do not fit into memory."""
        return current_watch().account.spill_for(count) if self.ops.xp is np else None

    def _dtypes(self) -> list[Any]:
        """The types of unpacked columns."""
        ends = zip(self._packing.least, self._packing.bits, strict=True)
        fit = [low >= INT32_MIN and low + (1 << bits) <= INT32_MAX for low, bits in ends]
        return [self.ops.xp.dtype("int32" if fits else "int64") for fits in fit]

    def _unpack(self, run: Array) -> Columns:
        return tuple(self._packing.unpack(run, self._dtypes()))

    def _add_packed(self, rows: Columns) -> Columns:
        ops = self.ops
        packed = self._packing.pack(rows)
        packed.sort()  # cheap for sorted rows
        for run in self._runs:
            packed = packed[ops.survivors(~ops.in_sorted(packed, run))]
        if len(packed):
            self._runs.append(self._kept(packed))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            need = 2 * int(self._runs[-1].nbytes) + int(self._runs[-2].nbytes)
            if ops.xp is np and need > current_watch().account.spare() and len(self._runs) < MANY:
                break  # searching more runs takes longer but no memory
            self._merge()
        return self._unpack(packed)

    def _kept(self, packed: Array) -> Array:
        """Stores a run, in a file once half of the memory limit is in use."""
        here = self.ops.xp is np
        spill = current_watch().account.spill_half(self.nbytes + packed.nbytes) if here else None
        if spill is None:
            return packed
        column = spill.column(packed.dtype)
        column.append(packed)
        return column.finish()

    def _merge(self) -> None:
        """Merges the last two runs."""
        small, large = self._runs[-1], self._runs[-2]
        spill = self._spill_for(2 * int(small.nbytes) + int(large.nbytes))
        if spill is not None:
            from gdatalog.storage.sorting import merged_runs, rows_at_once

            column = spill.column(large.dtype)
            most = rows_at_once(current_watch().account, spill, large.itemsize)
            for (piece,) in merged_runs([(large,), (small,)], most):
                column.append(piece)
            self._runs[-2:] = [column.finish()]
            return
        with working_space("merging rows", 2 * int(small.nbytes) + int(large.nbytes)):
            self._runs[-2:] = [self.ops.merged([large, small])]

    def _add_wide(self, rows: Columns) -> Columns:
        ops, xp = self.ops, self.ops.xp
        width = 8 * self.width * (sum(map(len, self._runs)) + len(rows[0]))
        if self._wide is not None:
            width = sum(int(column.nbytes) for column in (*self._wide, *rows))
        spill = self._spill_for(2 * width)
        if spill is not None:
            return self._add_wide_in(spill, rows)
        with working_space("merging rows", 2 * width):
            if self._wide is None:
                runs = [self._unpack(run) for run in self._runs]
                empty = tuple(xp.empty(0, dtype=xp.int64) for _ in range(self.width))
                self._wide = ops.sort_rows(ops.concatenate([empty, *runs]))
                self._runs, self._packing = [], None
            self._wide, new = self._joined(self._wide, rows)
            return new

    def _add_wide_in(self, spill: Spill, rows: Columns) -> Columns:
        """Adds rows that are too wide to pack, with all rows in files: merges one range of rows
        after the other in memory."""
        from gdatalog.storage.sorting import divided, rows_at_once, sort_spilled

        account, dtypes = current_watch().account, [np.dtype(np.int64)] * self.width
        if self._wide is None:
            blocks = list(self.blocks(STRETCH))
            self._wide = sort_spilled(blocks, account, spill) if blocks else None
            self._runs, self._packing = [], None
        known = self._wide or tuple(np.empty(0, dtype=np.int64) for _ in dtypes)
        whole, news = spill.columns(dtypes), spill.columns(dtypes)
        most = rows_at_once(account, spill, 8 * self.width)
        for mine, its in divided([known, self.ops.sort_rows(rows)], most):
            joined, new = self._joined(mine, its)
            whole.append(joined)
            news.append(new)
        self._wide = whole.finish()
        return news.finish()

    def _joined(self, known: Columns, rows: Columns) -> tuple[Columns, Columns]:
        """Known and other rows together, sorted; and the rows that were new."""
        ops = self.ops
        both = ops.concatenate([known, rows])
        before = ops.xp.zeros(len(both[0]), dtype=bool)
        before[: len(known[0])] = True
        order = ops.order_rows(both)  # the sort is stable: a known row precedes its duplicate
        ordered = tuple(column[order] for column in both)
        marks = ops.row_firsts(ordered)
        kept, new = ops.survivors(marks), ops.survivors(marks & ~before[order])
        return tuple(column[kept] for column in ordered), tuple(column[new] for column in ordered)
