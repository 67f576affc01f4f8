"""How often values occur, and how many there are: counted, or estimated from a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.storage.rows import RowPacking, firsts
from gdatalog.storage.table import Array

# Rows in one batch of counting, for columns with so few possible values that the counts stay in the
# cache.
COUNTED, MOST_COUNTED = 1 << 18, 1 << 16
SAMPLED_STRETCH = 1 << 16  # rows in one batch of hashing
SPREAD = 0x9E3779B97F4A7C15  # an odd number: keys are multiplied by it


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
