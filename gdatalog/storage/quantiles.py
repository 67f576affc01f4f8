"""The share of a column's values, and of its rows, between two keys: from a sample of them."""

from __future__ import annotations

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.value_counts import how_many

# The number of rows in a sample of an unsorted column.
SAMPLE = 4096


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A column's keys, ascending: all of them, or a systematic sample.

    `rows` and `values`: the column's number of rows, and of distinct values. `ends`: the sample has
    the least and the greatest key.
    """

    keys: Array
    rows: int
    values: int
    ends: bool = False

    @staticmethod
    def of(column: Array, values: int, in_order: bool = False) -> Quantiles:
        """The quantiles of a column with `values` distinct values. A sorted column is used as it
        is; otherwise a sample is sorted."""
        if in_order:
            return Quantiles(column, len(column), values)
        step = -(-len(column) // SAMPLE) if len(column) else 1
        return Quantiles(np.sort(column[::step]), len(column), values)

    def within(self, low: int | None, high: int | None) -> tuple[float, float]:
        """The share of the values, and of the rows, from `low` to `high`."""
        if not len(self.keys):
            return 1.0, 1.0
        room = self._room
        first, last = int(self.keys[0]) - room[0], int(self.keys[-1]) + room[1]
        low = first if low is None else low
        high = last if high is None else high
        before = self._up_to(low - 1)
        # Never estimate zero: the sample may have missed rows.
        rows = max(self._up_to(high) - before, 0.5 / self.rows)
        within, sure = self._values(low, high, rows)
        if not sure:
            below, one = self._values(first, low - 1, before)
            above, other = self._values(high + 1, last, 1 - before - rows)
            if one and other:
                within = self.values - below - above
        values = max(0.5, min(within, self.values, high - low + 1))
        return values / self.values, min(1.0, rows)

    def _up_to(self, key: int) -> float:
        """The share of rows up to a key, interpolated between the keys of a sample."""
        count = len(self.keys)
        at = _place(self.keys, key, "right")
        if count == self.rows:
            return at / count
        room = self._room
        count += room[1] > 0
        if at == count:
            return 1.0
        behind = int(self.keys[at]) if at < len(self.keys) else int(self.keys[-1]) + room[1]
        before = int(self.keys[at - 1]) if at else behind - max(1, room[0])
        between = min(1.0, max(0.0, (key - before) / max(1, behind - before)))
        return (at + between) / count

    @property
    def _room(self) -> tuple[int, int]:
        """How far keys may extend below and above a sample: the mean distance of its first few
        keys, and of its last few."""
        few = min(8, len(self.keys) - 1)
        if not few or self.ends or len(self.keys) == self.rows:
            return 0, 0
        keys = [int(self.keys[at]) for at in (0, few, -1 - few, -1)]
        return (keys[1] - keys[0]) // few, (keys[3] - keys[2]) // few

    def _values(self, low: int, high: int, rows: float) -> tuple[float, bool]:
        """The number of distinct values from `low` to `high`, where a share `rows` of the rows is;
        and whether it is exact."""
        if low > high:
            return 0.0, True
        wide = float(high - low + 1)
        first, last = _place(self.keys, low, "left"), _place(self.keys, high, "right")
        some = self.keys[first:last]
        sure = len(self.keys) == self.rows and len(some) <= SAMPLE
        if len(some) > SAMPLE:
            some = some[:: len(some) // SAMPLE]
        if not len(some):
            return min(rows * self.values, wide), sure
        new = np.flatnonzero(some[1:] != some[:-1]) + 1
        counts = np.diff(new, prepend=0, append=len(some))
        seen = len(some) / max(1.0, rows * self.rows)
        found = min(how_many(counts, len(some), 1 / min(1.0, seen)), float(self.values))
        return min(found, wide), sure or found >= wide


def _place(keys: Array, key: int, side: str) -> int:
    info = np.iinfo(keys.dtype)
    if key < info.min:
        return 0
    if key > info.max:
        return len(keys)
    return int(np.searchsorted(keys, keys.dtype.type(key), side=side))  # type: ignore[call-overload]  # a NumPy scalar of the keys' type
