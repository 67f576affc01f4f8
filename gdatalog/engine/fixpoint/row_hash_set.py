"""A row set as a hash set of row numbers, which several threads can fill."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from gdatalog.engine.fixpoint.row_bitmap import zeros
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.loop_tables import versions
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, spread

LEAST_BITS = 10  # log2 of the number of slots
SLOTS_AT_ONCE = 1 << 18  # slots scanned at once


_LISTS = ("i32[]", "i32[]", "i32[]", "i64[]")
_TYPES = {
    "add_indexed": ("i32[]", "i32[]", *_LISTS, "i32[]"),
    "add_children": ("i32[]", "i32[]", "i64[]", "i32[]", *_LISTS, "i32[]"),
    "add_different": ("i32[]", "i32[]", *_LISTS),
    "fill_table": ("i32[]", "i64", "i32[]", "i64[]"),
    "add_keys": ("i64[]", "i64", "i64[]", "i64", "i64", "bool[]"),
    "move_keys": ("i64[]", "i64", "i64", "i64[]", "i64"),
    "move_pairs": ("i64[]", "i32[]", "i64[]", "i32[]"),
}


@cache
def hash_function(name: str) -> Any:
    """A compiled function of hash tables."""
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import hash_tables, key_sets

    home = key_sets if name.endswith("_keys") else hash_tables
    return native.of(getattr(home, name), *_TYPES[name])


class Hashed:
    """A hash set for rows of a space, with a load factor of at most two thirds."""

    def __init__(self, space: KeySpace, expected: int = 0, spill: Spill | None = None) -> None:
        """`spill`: where the slots lie if not in memory."""
        self.space = space
        self.count = 0
        self.spill = spill
        self._empty(_bits_for(expected))

    def _empty(self, bits: int) -> None:
        """Makes empty slots."""
        self.shift = 64 - bits  # turns a product into a slot
        self.slots = zeros(1 << bits, self.spill)
        bounds = [*self.space.bounds, self.shift]
        # Arguments of compiled loops.
        self.version = next(versions)
        self.arguments = {"slots": self.slots, "space": np.array(bounds, dtype=np.int64)}

    @staticmethod
    def bytes_for(count: int) -> int:
        return 8 << _bits_for(count)

    @property
    def nbytes(self) -> int:
        return held_bytes(self.slots)

    @property
    def room(self) -> int:
        """How many rows can be added now."""
        return len(self.slots) * 2 // 3 - self.count

    def grow(self, more: int) -> None:
        """Makes room for this many more rows."""
        bits = _bits_for(self.count + more)
        if bits <= 64 - self.shift:
            return
        old = self.slots
        self._empty(bits)
        move, parts = hash_function("move_keys"), 8 if len(old) >= LONG else 1
        cuts = [len(old) * at // parts for at in range(parts + 1)]

        def part(at: int) -> None:
            move(old, cuts[at], cuts[at + 1], self.slots, self.shift)

        spread(part, range(parts), parts > 1)

    def rows(self) -> Columns:
        """Returns all rows, unsorted."""
        return self.space.rows(self.slots[self.slots != 0] - 1)

    def blocks(self) -> Iterator[Columns]:
        """Yields all rows, block by block."""
        for start in range(0, len(self.slots), SLOTS_AT_ONCE):
            part = self.slots[start : start + SLOTS_AT_ONCE]
            yield self.space.rows(part[part != 0] - 1)

    def news(self, rows: Columns) -> Array:
        """Adds rows of the space; returns which were not in the set before."""
        numbers = self.space.numbers(rows)
        self.grow(len(numbers))
        fresh = np.empty(len(numbers), dtype=np.bool_)
        add = hash_function("add_keys")
        self.count += int(add(self.slots, self.shift, numbers, 0, len(numbers), fresh))
        return fresh


def _bits_for(count: int) -> int:
    """The size for this many rows at a load factor of at most two thirds."""
    return max(LEAST_BITS, (3 * count // 2).bit_length())
