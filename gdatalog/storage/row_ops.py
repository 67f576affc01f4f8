"""What rows ask of a device: the operations of host and device, and those that only a device has.

`cpu_ops` implements them with NumPy, `gpu_ops` with CuPy. Arrays are the device's: NumPy's, or
CuPy's, which type checkers treat as NumPy's. Joins need more operations (`executors/ops.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gdatalog.storage.rows import Columns, RowPacking, Span
from gdatalog.storage.table import Array


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


class DeviceRows(Protocol):
    """Rows on a device."""

    @property
    def ops(self) -> DeviceOps: ...
    def as_they_are(self) -> Columns: ...
    def distinct(self) -> Columns: ...


class DeviceOps(RowOps, Protocol):
    """Operations of a device whose arrays are not NumPy's."""

    @property
    def driver(self) -> Driver: ...

    def firsts(self, values: Array, /) -> Array:
        """A mask of the sorted values that differ from the one before."""

    def spans(self, columns: Sequence[Array], /) -> list[Span]:
        """The least and the greatest value of each column."""

    def graph_of(self, rows: DeviceRows, /) -> Any:
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
