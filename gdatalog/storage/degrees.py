"""Statistics of columns: degrees, adjacency lists and quantiles, on the host or on a device."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import DeviceOps, DeviceStore, KnownRows, brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest

# Of arrays, wherever they lie.
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

STRETCH = 1 << 18  # values that are compared at a time
MOMENTS = 8  # powers of degrees that are summed


@dataclass(frozen=True, slots=True)
class Degrees:
    """In how many rows each value of a column stands.

    `powers[k]` is the sum of the degrees' k-th powers over all values: 0 for how many values
    there are, 1 for the rows; what a row of the column sees is `powers[2] / powers[1]`.
    """

    most: int
    powers: tuple[float, ...]

    @staticmethod
    def of(counts: Array) -> Degrees:
        """From how often each value stands; zeros do not matter."""
        if len(counts) == 0:
            return Degrees(0, (0.0,) * (MOMENTS + 1))
        often = np.bincount(counts)
        degrees = np.flatnonzero(often)
        degrees = degrees[degrees > 0]
        return Degrees.of_often(degrees, often[degrees])

    @staticmethod
    def of_often(degrees: Array, often: Array) -> Degrees:
        """From the degrees that there are, ascending, and how many values have each."""
        terms = often.astype(np.float64)
        sizes = degrees.astype(np.float64)
        powers = []
        for _ in range(MOMENTS + 1):
            powers.append(float(terms.sum()))
            terms = terms * sizes
        return Degrees(int(degrees[-1]) if len(degrees) else 0, tuple(powers))

    @staticmethod
    def of_sample(counts: Array, step: int, length: int, values: int) -> Degrees:
        """From how often each value stands among every `step`-th row, one of `length`."""
        many = counts[counts > 1].astype(np.float64)
        falling = [float(values), float(length)]
        terms = many
        for at in range(1, MOMENTS):
            # Of d rows, c are in the sample: c(c-1)... stands for d(d-1)... / step^k.
            terms = terms * np.maximum(many - at, 0.0)
            falling.append(float(terms.sum()) * float(step) ** (at + 1))
        powers = [falling[0]]
        for k in range(1, MOMENTS + 1):
            powers.append(sum(_STIRLING[k][j] * falling[j] for j in range(1, k + 1)))
        return Degrees(max(1, int(counts.max()) * step if len(many) else 1), tuple(powers))


def _stirling(size: int) -> list[list[int]]:
    """Powers as sums of falling powers: row k has the factors of x^k."""
    rows = [[1] + [0] * size]
    for _ in range(size):
        last = rows[-1]
        rows.append([0, *(last[j - 1] + j * last[j] for j in range(1, size + 1))])
    return rows


_STIRLING = _stirling(MOMENTS)


@dataclass(frozen=True, slots=True)
class AdjacencyLists:
    """A binary relation as a list for each value of one column: what walks go along."""

    values: Array  # of the first column, ascending
    starts: Array  # of their lists among the children
    ends: Array
    children: Array
    picked: dict[Any, Any] = field(default_factory=dict)  # by samplers, of the values

    def cut(self, op: str, parents: Array | None = None) -> AdjacencyLists:
        """Only the children that a value is `op` to. `parents`: the value of each child, if these
        are at hand and the lists are all of the children."""
        # Lists ascend: what is kept is at one of their ends.
        kept = np.empty(len(self.values), dtype=np.int64)
        lengths = self.ends - self.starts
        before = np.append(0, np.cumsum(lengths))
        low = 0
        while low < len(kept):  # children of some values at a time: few stay in the cache
            high = max(low + 1, int(np.searchsorted(before, before[low] + STRETCH, "right")) - 1)
            first, last = before[low], before[high]
            if parents is None:
                these = np.repeat(self.values[low:high], lengths[low:high])
            else:
                these = parents[first:last]
            passing = np.flatnonzero(COMPARE[op](these, self.children[first:last]))
            kept[low:high] = np.diff(np.searchsorted(passing, before[low : high + 1] - first))
            low = high
        if op in ("<", "<="):
            return AdjacencyLists(self.values, self.ends - kept, self.ends, self.children)
        return AdjacencyLists(self.values, self.starts, self.starts + kept, self.children)


# Statistics of rows on a device, counted there: only numbers are copied to the host.
#
# A device sorts so fast that nothing is estimated from a sample.


def mask(columns: Columns, tests: Sequence[RowTest]) -> Array:
    """Which rows pass the tests, of which there is at least one."""
    left, op, right = tests[0]
    found: Array = COMPARE[op](columns[left], columns[right])
    for left, op, right in tests[1:]:
        found &= COMPARE[op](columns[left], columns[right])
    return found


def distinct(rows: DeviceStore, columns: Sequence[int]) -> int:
    """How many combinations of values some columns have."""
    whole = rows.as_they_are()
    with rows.use():
        picked = [whole[column] for column in columns]
        if rows.known != KnownRows.SORTED or list(columns) != list(range(len(columns))):
            return len(rows.ops.sort_rows(picked)[0])
        return len(rows.ops.survivors(rows.ops.row_firsts(picked)))


def sample(rows: DeviceStore, column: int, wanted: int) -> Array:
    """At most so many keys of a column, from rows that lie evenly, on the host."""
    whole = rows.as_they_are()
    with rows.use():
        return brought(whole[column][:: max(1, -(-rows.count // wanted))])


def degrees(rows: DeviceStore, column: int, tests: Sequence[RowTest]) -> Degrees:
    """In how many rows that pass some tests each value of a column stands."""
    ops = rows.ops
    whole = rows.as_they_are()
    with rows.use():
        key = whole[column]
        if tests:
            key = key[ops.survivors(mask(whole, tests))]
        if not (column == 0 and rows.known == KnownRows.SORTED):
            key = ops.xp.sort(key)
        starts = ops.survivors(ops.firsts(key))
        counts = ops.xp.empty(len(starts), dtype=ops.xp.int64)
        counts[:-1] = starts[1:] - starts[:-1]
        counts[-1:] = len(key) - starts[-1:]
        return degrees_of(ops, counts)


def degrees_of(ops: DeviceOps, counts: Array) -> Degrees:
    """From how often each value stands; zeros do not matter."""
    degrees, often = ops.xp.unique(counts[ops.survivors(counts)], return_counts=True)
    return Degrees.of_often(brought(degrees), brought(often))


def ascends(rows: DeviceStore, left: int, right: int) -> bool:
    """Whether one column is less than another in every row."""
    whole = rows.as_they_are()
    with rows.use():
        return bool((whole[left] < whole[right]).all())


# Which share of a column's values, and of its rows, lies between two keys: by a sample of them.

# Rows that are looked at where a column is not sorted: more than these are sampled.
SAMPLE = 4096
SAMPLED_STRETCH = 1 << 16  # rows that are hashed at a time
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
    parts = (
        column[start : start + SAMPLED_STRETCH] for start in range(0, len(column), SAMPLED_STRETCH)
    )
    some = np.sort(np.concatenate([part[part.view(kind) * spread < least] for part in parts]))
    return int(np.count_nonzero(some[1:] != some[:-1]) + (len(some) > 0)) << bits


def _place(keys: Array, key: int, side: str) -> int:
    info = np.iinfo(keys.dtype)
    if key < info.min:
        return 0
    if key > info.max:
        return len(keys)
    return int(np.searchsorted(keys, keys.dtype.type(key), side=side))  # type: ignore[call-overload]  # a NumPy scalar of the keys' type
