"""Rows on a device: the operations on them, the store that holds them, and selections from a
column.

Such an array has a dtype, a length, `nbytes`, and `get()`, which copies it to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from gdatalog.storage.keys import key_to_float
from gdatalog.storage.rows import Columns, Span, in_sorted
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.timers import spending
from gdatalog.values import INT_MAX, INT_MIN, TypeName


class KnownRows(IntEnum):
    """What is known of some rows; each says more than the one before."""

    NOTHING = 0
    DISTINCT = 1
    SORTED = 2  # and distinct, in one block


def is_on_host(column: Any) -> bool:
    """Whether a column is NumPy's."""
    return isinstance(column, np.ndarray)


def brought(column: Any) -> Array:
    """A column as a NumPy array."""
    if isinstance(column, np.ndarray):
        return column
    with spending("moving", int(column.nbytes)):  # waits for the kernels that make it, too
        return np.asarray(column.get())


def device_values(keys: Any, kind: TypeName) -> Any:
    """The values of a column's keys, on their device; symbols stay codes. Never the keys
    themselves: what a user changes is the user's."""
    if kind == "float":
        return key_to_float(keys)
    return keys.astype({"bool": np.bool_, "symbol": np.int32}.get(kind, np.int64))


class DeviceStore:
    """A set of rows of at least one column, on the device whose operations `ops` are."""

    __slots__ = (
        "__weakref__", "_blocks", "_copy", "_graph", "_plain", "answers", "count", "known", "ops"
    )  # fmt: skip

    def __init__(
        self, ops: DeviceOps, blocks: Sequence[Columns], count: int, known: KnownRows
    ) -> None:
        """`count`: how many rows there are, if none of them is there twice."""
        self.ops = ops
        self._blocks = list(blocks)
        self._plain = False  # one block, in 32 bits where they do
        self._graph: Any = None
        self._copy: Columns | None = None
        self.answers: WeakSet[Lying] = WeakSet()  # that hold the rows
        self.count = count
        self.known = known

    @property
    def nbytes(self) -> int:
        own = 0 if self._graph is None else self._graph.nbytes
        return own + sum(int(column.nbytes) for block in self._blocks for column in block)

    @property
    def graph(self) -> Any:
        """What is known of rows of two columns as edges."""
        if self._graph is None:
            self._graph = self.ops.graph_of(self)
        return self._graph

    def use(self) -> AbstractContextManager[None]:
        """Within, this thread works on the device: whoever asks for rows may be at another."""
        used: AbstractContextManager[None] = getattr(self.ops.driver, "use", nullcontext)()
        return used

    def as_they_are(self) -> Columns:
        """The rows in any order; there may be duplicates."""
        if not self._plain:
            with self.use():
                self._blocks = [self.ops.narrowed(self.ops.concatenate(self._blocks))]
            self._plain = True
        return self._blocks[0]

    def distinct(self) -> Columns:
        """The rows in any order, each once."""
        return self.as_they_are() if self.known >= KnownRows.DISTINCT else self.sorted()

    def sorted(self) -> Columns:
        """The rows, sorted."""
        if self.known < KnownRows.SORTED:
            with self.use():
                rows = tuple(self.ops.sort_rows(self.as_they_are()))
            self._blocks, self._copy = [rows], None
            self.count = len(rows[0])
            self.known = KnownRows.SORTED
        return self.as_they_are()

    def fetched(self) -> Columns:
        """The rows, copied to the host, once."""
        if self._copy is None:
            self._copy = self.brought([self.as_they_are()])[0]
        return self._copy

    def brought(self, blocks: Sequence[Columns]) -> list[Columns]:
        """Blocks of columns, copied to the host."""
        with self.use():
            return [tuple(map(self._brought, block)) for block in blocks]

    def _brought(self, column: Any) -> Array:
        if is_on_host(column):
            return brought(column)
        with spending("moving", int(column.nbytes)):  # waits for the kernels that make it, too
            return np.asarray(self.ops.driver.fetched(column))


class Lying:
    """Rows that an answer holds on a device, in its order, until the device lets go of them."""

    __slots__ = ("__weakref__", "blocks", "host_blocks", "rows")

    def __init__(self, blocks: Sequence[Columns], rows: DeviceStore) -> None:
        """`rows`: those that they are of."""
        self.blocks = blocks
        self.rows: DeviceStore | None = rows
        self.host_blocks: list[Columns] | None = None
        rows.answers.add(self)

    def fetched(self) -> list[Columns]:
        """The blocks, copied to the host, once."""
        if self.host_blocks is None:
            rows = self.rows
            assert rows is not None
            whole = len(self.blocks) == 1 and self.blocks[0] is rows.as_they_are()
            self.host_blocks = [rows.fetched()] if whole else rows.brought(self.blocks)
        return self.host_blocks

    def leave(self) -> None:
        """Lets go of the device's arrays."""
        self.blocks, self.rows = self.fetched(), None


