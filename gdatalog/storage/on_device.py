"""Rows on a device: the operations on them, the store that holds them, and selections by a column.

A device array has a dtype, a length, `nbytes`, and `get()`, which copies it to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from operator import methodcaller
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from gdatalog.account import spending
from gdatalog.records import cached_property
from gdatalog.storage.keys import key_to_float
from gdatalog.storage.rows import Columns, RowPacking, Span, in_sorted
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.values import INT_MAX, INT_MIN, TypeName


class KnownRows(IntEnum):
    """What is known of some rows; each level includes the one before."""

    NOTHING = 0
    DISTINCT = 1
    SORTED = 2  # and distinct, in one block


def is_on_host(column: object) -> bool:
    """Whether a column is a NumPy array."""
    return isinstance(column, np.ndarray)


def brought(column: Array, get: Callable[[Array], Array] = methodcaller("get")) -> Array:
    """A column as a NumPy array; `get` copies one from a device."""
    if isinstance(column, np.ndarray):
        return column
    with spending("moving", int(column.nbytes)):  # waits for the kernels that make it, too
        return np.asarray(get(column))


def device_values(keys: Array, kind: TypeName) -> Array:
    """The values of a column's keys, on their device; symbols stay codes. Always a copy, which
    users may change."""
    if kind == "float":
        return key_to_float(keys)
    return keys.astype({"bool": np.bool_, "symbol": np.int32}.get(kind, np.int64))


class DeviceStore:
    """A set of rows of at least one column, on the device with these operations (`ops`)."""

    def __init__(
        self, ops: DeviceOps, blocks: Sequence[Columns], count: int, known: KnownRows
    ) -> None:
        """`count`: the number of rows, without duplicates if they are known to be distinct."""
        self.ops = ops
        self._blocks = list(blocks)
        self._plain = False  # whether there is one block, in 32 bits if they suffice
        self._copy: Columns | None = None
        self.answers: WeakSet[Lying] = WeakSet()  # answers that use the rows
        self.count = count
        self.known = known

    @property
    def nbytes(self) -> int:
        own: int = self.graph.nbytes if "graph" in vars(self) else 0
        return own + sum(int(column.nbytes) for block in self._blocks for column in block)

    @cached_property
    def graph(self) -> Any:
        """Rows of two columns as the edges of a graph."""
        return self.ops.graph_of(self)

    def use(self) -> AbstractContextManager[None]:
        """Makes the device current in this thread."""
        return self.ops.driver.use()

    def as_they_are(self) -> Columns:
        """The rows in any order; there may be duplicates."""
        if not self._plain:
            with self.use():
                self._blocks = [self.ops.narrowed(self.ops.concatenate(self._blocks))]
            self._plain = True
        return self._blocks[0]

    def distinct(self) -> Columns:
        """The distinct rows, in any order."""
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
        """The rows on the host, copied once."""
        if self._copy is None:
            self._copy = self.brought([self.as_they_are()])[0]
        return self._copy

    def brought(self, blocks: Sequence[Columns]) -> list[Columns]:
        """Copies blocks of columns to the host."""
        with self.use():
            get = self.ops.driver.fetched
            return [tuple(brought(column, get) for column in block) for block in blocks]


class Lying:
    """Rows of an answer on a device, in the answer's order, until the device frees them."""

    def __init__(self, blocks: Sequence[Columns], rows: DeviceStore) -> None:
        """`rows`: the store that they belong to."""
        self.blocks = blocks
        self.rows: DeviceStore | None = rows
        self.host_blocks: list[Columns] | None = None
        rows.answers.add(self)

    def fetched(self) -> list[Columns]:
        """The blocks on the host, copied once."""
        if self.host_blocks is None:
            rows = self.rows
            assert rows is not None
            whole = len(self.blocks) == 1 and self.blocks[0] is rows.as_they_are()
            self.host_blocks = [rows.fetched()] if whole else rows.brought(self.blocks)
        return self.host_blocks

    def leave(self) -> None:
        """Releases the device's arrays, after copying them to the host."""
        self.blocks, self.rows = self.fetched(), None


