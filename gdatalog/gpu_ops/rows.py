"""Operations on arrays and sets of rows on a device: compaction, expansion, bitmaps; sorting,
duplicates, groups, membership.

The device version of `cpu_ops/arrays.py` and of `storage/rows.py`. Reductions return device arrays,
which take a round trip to read on the host; docstrings say which functions wait for the device.
Rows whose columns fit into 63 bits are packed into one integer each and radix-sorted; wider rows
are sorted column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gdatalog.cpu_ops.arrays import sort_across
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.elementwise import HEAD
from gdatalog.gpu_ops.graph import DeviceGraph
from gdatalog.gpu_ops.kernels import SPREAD, THREADS, TILE, Kernels, type_of
from gdatalog.gpu_ops.level_notes import LevelNotes
from gdatalog.overhead import spending
from gdatalog.records import cached_property
from gdatalog.storage.row_ops import DeviceRows
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, RowPacking

Array = Any  # a device array: CuPy's on a GPU
Columns = tuple[Array, ...]
Box = Sequence[tuple[int, int]]

_ROWS = '#include "rows.cuh"\n'
RUN = 32  # words of a bitmap, as in rows.cuh


class Arrays:
    """Array operations. `xp` is the device's array module; the driver compiles and launches
    kernels. `notes`: of the sizes of levels, if this is for a run that notes them."""

    notes: LevelNotes | None = None

    def __init__(self, driver: CupyDriver) -> None:
        self.driver = driver
        self.xp: Any = driver.xp
        self.kernels = Kernels(driver)

    def noting(self, notes: LevelNotes) -> Self:
        """The same operations, of a run that notes the sizes of its levels, or has noted them."""
        found = copy(self)
        found.notes = notes
        return found

    @cached_property
    def nothing(self) -> Array:
        """For what a kernel does not read."""
        return self.xp.zeros(HEAD, dtype=self.xp.int64)

    # -------------------------------------------------------------------- to and from the host

    def numbers(self, *scalars: Array) -> list[int]:
        """The values of arrays of one int each, in one round trip."""
        found = self.listed(*scalars) if scalars else []
        return [one[0] if isinstance(one, list) else one for one in found]

    def listed(self, *arrays: Array) -> list[Any]:
        """The entries of short arrays, in one round trip, of which nothing is noted."""
        if self.notes is not None:
            self.notes.spoil()
        return self.read(*arrays)

    def read(self, *arrays: Array) -> list[Any]:
        """The entries of short arrays, in one round trip."""
        reading = self.driver.reading(arrays)
        return [found.tolist() for found in self.driver.wait(lambda: None, None, (), 0, reading)]

    def to_host(self, columns: Sequence[Array]) -> Columns:
        """Copies columns to host memory, as NumPy arrays."""
        with spending("moving", sum(int(column.nbytes) for column in columns)):
            return tuple(column.get() for column in columns)

    def totals(self, *lists: Array) -> list[int]:
        """The sum of each array of ints, in one round trip."""
        return self.numbers(*(values.sum() for values in lists))

    # -------------------------------------------------------------------------------- rows

    def survivors(self, mask: Array) -> Array:
        """The indices of the rows that pass a test. Waits for their count."""
        found: Array = self.xp.flatnonzero(mask)
        return found

    def place_of(self, size: int) -> Any:
        """The integer type for positions in an array of `size` entries."""
        return self.xp.int32 if size < 1 << 31 else self.xp.int64

    def state_of(self, size: int) -> Array:
        """The initial state of sums over the tiles of `size` entries (search.cuh)."""
        return self.cleared(self.state_words(size))

    @staticmethod
    def state_words(size: int) -> int:
        """How many words that is."""
        return HEAD + max(-(-size // TILE), min(-(-size // THREADS), SPREAD))

    def cleared(self, words: int) -> Array:
        """So many zeros."""
        found = None if self.notes is None else self.notes.cleared(words)
        return self.zeros(words) if found is None else found

    def zeros(self, words: int) -> Array:
        """The same, cleared behind the kernels that are queued, also in a graph."""
        found = self.xp.empty(words, dtype=self.xp.int64)
        self.driver.clear(found)
        return found

    def counts_of_marks(self, marks: Array) -> Array:
        """The number of set bits in each run of `RUN` words of a bitmap."""
        words = len(marks)
        counts = self.xp.empty(-(-words // RUN), dtype=self.xp.int64)
        self.kernels.launch(_ROWS, "count_marks", {}, words, [marks, counts, words])
        return counts

    def rows_of_marks(
        self,
        marks: Array,
        counts: Array,
        first: int,
        end: int,
        box: Box,
        dtypes: Sequence[np.dtype[np.generic]],
    ) -> tuple[Array, ...]:
        """The rows that the runs from `first` to `end` of a bitmap mark, ascending. `counts`: the
        number of set bits in each run. `box`: the least value and the number of values of each
        column. Waits for the number of rows."""
        xp, marks, divisor = self.xp, marks[first * RUN : end * RUN], 1
        ends = xp.cumsum(counts[first:end])
        starts, size = ends - counts[first:end], int(ends[-1])
        columns = []
        for (least, span), dtype in zip(reversed(box), reversed(dtypes), strict=True):
            column = xp.empty(size, dtype=dtype)
            numbers = [len(marks), first * RUN * 64, divisor, span, least]
            types = {"OUT": type_of(column)}
            args = [marks, starts, column, *numbers]
            self.kernels.launch(_ROWS, "marked_column", types, len(marks), args)
            columns.append(column)
            divisor *= span
        return tuple(reversed(columns))

    def expand(self, starts: Array, lengths: Array, size: int | None = None) -> tuple[Array, Array]:
        """Each position of each list as (row, position), row by row. Uses load-balancing search.

        Waits for the total length unless `size` gives it.
        """
        xp = self.xp
        ends = xp.cumsum(lengths)
        if size is None:
            size = int(ends[-1]) if len(ends) else 0
        positions = xp.arange(size)
        rows = xp.searchsorted(ends, positions, side="right")
        positions += (starts - (ends - lengths))[rows]
        return rows, positions

    def pieces(
        self, lengths: Array, limit: int, total: int | None = None
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Like `cpu_ops.pieces`. Waits for the device once for each piece; if there is only one
        piece, once or, with `total`, never."""
        xp, rows = self.xp, len(lengths)
        if not rows:
            return
        if total is None:
            # Long lists are clipped, since the sum of all lengths may overflow.
            total = int(xp.minimum(lengths, limit + 1).sum())
        if total <= limit:
            if total:
                yield 0, rows, 0, -1, total
            return
        ends = xp.cumsum(xp.minimum(lengths, limit + 1))
        row, before = 0, 0
        while row < rows:
            # The first row whose list ends beyond the piece; the sums of lengths before and after
            # it; its length.
            behind = xp.searchsorted(ends, xp.asarray([before + limit]), side="right")[0]
            last, following = xp.maximum(behind - 1, 0), xp.minimum(behind, rows - 1)
            stop, end, next_end, long = self.numbers(
                behind, ends[last], ends[following], lengths[following]
            )
            if stop > row:
                if end > before:
                    yield row, stop, 0, -1, end - before
                row, before = stop, end
            if row < rows and long > limit:
                for skip in range(0, long, limit):
                    take = min(limit, long - skip)
                    yield row, row + 1, skip, take, take
                row, before = row + 1, next_end

    def in_sorted(self, values: Array, among: Array) -> Array:
        """A mask of the `values` that occur in the sorted array `among`."""
        xp = self.xp
        if len(among) == 0:
            return xp.zeros(len(values), dtype=bool)
        at = xp.minimum(xp.searchsorted(among, values), len(among) - 1)
        found: Array = among[at] == values
        return found

    def sort_across(self, columns: Sequence[Array]) -> list[Array]:
        """The values of each row in ascending order, the least in the first column."""
        return sort_across(columns, self.xp)