# What a device can do with arrays of rows: what `cpu_ops` is, and what `gpu_ops` makes of CuPy.
#
# Arrays are those of the device: NumPy's, or CuPy's, which type checkers take for NumPy's. Joins
# ask for more (`executors/ops.py`).


class PackedColumns(Protocol):
    """Where each column's bits lie in rows that are packed into integers."""

    @property
    def least(self) -> tuple[int, ...]: ...
    @property
    def bits(self) -> tuple[int, ...]: ...

    def pack(self, columns: Sequence[Array], /) -> Array: ...
    def unpack(self, packed: Array, dtypes: Sequence[Any], /) -> Columns: ...


class RowMarks(Protocol):
    """A set of rows as a mark for each row that there could be."""

    @property
    def nbytes(self) -> int: ...

    def fits(self, rows: Columns, /) -> bool:
        """Makes room for these rows; False, and nothing is changed, if there is not so much."""
        ...

    def add(self, rows: Columns, /) -> None:
        """Marks rows, which fit."""
        ...

    def news(self, rows: Columns, /) -> Array:
        """Marks rows, which fit; the indices, ascending, of the first of each that was not."""
        ...

    def count(self) -> int: ...

    def rows(self, dtypes: list[Any], /) -> Columns:
        """The marked rows, sorted."""
        ...


