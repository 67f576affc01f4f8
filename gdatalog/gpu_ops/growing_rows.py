"""The rows of a relation that grows on a device, with what tells new ones and what indexes them."""

from __future__ import annotations

from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.growing import GrowingTrie, RowNumbers, slots_for
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.records import dataclass, field
from gdatalog.storage.key_space import KeySpace

LITTLE = 1 << 26  # bytes of rows that are copied, so that their memory serves the next run


@dataclass(slots=True, eq=False)
class GrowingRows:
    """The distinct rows of a relation, one after the other.

    `columns` have room for more than the `count` rows. Rows from `begin` to `end` are the new ones
    that rules read (at first, those that no rule has found), later ones the round has found.
    `most`: how many are possible. `marks`: their bitmap; without it a hash set of their `numbers`
    in the `space` tells which rows are new. `passing`: rows before the new ones are not needed.
    `tries`: indexes of rows of earlier rounds.
    """

    columns: Columns
    count: int
    most: int
    space: KeySpace
    marks: Array | None = None
    passing: bool = False
    begin: int = 0
    end: int = 0
    numbers: RowNumbers | None = None
    dropped: int = 0  # rows that were not needed any more; their numbers are
    tries: list[GrowingTrie] = field(default_factory=list)

    @property
    def capacity(self) -> int:
        return len(self.columns[0])

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(column.dtype.itemsize for column in self.columns)

    def bytes_for(self, capacity: int) -> int:
        """The bytes of so many rows, with those of their indexes."""
        parts = 0 if self.marks is not None else len(self.space.parts)
        numbers = 8 * parts * slots_for(self.dropped + capacity)
        tries = sum(trie.bytes_for(capacity) for trie in self.tries)
        return self.width * capacity + numbers + tries

    @property
    def nbytes(self) -> int:
        return self.bytes_for(self.capacity)

    def clear(self, driver: CupyDriver) -> None:
        """Forgets all rows."""
        self.count = self.begin = self.end = self.dropped = 0
        if self.marks is not None:
            driver.clear(self.marks)
        if self.numbers is not None:
            driver.clear(self.numbers.slots)
        for trie in self.tries:
            trie.clear(driver)

    def taken(self, copies: bool) -> Columns:
        """All rows; copied if these are few, or that frees much. Otherwise the columns are no
        longer used here."""
        rows = tuple(column[: self.count] for column in self.columns)
        if 2 * self.count < self.capacity or (copies and self.width * self.count <= LITTLE):
            return tuple(column.copy() for column in rows)
        self.columns = tuple(column[:0].copy() for column in rows)
        return rows
