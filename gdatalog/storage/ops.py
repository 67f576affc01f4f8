"""What a device can do with arrays of rows: what `cpu_ops` is, and what `gpu_ops` makes of CuPy.

Arrays are those of the device: NumPy's, or CuPy's, which type checkers take for NumPy's. Joins ask
for more (`executors/ops.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.storage.rows import Columns, Span
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.storage.on_device import DeviceStore


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
