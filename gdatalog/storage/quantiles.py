"""Which share of a column's values, and of its rows, lies between two keys: by a sample of them."""

from __future__ import annotations

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage.table import Array

# Rows that are looked at where a column is not sorted: more than these are sampled.
SAMPLE = 4096
STRETCH = 1 << 16  # rows that are hashed at a time
SPREAD = 0x9E3779B97F4A7C15  # an odd number, by which keys are multiplied


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A column's keys, ascending: all, or every so many-th.

    `rows` and `values` are how many rows the column has, and how many distinct values. `ends`: the
    least and the greatest of all are among the keys.
    """

    keys: Array
    rows: int
    values: int
    ends: bool = False

    @staticmethod
    def of(column: Array, values: int, in_order: bool = False) -> Quantiles:
        """Those of a column that has so many values, of which a copy is made only if it is short;
        one that is in order is looked at where it lies."""
        if in_order:
            return Quantiles(column, len(column), values)
        step = -(-len(column) // SAMPLE) if len(column) else 1
        return Quantiles(np.sort(column[::step]), len(column), values)

    def within(self, low: int | None, high: int | None) -> tuple[float, float]:
        """Which share of the values, and which of the rows, lies from `low` to `high`."""
        if not len(self.keys):
            return 1.0, 1.0
        room = self._room
        first, last = int(self.keys[0]) - room[0], int(self.keys[-1]) + room[1]
        low = first if low is None else low
        high = last if high is None else high
        before = self._up_to(low - 1)
        # What nobody has seen may be there.
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
        """The share of rows up to a key; between two keys of a sample they are taken as even."""
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
        """How far there may be keys before those of a sample, and behind: as far as from one to
        the next among the first few, and the last few."""
        few = min(8, len(self.keys) - 1)
        if not few or self.ends or len(self.keys) == self.rows:
            return 0, 0
        keys = [int(self.keys[at]) for at in (0, few, -1 - few, -1)]
        return (keys[1] - keys[0]) // few, (keys[3] - keys[2]) // few

    def _values(self, low: int, high: int, rows: float) -> tuple[float, bool]:
        """How many distinct values lie from a key to another, where so many rows do; and whether
        that is no estimate."""
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


def how_many(counts: Array, rows: int, step: float) -> float:
    """How many distinct values there are, by how often each stands in a sample of so many rows,
    one of every `step`."""
    once, twice = (int(np.count_nonzero(counts == often)) for often in (1, 2))
    # If most of a spread-out sample are new values, so are most of the rest; but where
    # values meet again in it there are about so many in all (Chao's estimate).
    most = len(counts) * (1 + once / max(1, rows) * (step - 1))
    return min(most, len(counts) + once**2 / (2 * twice)) if twice else most


def values_by_hash(column: Array, share: int) -> int:
    """How many distinct values a column has, by those of about one in `share` values: of all rows
    those are looked at whose hash is small."""
    bits = max(share, 1).bit_length()
    wide = column.dtype.itemsize * 8
    kind = np.dtype(f"uint{wide}")
    spread, least = kind.type(SPREAD >> (64 - wide) | 1), kind.type(1 << (wide - bits))
    parts = (column[start : start + STRETCH] for start in range(0, len(column), STRETCH))
    some = np.sort(np.concatenate([part[part.view(kind) * spread < least] for part in parts]))
    return int(np.count_nonzero(some[1:] != some[:-1]) + (len(some) > 0)) << bits


def _place(keys: Array, key: int, side: str) -> int:
    info = np.iinfo(keys.dtype)
    if key < info.min:
        return 0
    if key > info.max:
        return len(keys)
    return int(np.searchsorted(keys, keys.dtype.type(key), side=side))  # type: ignore[call-overload]
