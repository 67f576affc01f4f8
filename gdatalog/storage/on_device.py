"""Rows on a device: the store that holds them, and the answers that use them.

A device array has a dtype, a length, `nbytes`, and `get()`, which copies it to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from operator import methodcaller
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from gdatalog.overhead import spending
from gdatalog.records import cached_property
from gdatalog.storage.keys import key_to_float
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


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


class LentRows(DeviceStore):
    """Distinct rows in memory that the next evaluation uses again, unless somebody reads them:
    `take` makes them the reader's own. Who only counts them reads nothing."""

    def __init__(
        self, ops: DeviceOps, take: Callable[[], Columns], count: int, nbytes: int
    ) -> None:
        super().__init__(ops, [], count, KnownRows.DISTINCT)
        self._take: Callable[[], Columns] | None = take
        self._lent = nbytes
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return self._lent if self._take is not None else super().nbytes

    def as_they_are(self) -> Columns:
        with self._lock:
            if self._take is not None:
                with self.use():
                    self._blocks = [self._take()]
                self._take = None
            return super().as_they_are()


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
