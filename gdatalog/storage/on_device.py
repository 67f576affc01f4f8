"""Rows that lie elsewhere: columns of a device's arrays, with the operations on them.

Such an array has a dtype, a length, `nbytes`, and `get()`, which copies it to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from typing import Any
from weakref import WeakSet

import numpy as np

from gdatalog.storage.keys import key_to_float
from gdatalog.storage.ops import DeviceOps
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.timers import spending
from gdatalog.values import TypeName


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
