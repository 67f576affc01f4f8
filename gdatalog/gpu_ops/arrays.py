"""Array operations of the executors on a device: compaction, expansion, batches, bitmaps.

The device version of `cpu_ops/arrays.py`. Reductions return device arrays, and reading one on the
host costs a round trip; docstrings say which functions wait for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gdatalog.account import spending
from gdatalog.gpu_ops.driver import TILE, Driver, Kernels, type_of

Array = Any  # a device array: CuPy's on a GPU
Box = Sequence[tuple[int, int]]

_ROWS = '#include "rows.cuh"\n'
RUN = 32  # words of a bitmap, as in rows.cuh


class Arrays:
    """Array operations. `xp` is the device's array module; the driver compiles and launches
    kernels."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.xp: Any = driver.xp
        self.kernels = Kernels(driver)

    # -------------------------------------------------------------------- to and from the host

    def numbers(self, *scalars: Array) -> list[int]:
        """The values of arrays of one int each, in one round trip."""
        if not scalars:
            return []
        xp = self.xp
        together = xp.stack([xp.asarray(scalar).astype(xp.int64).reshape(()) for scalar in scalars])
        found: list[int] = together.tolist()
        return found

    def to_host(self, columns: Sequence[Array]) -> tuple[Any, ...]:
        """Copies columns to host memory, as NumPy arrays."""
        with spending("moving", sum(int(column.nbytes) for column in columns)):
            return tuple(column.get() for column in columns)

    def totals(self, *lists: Array) -> list[int]:
        """The sum of each array of ints, in one round trip."""
        return self.numbers(*(values.sum() for values in lists))

    # -------------------------------------------------------------------------------- rows

    def survivors(self, mask: Array) -> Array:
        """The indices of the rows that pass a test. Waits for their count."""
        xp, size = self.xp, len(mask)
        place = self.place_of(size)
        if not size:
            return xp.empty(0, dtype=place)
        if mask.dtype != bool:
            mask = mask != 0
        found, state = xp.empty(size, dtype=place), self.state_of(size)
        types = {"PLACE": "i32" if place == xp.int32 else "i64"}
        self.kernels.launch(_ROWS, "survivors", types, size, [mask, found, state, size])
        return self.kept(found, state)

    def place_of(self, size: int) -> Any:
        """The integer type for positions in an array of `size` entries."""
        return self.xp.int32 if size < 1 << 31 else self.xp.int64

    def state_of(self, size: int) -> Array:
        """The zeroed state of a compaction: two words and one for each tile (search.cuh)."""
        return self.xp.zeros(2 + -(-size // TILE), dtype=self.xp.int64)

    def kept(self, found: Array, state: Array, *more: Array) -> Any:
        """The first entries of arrays that a compaction has filled. Waits for their count."""
        count = int(state[1])
        if 2 * count < len(found):  # copy, to free the unused rest
            parts = [part[:count].copy() for part in (found, *more)]
        else:
            parts = [part[:count] for part in (found, *more)]
        return parts if more else parts[0]

    def counts_of_marks(self, marks: Array) -> Array:
        """How many bits are set in each run of `RUN` words of a bitmap."""
        words = len(marks)
        counts = self.xp.empty(-(-words // RUN), dtype=self.xp.int64)
        self.kernels.launch(_ROWS, "count_marks", {}, words, [marks, counts, words])
        return counts

    def rows_of_marks(
        self, marks: Array, counts: Array, first: int, end: int, box: Box, dtypes: Sequence[Any]
    ) -> tuple[Array, ...]:
        """The rows that runs `first` to `end` of a bitmap mark, ascending. `counts`: set bits of
        every run; `box`: each column's least value and number of values. Waits for the number of
        rows."""
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
        """Each position of each list as (row, position), row by row, by load-balancing search.

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
        """As `cpu_ops.pieces`. Waits once a piece; once in all if everything is one piece and
        `total` is not given."""
        xp, rows = self.xp, len(lengths)
        if not rows:
            return
        if total is None:
            # Long lists are clipped: the sum of all lengths may overflow.
            total = int(xp.minimum(lengths, limit + 1).sum())
        if total <= limit:
            if total:
                yield 0, rows, 0, -1, total
            return
        ends = xp.cumsum(xp.minimum(lengths, limit + 1))
        row, before = 0, 0
        while row < rows:
            # The first row whose list ends beyond the piece, the sums before and after it, its
            # length.
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
        xp = self.xp
        found = list(columns)
        for end in range(len(found) - 1, 0, -1):
            for at in range(end):
                low, high = found[at], found[at + 1]
                found[at], found[at + 1] = xp.minimum(low, high), xp.maximum(low, high)
        return found