class RowOps(Protocol):
    """Operations on rows and on lists of one device."""

    @property
    def xp(self) -> Any:
        """The module of its arrays: NumPy or CuPy."""
        ...

    # ---------------------------------------------------------------------- places and lists

    def survivors(self, mask: Array, /) -> Array:
        """The indices that are left after a test."""
        ...

    def expand(
        self, starts: Array, lengths: Array, size: int | None = None, /
    ) -> tuple[Array, Array]:
        """Every position of every list: (row, position), row by row."""
        ...

    def pieces(
        self, lengths: Array, limit: int, total: int | None = None, /
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Cuts rows with lists of these lengths into pieces of at most `limit` list entries."""
        ...

    def totals(self, *lists: Array) -> list[int]:
        """The sum of each array of ints."""
        ...

    def sums_by(self, groups: Array, count: int, amounts: Array | None, /) -> Array:
        """The sum of the amounts (1 if None) of each group."""
        ...

    def in_sorted(self, values: Array, among: Array, /) -> Array:
        """Which of `values` occur in the sorted array `among`."""
        ...

    def sort_across(self, columns: Sequence[Array], /) -> list[Array]:
        """The values of each row in ascending order, the least in the first column."""
        ...

    # --------------------------------------------------------------------------- sets of rows

    def concatenate(self, blocks: Sequence[Columns], /) -> Columns:
        """The rows of all blocks, one after the other; there is at least one block."""
        ...

    def narrowed(self, columns: Sequence[Array], /) -> Columns:
        """The same integers in 32 bits where a column's fit, else in 64."""
        ...

    def sort_rows(self, columns: Sequence[Array], /) -> Columns:
        """The same set of rows, sorted lexicographically and without duplicates."""
        ...

    def merge_rows(self, blocks: list[Columns], /) -> Columns:
        """The rows of all blocks, sorted and without duplicates; it empties the list."""
        ...

    def order_rows(self, columns: Sequence[Array], /) -> Array:
        """The order that sorts rows lexicographically, equal rows as they stand."""
        ...

    def row_firsts(self, columns: Sequence[Array], /) -> Array:
        """Which rows of lexicographically sorted columns differ from the row before."""
        ...

    def first_rows(self, columns: Sequence[Array], /) -> Array:
        """The indices, ascending, of the first of each set of equal rows."""
        ...

    def group_rows(self, columns: Sequence[Array], length: int, /) -> tuple[Array, Array]:
        """The first row of each distinct row, and for each row its group's number."""
        ...

    def packing(self, columns: Sequence[Array], spare: int = 0) -> PackedColumns | None:
        """A packing for these columns, with `spare` bits of room above each; None if too wide."""
        ...

    def holds(self, packing: Any, columns: Sequence[Array], /) -> bool:
        """Whether these columns' values fit into a packing, one of this device, as well."""
        ...

    def merged(self, runs: Sequence[Array], /) -> Array:
        """Sorted arrays as one."""
        ...

    def marked_rows(self, most: int, /) -> RowMarks:
        """An empty set of rows, of at most so many bytes of marks."""
        ...

    # --------------------------------------------------------------------------------- values

    def float_to_key(self, values: Array, /) -> Array: ...
    def key_to_float(self, keys: Array, /) -> Array: ...


class DeviceOps(RowOps, Protocol):
    """Those of a device whose arrays are not NumPy's."""

    @property
    def driver(self) -> Any: ...

    def firsts(self, values: Array, /) -> Array:
        """Which sorted values differ from the one before."""
        ...

    def spans(self, columns: Sequence[Array], /) -> list[Span]:
        """The least and the greatest value of each column."""
        ...

    def graph_of(self, rows: DeviceStore, /) -> Any:
        """What is known of rows of two columns as edges."""
        ...


class BitmapOps(RowOps, Protocol):
    """Operations of a device on bitmaps whose bits are numbers of rows."""

    def counts_of_marks(self, marks: Array, /) -> Array:
        """How many rows each run of words marks."""
        ...

    def rows_of_marks(
        self,
        marks: Array,
        counts: Array,
        first: int,
        end: int,
        box: Sequence[tuple[int, int]],
        dtypes: Sequence[Any],
        /,
    ) -> Columns:
        """The rows that some runs of words mark."""
        ...

    def to_host(self, columns: Sequence[Array], /) -> Columns:
        """The columns as NumPy's arrays."""
        ...


# Which rows of a column hold one of some values, found by a pass over the column.

FEW = 4  # values that a column is compared with, one after the other
_ROOM = 1 << 24  # marks for values in a range; a byte each
# Marks for numbers drawn from values in a longer range: so many for each value, as powers of two,
# but at most as many as stay in a cache.
_SPARE, _LEAST, _MOST = 6, 16, 22


def rows_with(column: Array, key: int) -> Array:
    """The rows, ascending, that hold a key."""
    return np.flatnonzero(column == key)


def rows_among(column: Array, values: Array) -> Array:
    """The rows, ascending, that hold one of some sorted distinct values."""
    if len(values) <= FEW:
        found = np.zeros(len(column), dtype=np.bool_)
        for value in values:
            found |= column == value
        return np.flatnonzero(found)
    low, high = int(values[0]), int(values[-1])
    if high - low < max(_ROOM, len(column)) and low > INT_MIN and high < INT_MAX:
        # A mark for each value in the range, and one that is never set on either side.
        marks = np.zeros(high - low + 3, dtype=np.bool_)
        marks[values.astype(np.int64) - (low - 1)] = True

        def look_up(keys: Array) -> Array:
            places = keys.astype(np.intp)
            places -= low - 1
            return np.flatnonzero(marks.take(places, mode="clip"))

        return _rows_of(column, look_up)
    wanted = values.astype(column.dtype)  # one that does not fit becomes another, told apart below
    bits = min(max((len(values) - 1).bit_length() + _SPARE, _LEAST), _MOST)
    first, second = np.zeros((2, 1 << bits), dtype=np.bool_)
    first[_drawn(wanted, bits)] = True
    second[_drawn(wanted, bits, again=True)] = True

    def sift(keys: Array) -> Array:
        rows = np.flatnonzero(first.take(_drawn(keys, bits), mode="clip"))
        rows = rows[second.take(_drawn(keys[rows], bits, again=True), mode="clip")]
        return rows[in_sorted(keys[rows], values)]

    return _rows_of(column, sift)


def _rows_of(column: Array, look: Callable[[Array], Array]) -> Array:
    """The rows, ascending, of those that `look` gives of each stretch of a column."""
    found: dict[int, Array] = {}

    def one(part: slice) -> None:
        found[part.start] = look(column[part]) + part.start

    in_ranges(one, len(column))
    return np.concatenate([found[start] for start in sorted(found)] or [np.empty(0, np.intp)])


def _drawn(values: Array, bits: int, again: bool = False) -> Array:
    """A number of so many bits for each value, the same for the same; `again`: another one."""
    if values.dtype.itemsize == 4:
        short: Array = values.view(np.uint32) * np.uint32(0x9E37_79B1)
        return short & np.uint32((1 << bits) - 1) if again else short >> np.uint32(32 - bits)
    mixed = values.astype(np.int64, copy=False).view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = mixed << np.uint64(bits) if again else mixed
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)
