"""The arrays in which compiled loops keep the best value of each group, and who waits.

What stands in them is told in `codegen/helpers/improving.py`. A group has a code; where there are
few codes, a code is the group's number, else groups are numbered as they come.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers.improving import (
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
from gdatalog.storage.table import Array

SPARE = 1 << 30  # entries of groups that wait, beside one for each group
BYTES = 8 + 1 + 4 + 2 * (4 + 4)  # of a group, at the least


class BestValues:
    """`costs` of seeds, by `codes` of groups; less is better.

    `room`: how many groups there is room for; where groups are not `numbered`, all codes there are.
    """

    def __init__(
        self, codes: Array, costs: Array, room: int, *, ordered: bool, numbered: bool = False
    ) -> None:
        self.numbered = numbered
        self.watched = not ordered
        self.queue = np.zeros(18, dtype=np.int64)
        self.queue[ORDERED], self.queue[WATCHED] = ordered, not ordered
        self.queue[SEEDS] = len(codes)
        self.codes = codes
        self.costs = costs
        self.arrays: dict[str, Array] = {"queue": self.queue}
        self._make(max(room, 1))

    def _make(self, room: int) -> None:
        """Arrays for so many groups, with what is in those that are there."""
        old = self.arrays
        pool = room + min(room, SPARE) + 1
        fresh: dict[str, Array] = {
            "best": np.full(room, WORST, dtype=np.int64),
            "where": np.full(room, ABSENT, dtype=np.int8),
            "touched": np.empty(room, dtype=np.int32),
            "origin": np.full(room if self.watched else 1, -1, dtype=np.int32),
            "stamps": np.zeros(room if self.watched else 1, dtype=np.int32),
            "heads": np.full(BUCKETS, -1, dtype=np.int64),
            "link": np.empty(pool, dtype=np.int32),
            "item": np.empty(pool, dtype=np.int32),
        }
        if self.numbered:
            fresh["codes"] = np.empty(room, dtype=np.int64)
            fresh["table"] = np.full(1 << (2 * room).bit_length(), -1, dtype=np.int32)
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

    def grow(self) -> None:
        """Room for twice as many groups."""
        self._make(2 * len(self.arrays["best"]))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def found(self) -> int:
        """The code of the group that improves itself."""
        group = int(self.queue[FOUND])
        return int(self.arrays["codes"][group]) if self.numbered else group

    @property
    def unit(self) -> int:
        """The number of the unit at hand."""
        return int(self.queue[UNIT])

    def values(self) -> tuple[Array, Array]:
        """The codes of all groups that have a value, and their costs; ascending by code."""
        if self.numbered:
            count = int(self.queue[KNOWN])
            codes = self.arrays["codes"][:count]
            order = np.argsort(codes)
            return codes[order], self.arrays["best"][:count][order]
        there = np.flatnonzero(self.arrays["where"] != ABSENT)
        return there, self.arrays["best"][there]
