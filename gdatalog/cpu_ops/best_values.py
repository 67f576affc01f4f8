"""The arrays of compiled lattice loops: the best value of each group.

`codegen/helpers/lattice.py` describes their contents. A group has a code. If there are few codes,
the code is the group's number; otherwise groups are numbered in the order in which they are found.
Arrays that do not fit in memory are files, which loops change in place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from gdatalog.codegen.helpers import lattice
from gdatalog.storage.spill import Spill, held_bytes, is_spilled
from gdatalog.storage.table import Array

SPARE = 1 << 30  # queue entries, beside one for each group
BYTES = 8 + 1 + 4 + 2 * (4 + 4)  # of a group
NUMBERED = 8 + 16  # more for a numbered group
AT_ONCE = 1 << 18  # groups in one batch of `values`


class BestValues:
    """`costs` of seeds, by `codes` of groups; less is better.

    `room`: the number of groups that fit; unless they are `numbered`, the number of codes. `spill`:
    where the arrays are, if not in memory.
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
        self.queue[lattice.ORDERED], self.queue[lattice.WATCHED] = ordered, not ordered
        self.queue[lattice.SEEDS] = len(codes)
        self.codes = codes
        self.costs = costs
        self.arrays: dict[str, Array] = {"queue": self.queue}
        self._make(max(room, 1), spill)

    @staticmethod
    def bytes_for(room: int, numbered: bool) -> int:
        return (BYTES + (NUMBERED if numbered else 0)) * room

    def _make(self, room: int, spill: Spill | None) -> None:
        """Allocates arrays for so many groups, and copies the present contents."""
        old = self.arrays
        pool = room + min(room, SPARE) + 1

        def filled(length: int, value: int, dtype: DTypeLike) -> Array:
            if spill is None:
                return np.full(length, value, dtype=dtype)
            array = spill.zeros(length, dtype)
            if value:
                array[:] = value
            return array

        def empty(length: int, dtype: DTypeLike) -> Array:
            return np.empty(length, dtype=dtype) if spill is None else spill.zeros(length, dtype)

        fresh: dict[str, Array] = {
            "best": filled(room, lattice.WORST, np.int64),
            "where": filled(room, lattice.ABSENT, np.int8),
            "touched": empty(room, np.int32),
            "origin": filled(room if self.watched else 1, -1, np.int32),
            "stamps": filled(room if self.watched else 1, 0, np.int32),
            "heads": np.full(lattice.BUCKETS, -1, dtype=np.int64),
            "link": empty(pool, np.int32),
            "item": empty(pool, np.int32),
        }
        if self.numbered:
            fresh["codes"] = empty(room, np.int64)
            fresh["table"] = filled(1 << (2 * room).bit_length(), -1, np.int32)
            fresh["wanted"] = self.codes
            fresh["seeds"] = old.get("seeds", np.empty(len(self.codes), dtype=np.int32))
            self.queue[lattice.REHASH] = 1
        else:
            fresh["seeds"] = self.codes.astype(np.int32)
        fresh["costs"] = self.costs
        if "best" in old:
            ring = np.roll(old["item"], -int(self.queue[lattice.RING]))
            self.queue[lattice.RING] = 0
            for name, array in old.items():
                if name in ("table", "wanted", "seeds", "costs", "queue"):
                    continue
                kept = ring if name == "item" and not self.queue[lattice.ORDERED] else array
                fresh[name][: len(array)] = kept
        self.arrays = {**fresh, "queue": self.queue}

    def grow(self, spill: Spill | None = None) -> None:
        """Doubles the number of groups that fit."""
        self._make(2 * len(self.arrays["best"]), spill)

    @property
    def nbytes(self) -> int:
        return sum(map(held_bytes, self.arrays.values()))

    @property
    def found(self) -> int:
        """The code of the group that improves itself."""
        group = int(self.queue[lattice.FOUND])
        return int(self.arrays["codes"][group]) if self.numbered else group

    @property
    def unit(self) -> int:
        """The number of the current unit."""
        return int(self.queue[lattice.UNIT])

    @property
    def ascending(self) -> bool:
        """Whether `values` returns groups by ascending code."""
        return not self.numbered or not is_spilled(self.arrays["best"])

    def values(self) -> Iterator[tuple[Array, Array]]:
        """The codes and costs of all groups that have a value, in batches."""
        best = self.arrays["best"]
        if not self.numbered:
            where = self.arrays["where"]
            for start in range(0, len(where), AT_ONCE):
                there = np.flatnonzero(where[start : start + AT_ONCE] != lattice.ABSENT)
                there += start
                yield there, best[there]
            return
        count = int(self.queue[lattice.KNOWN])
        codes = self.arrays["codes"][:count]
        if self.ascending:
            order = np.argsort(codes)
            codes, best = codes[order], best[:count][order]
        for start in range(0, count, AT_ONCE):
            yield codes[start : start + AT_ONCE], best[:count][start : start + AT_ONCE]
