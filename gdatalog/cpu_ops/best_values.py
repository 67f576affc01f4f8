"""The arrays in which compiled loops keep the best value of each group, and who waits.

What stands in them is told in `codegen/helpers/lattice.py`. A group has a code; where there are
few codes, a code is the group's number, else groups are numbered as they come. Arrays that memory
has no room for lie in files, which are changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gdatalog.codegen.helpers.lattice import (
    ABSENT,
    BUCKETS,
    FOUND,
    KNOWN,
    ORDERED,
    REHASH,
    RING,
    SEEDS,
    UNIT,
    WATCHED,
    WORST,
)
from gdatalog.storage.spill import Spill, held_bytes, is_spilled
from gdatalog.storage.table import Array

SPARE = 1 << 30  # entries of groups that wait, beside one for each group
BYTES = 8 + 1 + 4 + 2 * (4 + 4)  # of a group, at the least
NUMBERED = 8 + 16  # of a group that is numbered, beside them
AT_ONCE = 1 << 18  # groups that are taken out at a time


class BestValues:
    """`costs` of seeds, by `codes` of groups; less is better.

    `room`: how many groups there is room for; where groups are not `numbered`, all codes there are.
    `spill`: where the arrays lie, if not in memory.
    """

    def __init__(
        self,
        codes: Array,
        costs: Array,
        room: int,
        *,
        ordered: bool,
        numbered: bool = False,
        spill: Spill | None = None,
    ) -> None:
        self.numbered = numbered
        self.watched = not ordered
        self.queue = np.zeros(18, dtype=np.int64)
        self.queue[ORDERED], self.queue[WATCHED] = ordered, not ordered
        self.queue[SEEDS] = len(codes)
        self.codes = codes
        self.costs = costs
        self.arrays: dict[str, Array] = {"queue": self.queue}
        self._make(max(room, 1), spill)

    @staticmethod
    def bytes_for(room: int, numbered: bool) -> int:
        return (BYTES + (NUMBERED if numbered else 0)) * room

    def _make(self, room: int, spill: Spill | None) -> None:
        """Arrays for so many groups, with what is in those that are there."""
        old = self.arrays
        pool = room + min(room, SPARE) + 1

        def filled(length: int, value: int, dtype: Any) -> Array:
            if spill is None:
                return np.full(length, value, dtype=dtype)
            array = spill.zeros(length, dtype)
            if value:
                array[:] = value
            return array

        def empty(length: int, dtype: Any) -> Array:
            return np.empty(length, dtype=dtype) if spill is None else spill.zeros(length, dtype)

        fresh: dict[str, Array] = {
            "best": filled(room, WORST, np.int64),
            "where": filled(room, ABSENT, np.int8),
            "touched": empty(room, np.int32),
            "origin": filled(room if self.watched else 1, -1, np.int32),
            "stamps": filled(room if self.watched else 1, 0, np.int32),
            "heads": np.full(BUCKETS, -1, dtype=np.int64),
            "link": empty(pool, np.int32),
            "item": empty(pool, np.int32),
        }
        if self.numbered:
            fresh["codes"] = empty(room, np.int64)
            fresh["table"] = filled(1 << (2 * room).bit_length(), -1, np.int32)
            fresh["wanted"] = self.codes
            fresh["seeds"] = old.get("seeds", np.empty(len(self.codes), dtype=np.int32))
            self.queue[REHASH] = 1
        else:
            fresh["seeds"] = self.codes.astype(np.int32)
        fresh["costs"] = self.costs
        if "best" in old:
            ring = np.roll(old["item"], -int(self.queue[RING]))
            self.queue[RING] = 0
            for name, array in old.items():
                if name in ("table", "wanted", "seeds", "costs", "queue"):
                    continue
                kept = ring if name == "item" and not self.queue[ORDERED] else array
                fresh[name][: len(array)] = kept
        self.arrays = {**fresh, "queue": self.queue}

    def grow(self, spill: Spill | None = None) -> None:
        """Room for twice as many groups."""
        self._make(2 * len(self.arrays["best"]), spill)

    @property
    def nbytes(self) -> int:
        return sum(map(held_bytes, self.arrays.values()))

    @property
    def found(self) -> int:
        """The code of the group that improves itself."""
        group = int(self.queue[FOUND])
        return int(self.arrays["codes"][group]) if self.numbered else group

    @property
    def unit(self) -> int:
        """The number of the unit at hand."""
        return int(self.queue[UNIT])

    @property
    def ascending(self) -> bool:
        """Whether `values` gives all groups by ascending code."""
        return not self.numbered or not is_spilled(self.arrays["best"])

    def values(self) -> Iterator[tuple[Array, Array]]:
        """The codes of all groups that have a value, and their costs, some at a time."""
        best = self.arrays["best"]
        if not self.numbered:
            where = self.arrays["where"]
            for start in range(0, len(where), AT_ONCE):
                there = np.flatnonzero(where[start : start + AT_ONCE] != ABSENT)
                there += start
                yield there, best[there]
            return
        count = int(self.queue[KNOWN])
        codes = self.arrays["codes"][:count]
        if self.ascending:
            order = np.argsort(codes)
            codes, best = codes[order], best[:count][order]
        for start in range(0, count, AT_ONCE):
            yield codes[start : start + AT_ONCE], best[:count][start : start + AT_ONCE]