class DevicePacking(RowPacking):
    """The bits of each column in a packed row, for a device's arrays."""

    __slots__ = ()

    def pack(self, columns: Sequence[Array], into: Array | None = None) -> Array:
        """The rows as integers. Columns without bits are skipped."""
        packed: Array | None = None
        for column, low, width in zip(columns, self.least, self.bits, strict=True):
            if not width:
                continue
            mine = column.astype(np.int64)
            if low:
                mine -= low
            if packed is None:
                packed = mine
            else:
                packed <<= width
                packed |= mine
        return columns[0].astype(np.int64) * 0 if packed is None else packed

    def unpack(self, packed: Array, dtypes: Sequence[npt.DTypeLike]) -> Columns:
        columns: list[Array] = []
        packed = packed.astype(np.int64)
        below = sum(self.bits)
        for low, width, dtype in zip(self.least, self.bits, dtypes, strict=True):
            below -= width
            columns.append((((packed >> below) & ((1 << width) - 1)) + low).astype(dtype))
        return tuple(columns)


class RowOperations(Arrays):
    """Operations on sets of rows."""

    def spans(self, columns: Sequence[Array]) -> list[tuple[int, int]]:
        """The least and the greatest value of each column, (0, 0) if there are no rows, in one
        round trip."""
        if not columns or not len(columns[0]):
            return [(0, 0)] * len(columns)
        found = self.numbers(*(edge for c in columns for edge in (c.min(), c.max())))
        return list(zip(found[::2], found[1::2], strict=True))

    def packing(self, columns: Sequence[Array], spare: int = 0) -> DevicePacking | None:
        """A packing for these columns, with up to `spare` more bits for each; None if too wide."""
        return DevicePacking.within(self.spans(columns), spare)

    def holds(self, packing: DevicePacking, columns: Sequence[Array]) -> bool:
        """Whether these columns' values fit a packing."""
        return not len(columns[0]) or packing.covers(self.spans(columns))

    def firsts(self, values: Array) -> Array:
        """A mask of the entries of a sorted array that differ from the one before."""
        marks = self.xp.empty(len(values), dtype=bool)
        marks[:1] = True
        marks[1:] = values[1:] != values[:-1]
        return marks

    def row_firsts(self, columns: Sequence[Array]) -> Array:
        """A mask of the rows that differ from the one before, in lexicographically sorted
        columns."""
        marks = self.firsts(columns[0])
        for column in columns[1:]:
            marks[1:] |= column[1:] != column[:-1]
        return marks

    def sorted_set(self, values: Array) -> Array:
        """The sorted distinct values of an array of ints; the array itself if it is sorted and
        distinct."""
        if len(values) < 2 or bool((values[1:] > values[:-1]).all()):
            return values
        values = self.xp.sort(values)
        kept = self.survivors(self.firsts(values))
        return values if len(kept) == len(values) else values[kept]

    def sort_rows(self, columns: Sequence[Array]) -> Columns:
        """The same set of rows, sorted lexicographically and without duplicates."""
        columns = tuple(columns)
        if not columns or len(columns[0]) < 2:
            return columns
        if len(columns) == 1:
            return (self.sorted_set(columns[0]),)
        packing = self.packing(columns)
        if packing is not None:
            packed = packing.pack(columns)
            distinct = self.sorted_set(packed)
            if distinct is packed:
                return columns
            return packing.unpack(distinct, [column.dtype for column in columns])
        order = self.order_rows(columns)
        columns = tuple(column[order] for column in columns)
        kept = self.survivors(self.row_firsts(columns))
        if len(kept) == len(order):
            return columns
        return tuple(column[kept] for column in columns)

    def merge_rows(self, blocks: list[Columns]) -> Columns:
        """The rows of all blocks, sorted and without duplicates. Empties the list, to free the
        blocks."""
        rows = self.concatenate(blocks)
        blocks.clear()
        return self.sort_rows(rows)

    def order_rows(self, columns: Sequence[Array]) -> Array:
        """The stable sort order of rows that do not fit into 63 bits."""
        xp = self.xp
        found: Array = xp.lexsort(xp.stack([column.astype(xp.int64) for column in columns[::-1]]))
        return found

    def _ordered(self, columns: Sequence[Array]) -> tuple[Array, Array]:
        """The stable sort order of rows, and a mask of the sorted rows that differ from the one
        before."""
        packing = self.packing(columns)
        if packing is None:
            order = self.order_rows(columns)
            return order, self.row_firsts([column[order] for column in columns])
        packed = packing.pack(columns)
        order = self.xp.argsort(packed, kind="stable")
        return order, self.firsts(packed[order])

    def first_rows(self, columns: Sequence[Array]) -> Array:
        """The index of the first row of each set of equal rows, ascending."""
        if not len(columns[0]):
            return self.xp.arange(0)
        order, marks = self._ordered(columns)
        return self.xp.sort(order[self.survivors(marks)])

    def group_rows(self, columns: Sequence[Array], length: int) -> tuple[Array, Array]:
        """(first, groups): the first row of each group of equal rows, and each row's group.

        Groups are numbered in the order of the rows' values.
        """
        xp = self.xp
        if not columns or not length:
            first = xp.zeros(min(1, length), dtype=xp.int64)
            return first, xp.zeros(length, dtype=xp.int64)
        order, marks = self._ordered(columns)
        groups = xp.empty(length, dtype=xp.int64)
        groups[order] = xp.cumsum(marks) - 1
        return order[self.survivors(marks)], groups

    def concatenate(self, blocks: Sequence[Columns]) -> Columns:
        """The rows of all blocks, one after the other. There must be a block."""
        if len(blocks) == 1:
            return blocks[0]
        return tuple(self.xp.concatenate(parts) for parts in zip(*blocks, strict=True))

    def graph_of(self, rows: DeviceRows) -> DeviceGraph:
        """Rows of two columns as the edges of a graph."""
        return DeviceGraph(rows)

    def merged(self, runs: Sequence[Array]) -> Array:
        """Merges sorted arrays. A radix sort takes no longer than a merge."""
        if len(runs) == 1:
            return runs[0]
        found: Array = self.xp.sort(self.xp.concatenate(runs))
        return found

    def narrowed(self, columns: Sequence[Array]) -> Columns:
        """The same integers; each column in 32 bits if its values fit, else in 64. Takes one round
        trip."""
        xp = self.xp
        wide = [column for column in columns if column.dtype != xp.int32]
        fits = iter([a >= INT32_MIN and b <= INT32_MAX for a, b in self.spans(wide)])
        return tuple(
            column
            if column.dtype == xp.int32
            else column.astype(xp.int32 if next(fits) else xp.int64, copy=False)
            for column in columns
        )