# The operations of a device on arrays of rows, which `cpu_ops` implements with NumPy, and `gpu_ops`
# with CuPy.
#
# Arrays are the device's: NumPy's, or CuPy's, which type checkers treat as NumPy's. Joins need more
# operations (`executors/ops.py`).


class SeenRows(Protocol):
    """The rows seen so far, as a mark for each possible row."""

    @property
    def nbytes(self) -> int: ...

    def fits(self, rows: Columns, /) -> bool:
        """Extends the range of possible rows by these. Returns False, and changes nothing, if the
        marks would become too large."""

    def add(self, rows: Columns, /) -> None:
        """Marks rows, for which `fits` was true."""

    def news(self, rows: Columns, /) -> Array:
        """Marks rows, for which `fits` was true. Returns the ascending indices of those that were
        not marked, one for each distinct row."""

    def count(self) -> int: ...

    def rows(self, dtypes: list[np.dtype[np.generic]], /) -> Columns:
        """The marked rows, sorted."""


class RowOps(Protocol):
    """Operations of a device on rows and lists."""

    @property
    def xp(self) -> Any:
        """The module of its arrays: NumPy or CuPy."""

    @property
    def on_device(self) -> DeviceOps | None:
        """These operations with those that only a device has; None if the arrays are NumPy's."""

    # ---------------------------------------------------------------------- places and lists

    def survivors(self, mask: Array, /) -> Array:
        """The indices of the rows that pass a test."""

    def expand(
        self, starts: Array, lengths: Array, size: int | None = None, /
    ) -> tuple[Array, Array]:
        """Each position of each list as (row, position), row by row."""

    def pieces(
        self, lengths: Array, limit: int, total: int | None = None, /
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Cuts rows with lists of these lengths into pieces of at most `limit` list entries."""

    def totals(self, *lists: Array) -> list[int]:
        """The sum of each array of ints."""

    def sums_by(self, groups: Array, count: int, amounts: Array | None, /) -> Array:
        """The sum of each group's amounts (1 each if None)."""

    def in_sorted(self, values: Array, among: Array, /) -> Array:
        """A mask of the `values` that occur in the sorted array `among`."""

    def sort_across(self, columns: Sequence[Array], /) -> list[Array]:
        """The values of each row in ascending order, the least in the first column."""

    # --------------------------------------------------------------------------- sets of rows

    def concatenate(self, blocks: Sequence[Columns], /) -> Columns:
        """The rows of all blocks, one after the other. There must be a block."""

    def narrowed(self, columns: Sequence[Array], /) -> Columns:
        """The same integers in 32 bits where a column's fit, else in 64."""

    def sort_rows(self, columns: Sequence[Array], /) -> Columns:
        """The same set of rows, sorted lexicographically and without duplicates."""

    def merge_rows(self, blocks: list[Columns], /) -> Columns:
        """The rows of all blocks, sorted and without duplicates. Empties the list, to free the
        blocks."""

    def order_rows(self, columns: Sequence[Array], /) -> Array:
        """A stable sort order of rows."""

    def row_firsts(self, columns: Sequence[Array], /) -> Array:
        """A mask of the rows that differ from the one before, in lexicographically sorted
        columns."""

    def first_rows(self, columns: Sequence[Array], /) -> Array:
        """The index of the first row of each set of equal rows, ascending."""

    def group_rows(self, columns: Sequence[Array], length: int, /) -> tuple[Array, Array]:
        """The first row of each group of equal rows, and each row's group."""

    def packing(self, columns: Sequence[Array], spare: int = 0) -> RowPacking | None:
        """A packing for these columns, with up to `spare` more bits for each; None if too wide."""

    def holds(self, packing: Any, columns: Sequence[Array], /) -> bool:
        """Whether these columns' values fit a packing of this device."""

    def merged(self, runs: Sequence[Array], /) -> Array:
        """Sorted arrays as one."""

    def seen_rows(self, most: int, /) -> SeenRows:
        """An empty set of rows, with at most `most` bytes of marks."""

    # --------------------------------------------------------------------------------- values

    def float_to_key(self, values: Array, /) -> Array: ...
    def key_to_float(self, keys: Array, /) -> Array: ...


class Driver(Protocol):
    """What storage and the engine ask of a device's driver."""

    def use(self) -> AbstractContextManager[None]:
        """Makes the device current in this thread."""

    def fetched(self, array: Array, /) -> Array:
        """A NumPy copy of an array."""

    def free_memory(self) -> int: ...


class DeviceOps(RowOps, Protocol):
    """Operations of a device whose arrays are not NumPy's."""

    @property
    def driver(self) -> Driver: ...

    def firsts(self, values: Array, /) -> Array:
        """A mask of the sorted values that differ from the one before."""

    def spans(self, columns: Sequence[Array], /) -> list[Span]:
        """The least and the greatest value of each column."""

    def graph_of(self, rows: DeviceStore, /) -> Any:
        """Rows of two columns as the edges of a graph."""

    # ---------------------------- bitmaps, whose bits are numbers of rows

    def counts_of_marks(self, marks: Array, /) -> Array:
        """How many bits are set in each run of words."""

    def rows_of_marks(
        self,
        marks: Array,
        counts: Array,
        first: int,
        end: int,
        box: Sequence[tuple[int, int]],
        dtypes: Sequence[np.dtype[np.generic]],
        /,
    ) -> Columns:
        """The rows that some runs of words mark."""

    def to_host(self, columns: Sequence[Array], /) -> Columns:
        """Copies columns to host memory, as NumPy arrays."""


# The rows with one of some values in a column, found by a pass over the column.

COMPARED_SINGLY = 4  # values: a column is compared with each of so few
_ROOM = 1 << 24  # most marks for the values of a range; a byte each
# Marks for hashes of values in a larger range: so many for each value, as powers of two, but at
# most as many as fit in a cache.
_SPARE, _LEAST_BITS, _MOST_BITS = 6, 16, 22


def rows_with(column: Array, key: int) -> Array:
    """The rows with a key, ascending."""
    return np.flatnonzero(column == key)


def rows_among(column: Array, values: Array) -> Array:
    """The rows with one of some sorted distinct values, ascending."""
    if len(values) <= COMPARED_SINGLY:
        found = np.zeros(len(column), dtype=np.bool_)
        for value in values:
            found |= column == value
        return np.flatnonzero(found)
    low, high = int(values[0]), int(values[-1])
    if high - low < max(_ROOM, len(column)) and low > INT_MIN and high < INT_MAX:
        # A mark for each value in the range, and an unset one on either side.
        marks = np.zeros(high - low + 3, dtype=np.bool_)
        marks[values.astype(np.int64) - (low - 1)] = True

        def look_up(keys: Array) -> Array:
            places = keys.astype(np.intp)
            places -= low - 1
            return np.flatnonzero(marks.take(places, mode="clip"))

        return _rows_of(column, look_up)
    wanted = values.astype(column.dtype)  # values that do not fit wrap; `sift` excludes them
    bits = min(max((len(values) - 1).bit_length() + _SPARE, _LEAST_BITS), _MOST_BITS)
    first, second = np.zeros((2, 1 << bits), dtype=np.bool_)
    first[_drawn(wanted, bits)] = True
    second[_drawn(wanted, bits, again=True)] = True

    def sift(keys: Array) -> Array:
        rows = np.flatnonzero(first.take(_drawn(keys, bits), mode="clip"))
        rows = rows[second.take(_drawn(keys[rows], bits, again=True), mode="clip")]
        return rows[in_sorted(keys[rows], values)]

    return _rows_of(column, sift)


def _rows_of(column: Array, look: Callable[[Array], Array]) -> Array:
    """The rows, ascending, that `look` returns for batches of a column."""
    found: dict[int, Array] = {}

    def one(part: slice) -> None:
        found[part.start] = look(column[part]) + part.start

    in_ranges(one, len(column))
    return np.concatenate([found[start] for start in sorted(found)] or [np.empty(0, np.intp)])


def _drawn(values: Array, bits: int, again: bool = False) -> Array:
    """A hash of each value with so many bits; `again`: another one."""
    if values.dtype.itemsize == 4:
        short: Array = values.view(np.uint32) * np.uint32(0x9E37_79B1)
        return short & np.uint32((1 << bits) - 1) if again else short >> np.uint32(32 - bits)
    mixed = values.astype(np.int64, copy=False).view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = mixed << np.uint64(bits) if again else mixed
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)
