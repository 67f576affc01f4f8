"""Statistics of columns: degrees, adjacency lists and quantiles, on the host or on a device."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import DeviceOps, DeviceStore, KnownRows, brought
from gdatalog.storage.rows import Columns, RowPacking, firsts
from gdatalog.storage.spill import Spill, gathered
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest

# For arrays on any device.
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

STRETCH = 1 << 18  # values in one batch of comparisons
MOMENTS = 8  # powers of degrees that are summed


@dataclass(frozen=True, slots=True)
class Degrees:
    """The distribution of degrees: a value's degree is the number of rows with it in a column.

    `powers[k]` is the sum of the degrees' k-th powers over all values: `powers[0]` is the number of
    values, `powers[1]` the number of rows. `powers[2] / powers[1]` is the mean degree over rows.
    """

    most: int
    powers: tuple[float, ...]

    @staticmethod
    def of(counts: Array) -> Degrees:
        """From the degree of each value; zeros are ignored."""
        if len(counts) == 0:
            return Degrees(0, (0.0,) * (MOMENTS + 1))
        often = np.bincount(counts)
        degrees = np.flatnonzero(often)
        degrees = degrees[degrees > 0]
        return Degrees.of_often(degrees, often[degrees])

    @staticmethod
    def of_often(degrees: Array, often: Array) -> Degrees:
        """From the distinct degrees, ascending, and how many values have each."""
        terms = often.astype(np.float64)
        sizes = degrees.astype(np.float64)
        powers = []
        for _ in range(MOMENTS + 1):
            powers.append(float(terms.sum()))
            terms = terms * sizes
        return Degrees(int(degrees[-1]) if len(degrees) else 0, tuple(powers))

    @staticmethod
    def of_sample(counts: Array, step: int, length: int, values: int) -> Degrees:
        """From how often each value occurs in every `step`-th of `length` rows."""
        many = counts[counts > 1].astype(np.float64)
        falling = [float(values), float(length)]
        terms = many
        for at in range(1, MOMENTS):
            # If c of d rows are in the sample, c(c-1)... estimates d(d-1)... / step^k.
            terms = terms * np.maximum(many - at, 0.0)
            falling.append(float(terms.sum()) * float(step) ** (at + 1))
        powers = [falling[0]]
        for k in range(1, MOMENTS + 1):
            powers.append(sum(_STIRLING[k][j] * falling[j] for j in range(1, k + 1)))
        return Degrees(max(1, int(counts.max()) * step if len(many) else 1), tuple(powers))


def _stirling(size: int) -> list[list[int]]:
    """Powers as sums of falling factorials: row k has the coefficients of x^k."""
    rows = [[1] + [0] * size]
    for _ in range(size):
        last = rows[-1]
        rows.append([0, *(last[j - 1] + j * last[j] for j in range(1, size + 1))])
    return rows


_STIRLING = _stirling(MOMENTS)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class AdjacencyLists:
    """A binary relation as a list for each value of one column, for random walks."""

    values: Array  # of the first column, ascending
    starts: Array  # of their lists in `children`
    ends: Array
    children: Array
    picked: dict[Any, Any] = field(default_factory=dict)  # samplers cache draws of values here
    _cuts: dict[str, AdjacencyLists] = field(default_factory=dict)

    @staticmethod
    def of(left: Array, right: Array) -> AdjacencyLists:
        """The lists of sorted rows."""
        starts = np.flatnonzero(firsts(left))
        ends = np.append(starts[1:], len(left))[: len(starts)]
        return AdjacencyLists(left[starts], starts, ends, right)

    def cut(self, op: str, parents: Array | None = None) -> AdjacencyLists:
        """Keeps the children for which `value op child` holds. `parents`: the value of each child,
        if it is available and the lists cover all children."""
        if op not in self._cuts:
            self._cuts[op] = self._cut(op, parents)
        return self._cuts[op]

    def _cut(self, op: str, parents: Array | None) -> AdjacencyLists:
        # Lists ascend, so the kept children are at one of their ends.
        kept = np.empty(len(self.values), dtype=np.int64)
        lengths = self.ends - self.starts
        before = np.append(0, np.cumsum(lengths))
        low = 0
        while low < len(kept):  # in batches of children that fit in the cache
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


# Statistics of rows on a device, computed there: only numbers are copied to the host.
#
# A device sorts so fast that nothing is estimated from samples.


def mask(columns: Columns, tests: Sequence[RowTest]) -> Array:
    """A mask of the rows that pass the tests; there must be a test."""
    left, op, right = tests[0]
    found: Array = COMPARE[op](columns[left], columns[right])
    for left, op, right in tests[1:]:
        found &= COMPARE[op](columns[left], columns[right])
    return found


def passing(
    columns: Columns, used: Sequence[int], tests: Sequence[RowTest], spill: Spill | None
) -> Columns:
    """Some columns of the rows that pass all tests: in files, if there is a `spill`."""

    def kept(start: int) -> Columns:
        part = tuple(column[start : start + STRETCH] for column in columns)
        marks = mask(part, tests)
        return tuple(part[at][marks] for at in used)

    blocks = map(kept, range(0, len(columns[0]), STRETCH))
    return gathered(blocks, [columns[at].dtype for at in used], spill)


def distinct(rows: DeviceStore, columns: Sequence[int]) -> int:
    """The number of distinct combinations of values in some columns."""
    whole = rows.as_they_are()
    with rows.use():
        picked = [whole[column] for column in columns]
        if rows.known != KnownRows.SORTED or list(columns) != list(range(len(columns))):
            return len(rows.ops.sort_rows(picked)[0])
        return len(rows.ops.survivors(rows.ops.row_firsts(picked)))


def sample(rows: DeviceStore, column: int, wanted: int) -> Array:
    """At most `wanted` keys of a column, from evenly spaced rows, copied to the host."""
    whole = rows.as_they_are()
    with rows.use():
        return brought(whole[column][:: max(1, -(-rows.count // wanted))])


def degrees(rows: DeviceStore, column: int, tests: Sequence[RowTest]) -> Degrees:
    """The degrees of a column, among the rows that pass some tests."""
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
    """From the degree of each value; zeros are ignored."""
    degrees, often = ops.xp.unique(counts[ops.survivors(counts)], return_counts=True)
    return Degrees.of_often(brought(degrees), brought(often))


def ascends(rows: DeviceStore, left: int, right: int) -> bool:
    """Whether one column is less than another in every row."""
    whole = rows.as_they_are()
    with rows.use():
        return bool((whole[left] < whole[right]).all())


# The share of a column's values, and of its rows, between two keys: from a sample of them.

# The number of rows in a sample of an unsorted column.
SAMPLE = 4096
SAMPLED_STRETCH = 1 << 16  # rows in one batch of hashing
SPREAD = 0x9E3779B97F4A7C15  # an odd number: keys are multiplied by it


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


def how_many(counts: Array, rows: int, step: float) -> float:
    """Estimates the number of distinct values from their counts in a sample of `rows` rows, one of
    every `step`."""
    once, twice = (int(np.count_nonzero(counts == often)) for often in (1, 2))
    # If most values of a spread-out sample are new, so are most of the rest. If values recur in it,
    # Chao's estimate applies.
    most = len(counts) * (1 + once / max(1, rows) * (step - 1))
    return min(most, len(counts) + once**2 / (2 * twice)) if twice else most


def values_by_hash(column: Array, share: int) -> int:
    """Estimates the number of distinct values by counting those with a small hash, about one in
    `share`."""
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


# How often values occur.

# Rows in one batch of counting, for columns with so few possible values that the counts stay in the
# cache.
COUNTED, MOST_COUNTED = 1 << 18, 1 << 16


def estimated(sample: Sequence[Array], step: int) -> int:
    """Estimates the number of distinct combinations of values from a sample of every `step`-th
    row."""
    counts = runs_of(np.sort(mixed(sample)))
    return int(how_many(counts, len(sample[0]), step))


def runs_of(key: Array) -> Array:
    """How often each value of a sorted array occurs."""
    return np.diff(np.append(np.flatnonzero(firsts(key)), len(key)))


def mixed(keys: Sequence[Array]) -> Array:
    """An integer for each row: equal for equal rows, and almost always different for others."""
    packing = RowPacking.of(keys)
    if packing is not None:
        return packing.pack(keys)
    mixed = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed += key.astype(np.int64).view(np.uint64)
    return mixed


def counts_between(key: Array, low: int, high: int) -> Array:
    """How often each value from `low` to `high` occurs."""
    span = high - low + 1
    if span > MOST_COUNTED:
        return np.bincount(key if low == 0 else key.astype(np.int64) - low)
    counts = np.zeros(span, dtype=np.int64)
    for start in range(0, len(key), COUNTED):  # NumPy's copies of a batch stay in the cache
        piece = key[start : start + COUNTED].astype(np.int64)
        piece -= low
        counts += np.bincount(piece, minlength=span)
    return counts
