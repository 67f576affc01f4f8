"""A row set as a hash set of row numbers, which several threads can fill.

It suits rows that are few among the possible ones. It never fills up: `room` is the number of rows
that fit before it must grow. Large sets lie in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gdatalog.engine.fixpoint.keyspace import KeySpace
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, spread

LEAST_BITS = 10  # log2 of the number of slots
AT_ONCE = 1 << 18  # slots scanned at once


def _add() -> Any:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.hashing import add_keys

    return native.of(add_keys, "i64[]", "i64", "i64[]", "i64", "i64", "bool[]")


def _move() -> Any:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers.hashing import move_keys

    return native.of(move_keys, "i64[]", "i64", "i64", "i64[]", "i64")


class Hashed:
    """A hash set for rows of a space, with a load factor of at most two thirds."""

    def __init__(self, space: KeySpace, expected: int = 0, spill: Spill | None = None) -> None:
        """`spill`: where the slots lie if not in memory."""
        self.space = space
        self.count = 0
        self.spill = spill
        self._bits = _bits_for(expected)
        self.slots = self._empty()
        self.arguments = self._arguments()  # arguments of compiled loops

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
        """The shift that turns a product into a slot."""
        return 64 - self._bits

    @property
    def room(self) -> int:
        """How many rows can be added now."""
        return len(self.slots) * 2 // 3 - self.count

    def grow(self, more: int) -> None:
        """Makes room for this many more rows."""
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
        """Returns all rows, unsorted."""
        return self.space.rows(self.slots[self.slots != 0] - 1)

    def blocks(self) -> Iterator[Columns]:
        """Yields all rows, block by block."""
        for start in range(0, len(self.slots), AT_ONCE):
            part = self.slots[start : start + AT_ONCE]
            yield self.space.rows(part[part != 0] - 1)

    def news(self, rows: Columns) -> Array:
        """Adds rows of the space; returns which were not in the set before."""
        numbers = self.space.numbers(rows)
        self.grow(len(numbers))
        fresh = np.empty(len(numbers), dtype=np.bool_)
        self.count += int(_add()(self.slots, self.shift, numbers, 0, len(numbers), fresh))
        return fresh


def _bits_for(count: int) -> int:
    """The size for this many rows at a load factor of at most two thirds."""
    return max(LEAST_BITS, (3 * count // 2).bit_length())
