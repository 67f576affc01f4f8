"""The rows of a relation that grows on a device, with what tells new ones and what indexes them."""

from __future__ import annotations

from typing import Any

from gdatalog.gpu_ops.arena import GrowingArray
from gdatalog.gpu_ops.growing import GrowingTrie, RowNumbers, slots_for
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.storage.key_space import KeySpace

LITTLE = 1 << 26  # bytes of rows that are copied, so that their memory serves the next run


class GrowingRows:
    """The distinct rows of a relation, one after the other: at first those of some `columns`.

    Rows from `begin` to `end` are the new ones that rules read (at first, those that no rule has
    found), later ones, up to `count`, the round has found. `most`: how many are possible. `marks`:
    their bitmap; without it a hash set of their `numbers` in the `space` tells which rows are new.
    `passing`: rows before the new ones are not needed. `dropped`: rows that were not needed any
    more; their numbers are. `tries`: indexes of rows of earlier rounds.
    """

    def __init__(
        self,
        driver: Any,
        columns: Columns,
        most: int,
        space: KeySpace,
        marks: Array | None,
        passing: bool,
    ) -> None:
        self._driver, self.most, self.space = driver, most, space
        self.marks, self.passing = marks, passing
        self._memory = [GrowingArray(driver, column) for column in columns]
        self.count = self.end = len(columns[0])
        self.begin = self.dropped = 0
        self.numbers: RowNumbers | None = None
        self.tries: list[GrowingTrie] = []

    @property
    def columns(self) -> Columns:
        """They have room for more than the `count` rows."""
        return tuple(memory.array for memory in self._memory)

    @property
    def capacity(self) -> int:
        return min(memory.length for memory in self._memory)

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
        held = sum(part.nbytes for part in self._memory) + sum(trie.nbytes for trie in self.tries)
        return held + (0 if self.numbers is None else self.numbers.nbytes)

    def make_room(self, first: int, capacity: int) -> bool:
        """Drops the `first` rows, and makes room for so many. Returns whether kernels need other
        arguments than before: arrays have moved, or tables are others. Tries have no rows then."""
        moves, kept = [memory.moves for memory in self._memory], self.count - first
        for memory in self._memory if first else ():
            memory.array[:kept] = self._driver.xp.copy(memory.array[first : self.count])
        self.count, self.begin, self.end = (at - first for at in (self.count, self.begin, self.end))
        self.dropped += first
        for memory in self._memory:
            memory.lengthen(capacity, kept)
        others = moves != [memory.moves for memory in self._memory]
        if self.numbers is not None:
            others |= self.numbers.make_room(self.dropped + capacity)
        for trie in self.tries:
            trie.make(capacity)
        return others or bool(self.tries)

    def clear(self, count: int = 0) -> None:
        """Forgets all rows; so many others come (`fill`)."""
        self.count = self.end = count
        self.begin = self.dropped = 0
        slots = None if self.numbers is None else self.numbers.slots
        for array in (self.marks, slots):
            if array is not None:
                self._driver.clear(array)
        for trie in self.tries:
            trie.clear()

    def fill(self, columns: Columns) -> None:
        """Takes the first rows."""
        for own, column in zip(self.columns, columns, strict=True):
            own[: self.count] = column
        if self.numbers is not None:
            self.number()

    def number(self) -> None:
        """Adds the rows to the hash set of their numbers."""
        assert self.numbers is not None
        known, numbers = [column[: self.count] for column in self.columns], []
        for part in self.space.parts:
            own, known = known[: len(part.spans)], known[len(part.spans) :]
            numbers.append(part.numbers(own, self._driver.xp))
        self.numbers.add(numbers)

    def taken(self, copies: bool) -> Columns:
        """All rows; copied if these are few, or that frees much. Otherwise the columns are no
        longer used here."""
        rows = tuple(column[: self.count] for column in self.columns)
        if 2 * self.count < self.capacity or (copies and self.width * self.count <= LITTLE):
            return tuple(column.copy() for column in rows)
        for memory in self._memory:
            memory.leave()
        return rows
