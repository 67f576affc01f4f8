"""A set of rows as a hash set of their numbers, which threads may fill at a time.

For rows that are few among those that there could be. It never fills up: `room` says how many
may be added before it has to be grown. One that memory has no room for lies in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gdatalog.engine.keyspace import KeySpace
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, spread

LEAST_BITS = 10  # of the number of slots
AT_ONCE = 1 << 18  # slots that are looked at at a time


def _add() -> Any:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.hashing import add_keys

    return native.of(add_keys, "i64[]", "i64", "i64[]", "i64", "i64", "bool[]")


def _move() -> Any:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.hashing import move_keys

    return native.of(move_keys, "i64[]", "i64", "i64", "i64[]", "i64")


class Hashed:
    """Rows of a space. Two of three slots are taken at the most."""

    def __init__(self, space: KeySpace, expected: int = 0, spill: Spill | None = None) -> None:
        """`spill`: where the slots lie, if not in memory."""
        self.space = space
        self.count = 0
        self.spill = spill
        self._bits = _bits_for(expected)
        self.slots = self._empty()
        self.arguments = self._arguments()  # what loops are given of it

    def _arguments(self) -> dict[str, Array]:
        bounds = [*self.space.bounds, self.shift]
        return {"slots": self.slots, "space": np.array(bounds, dtype=np.int64)}

    def _empty(self) -> Array:
        length = 1 << self._bits
        if self.spill is not None:
            return self.spill.zeros(length, np.int64)
        return np.zeros(length, dtype=np.int64)

    @staticmethod
    def bytes_for(count: int) -> int:
        return 8 << _bits_for(count)

    @property
    def nbytes(self) -> int:
        return held_bytes(self.slots)

    @property
    def shift(self) -> int:
        """By how many bits a product is shifted to give a slot."""
        return 64 - self._bits

    @property
    def room(self) -> int:
        """How many rows may be added now."""
        return len(self.slots) * 2 // 3 - self.count

    def grow(self, more: int) -> None:
        """Makes room for so many more."""
        bits = _bits_for(self.count + more)
        if bits <= self._bits:
            return
        old, self._bits = self.slots, bits
        self.slots = self._empty()
        move, parts = _move(), 8 if len(old) >= LONG else 1
        cuts = [len(old) * at // parts for at in range(parts + 1)]

        def part(at: int) -> None:
            move(old, cuts[at], cuts[at + 1], self.slots, self.shift)

        spread(part, range(parts), parts > 1)
        self.arguments = self._arguments()

    def rows(self) -> Columns:
        """All rows, in no order."""
        return self.space.rows(self.slots[self.slots != 0] - 1)

    def blocks(self) -> Iterator[Columns]:
        """All rows, some at a time."""
        for start in range(0, len(self.slots), AT_ONCE):
            part = self.slots[start : start + AT_ONCE]
            yield self.space.rows(part[part != 0] - 1)

    def news(self, rows: Columns) -> Array:
        """Adds rows of the space; which of them were not there."""
        numbers = self.space.numbers(rows)
        self.grow(len(numbers))
        fresh = np.empty(len(numbers), dtype=np.bool_)
        self.count += int(_add()(self.slots, self.shift, numbers, 0, len(numbers), fresh))
        return fresh


def _bits_for(count: int) -> int:
    """For so many rows in two of three slots at the most."""
    return max(LEAST_BITS, (3 * count // 2).bit_length())
