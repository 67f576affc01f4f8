"""Sorted lists: searches in them.

A list is a range [lo, hi) of an array of ascending, distinct keys of 32 or 64 bits. Arrays that are
compared may differ in width.

A `part` costs some 10 ms to compile, for each combination of types that it is called with, however
small it is. So there are few, and the functions that choose between them are `inlined`. Keys are
widened to 64 bits when they are read.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, prefetch
from gdatalog.codegen.loop_language import Array, Scalar, inlined

# From this ratio of lengths on, the shorter list seeks in the longer one instead of reading it.
# Short lists are read: the choice would be mispredicted as often as it helps.
GALLOP = 8
SHORT = 64
GALLOP_MARKED = 32
COMPARED_SINGLY = 8  # values: so few are compared one by one
AHEAD = 16  # values of a list from the current one to those that are prefetched


@inlined
def lower(values: Array, lo: int, hi: int, key: Scalar) -> int:
    """The first position whose value is at least the key."""
    length = hi - lo
    while length > 0:
        half = length >> 1
        if at(values, lo + half) < key:
            lo += half + 1
            length -= half + 1
        else:
            length = half
    return lo


@inlined
def upper(values: Array, lo: int, hi: int, key: Scalar) -> int:
    """The first position whose value is greater than the key."""
    length = hi - lo
    while length > 0:
        half = length >> 1
        if at(values, lo + half) <= key:
            lo += half + 1
            length -= half + 1
        else:
            length = half
    return lo


@inlined
def seek(values: Array, lo: int, hi: int, key: Scalar) -> int:
    """As `lower`, for keys that are expected near the start: probes at distances 1, 8, 64, ..."""
    if lo >= hi or at(values, lo) >= key:
        return lo
    step = 1
    below = lo
    while lo + step < hi and at(values, lo + step) < key:
        below = lo + step
        step <<= 3
    if lo + step < hi:
        hi = lo + step
    return lower(values, below + 1, hi, key)


@inlined
def find(values: Array, lo: int, hi: int, key: Scalar) -> int:
    """The key's position, -1 if absent."""
    found = lower(values, lo, hi, key)
    return found if found < hi and at(values, found) == key else -1


@inlined
def has(values: Array, lo: int, hi: int, key: Scalar) -> bool:
    """Whether a list has the key."""
    if hi - lo <= COMPARED_SINGLY:  # without branches, which would be mispredicted
        met = 0
        for k in range(lo, hi):
            met += int(at(values, k) == key)
        return met > 0
    found = lower(values, lo, hi, key)
    return found < hi and at(values, found) == key


@inlined
def find_indexed(low: int, index: Array, key: Scalar) -> int:
    """The key's position, from an index of all keys from `low` on; -1 if absent."""
    # Unsigned, so that one comparison checks both ends, and that it may wrap: the compiler assumes
    # that sums of signed numbers do not.
    place = np.uint64(key) - np.uint64(low)
    return int(at(index, place)) if place < np.uint64(len(index)) else -1


@inlined
def children(low: int, starts: Array, key: Scalar) -> tuple[int, int]:
    """Where the children of a root's key begin and end; an empty range if the key is absent.
    `starts`: where the children of all keys from `low` on begin."""
    place = np.uint64(key) - np.uint64(low)
    if place < np.uint64(len(starts) - 1):
        return int(at(starts, place)), int(at(starts, place + np.uint64(1)))
    return 0, 0


@inlined
def fetch_sought(values: Array, i: int, low: int, array: Array) -> None:
    """Prefetches the entry of a root's array (by value, from `low` on) for a value some places
    after the one at i."""
    if i + 2 * AHEAD < len(values):
        place = np.uint64(np.int64(at(values, i + 2 * AHEAD))) - np.uint64(low)
        if place < np.uint64(len(array)):
            prefetch(array, place)


@inlined
def fetch_children(values: Array, i: int, low: int, starts: Array, below: Array) -> None:
    """Prefetches the first child of such a value, once `starts` has arrived."""
    if i + AHEAD < len(values):
        place = np.uint64(np.int64(at(values, i + AHEAD))) - np.uint64(low)
        if place < np.uint64(len(starts)):
            first = int(at(starts, place))
            if first < len(below):
                prefetch(below, first)


@inlined
def find_root(values: Array, low: int, index: Array, key: Scalar) -> int:
    """The key's position in a root's list; by its index (of keys from `low` on) if it has one.

    A hot loop that knows whether there is an index should call the function for that case: the
    other branch, though never taken, needs registers.
    """
    if len(index) > 0:
        return find_indexed(low, index, key)
    return find(values, 0, len(values), key)


@inlined
def parent_of(offsets: Array, position: int) -> int:
    """The parent whose list contains a position."""
    return upper(offsets, 0, len(offsets), position) - 1
