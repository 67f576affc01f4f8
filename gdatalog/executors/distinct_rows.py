"""The distinct rows of many chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdatalog.cancellation import current_watch
from gdatalog.executors.ops import Ops
from gdatalog.records import dataclass, field
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.storage.sorting import SortedRuns

Columns = tuple[Array, ...]


@dataclass(slots=True, eq=False)
class DistinctRows:
    """The distinct rows of many chunks. The rows are sorted again only after they may have
    doubled."""

    ops: Ops | None  # None if it only takes over another's rows
    blocks: list[Columns] = field(default_factory=list)
    settled: int = 0
    pending: int = 0
    runs: SortedRuns | None = None  # in files

    @property
    def nbytes(self) -> int:
        return sum(held_bytes(column) for block in self.blocks for column in block)

    def add(self, rows: Columns) -> None:
        self.blocks.append(rows)
        self.pending += len(rows[0])

    def settle(self) -> Columns:
        """The rows in memory, sorted."""
        assert self.ops is not None
        blocks, self.blocks = self.blocks, []
        rows = self.ops.merge_rows(blocks)
        self.blocks = [rows]
        self.settled, self.pending = len(rows[0]), 0
        return rows

    def rows(self) -> Columns:
        """The rows, sorted."""
        if self.runs is None:
            return self.settle()
        if self.blocks:
            self.runs.add(self.settle())
        rows, self.runs = self.runs.merged(current_watch().account), None
        self.blocks = [rows]
        return rows

    def write(self, spill: Spill) -> None:
        """Writes the rows to files."""
        if not self.blocks:
            return
        assert self.ops is not None
        rows = self.settle()
        if self.runs is None:
            from gdatalog.storage.sorting import SortedRuns

            self.runs = SortedRuns(spill, [column.dtype for column in rows])
        self.runs.add(rows)
        self.forget()

    def forget(self) -> None:
        """Drops the rows in memory."""
        self.blocks, self.settled, self.pending = [], 0, 0
