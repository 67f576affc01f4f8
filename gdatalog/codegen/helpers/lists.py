"""Sorted lists: searches, intersections, marks; tables of counts by key; lists kept for reuse.

A list is a range [lo, hi) of an array of ascending, distinct keys of 32 or 64 bits. Arrays that are
compared may differ in width. In intersections, `out` may be the array of the first list if that
list starts at 0: writes never overtake reads.

A `part` costs some 10 ms to compile, for each combination of types that it is called with, however
small it is. So there are few, and the functions that choose between them are `inlined`. Keys are
widened to 64 bits when they are read.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, prefetch, put
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part

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


# ---------------------------------------------------------------------- where two lists meet


# A merge branches on which value is less, and keeps both values in registers. Without branches it
# would wait for a load at each step, which gains at most a fifth on real graphs, and loses up to
# 5x.


@inlined
def _merged(
    va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array, writes: bool
) -> int:
    n = 0
    if alo >= ahi or blo >= bhi:
        return n
    a, b = at(va, alo), at(vb, blo)
    while True:
        if a < b:
            alo += 1
            if alo == ahi:
                return n
            a = at(va, alo)
        elif b < a:
            blo += 1
            if blo == bhi:
                return n
            b = at(vb, blo)
        else:
            if writes:
                put(out, n, a)
            n += 1
            alo += 1
            blo += 1
            if alo == ahi or blo == bhi:
                return n
            a, b = at(va, alo), at(vb, blo)


@part
def merge(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; returns how many. Reads both lists."""
    return _merged(va, alo, ahi, vb, blo, bhi, out, True)


@part
def count_merge(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int) -> int:
    """How many values are common. Reads both lists."""
    return _merged(va, alo, ahi, vb, blo, bhi, va, False)


@inlined
def _leapt(
    va: Array,
    alo: int,
    ahi: int,
    vb: Array,
    blo: int,
    bhi: int,
    out: Array,
    weights: Array,
    writes: bool,
    weighs: bool,
) -> int:
    n = 0
    while alo < ahi and blo < bhi:
        a = np.int64(at(va, alo))
        blo = seek(vb, blo, bhi, a)
        if blo == bhi:
            break
        b = np.int64(at(vb, blo))
        if a == b:
            if writes:
                put(out, n, a)
            n += int(at(weights, blo)) if weighs else 1
            alo += 1
            blo += 1
        else:
            alo = seek(va, alo + 1, ahi, b)
    return n


@part
def leapfrog(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; returns how many. Each list seeks in the other one."""
    return _leapt(va, alo, ahi, vb, blo, bhi, out, va, True, False)


@part
def count_leapfrog(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int) -> int:
    """How many values are common. Each list seeks in the other one."""
    return _leapt(va, alo, ahi, vb, blo, bhi, va, va, False, False)


@inlined
def intersect(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; returns how many."""
    a, b = ahi - alo, bhi - blo
    if a > GALLOP * b + SHORT or b > GALLOP * a + SHORT:
        return leapfrog(va, alo, ahi, vb, blo, bhi, out)
    return merge(va, alo, ahi, vb, blo, bhi, out)


@inlined
def count_common(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int) -> int:
    """How many values are common."""
    a, b = ahi - alo, bhi - blo
    if a > GALLOP * b + SHORT or b > GALLOP * a + SHORT:
        return count_leapfrog(va, alo, ahi, vb, blo, bhi)
    return count_merge(va, alo, ahi, vb, blo, bhi)


# ------------------------------------------------------------------------------------- marks


@part
def write_marks(values: Array, lo: int, hi: int, marks: Array, base: int, mark: int) -> None:
    """Sets or clears the marks of a list's values, in bytes for base, base + 1, ..."""
    for k in range(lo, hi):
        put(marks, at(values, k) - base, mark)


@inlined
def mark(values: Array, lo: int, hi: int, marks: Array, base: int) -> None:
    """Marks a list's values."""
    write_marks(values, lo, hi, marks, base, 1)


@inlined
def unmark(values: Array, lo: int, hi: int, marks: Array, base: int) -> None:
    """Clears the marks of a list's values."""
    write_marks(values, lo, hi, marks, base, 0)


@inlined
def _within(values: Array, lo: int, hi: int, low: int, count: int) -> tuple[int, int]:
    """The part of a list whose keys are among `count` from `low` on."""
    if lo < hi and at(values, lo) < low:
        lo = lower(values, lo, hi, low)
    last = low + (count - 1)  # in this order: what is behind the last may be no number
    if lo < hi and at(values, hi - 1) > last:
        hi = upper(values, lo, hi, last)
    return lo, hi


@part
def keep_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int, out: Array) -> int:
    """Writes the values that are marked, ascending; returns how many. `out` has room for one
    more."""
    blo, bhi = _within(vb, blo, bhi, base, len(marks))
    n = 0
    for k in range(blo, bhi):  # without a branch, which would often be mispredicted
        b = at(vb, k)
        put(out, n, b)
        n += at(marks, b - base)
    return n


@part
def count_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int) -> int:
    """How many values are marked."""
    blo, bhi = _within(vb, blo, bhi, base, len(marks))
    n = 0
    for k in range(blo, bhi):
        n += at(marks, at(vb, k) - base)
    return n


@inlined
def at_mark(marks: Array, base: int, key: Scalar) -> int:
    """A value's mark; 0 outside the marks."""
    place = np.uint64(np.int64(key)) - np.uint64(base)
    return int(at(marks, place)) if place < np.uint64(len(marks)) else 0


@inlined
def intersect_marked(
    va: Array,
    alo: int,
    ahi: int,
    vb: Array,
    blo: int,
    bhi: int,
    marks: Array,
    base: int,
    out: Array,
) -> int:
    """Writes the common values of two lists, the first of which is marked; returns how many."""
    if bhi - blo > GALLOP_MARKED * (ahi - alo):
        return leapfrog(va, alo, ahi, vb, blo, bhi, out)
    return keep_marked(vb, blo, bhi, marks, base, out)


@inlined
def count_intersect_marked(
    va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, marks: Array, base: int
) -> int:
    """How many values two lists have in common, the first of which is marked."""
    if bhi - blo == 1:  # as by a key
        return int(at_mark(marks, base, at(vb, blo)))
    if bhi - blo > GALLOP_MARKED * (ahi - alo):
        return count_leapfrog(va, alo, ahi, vb, blo, bhi)
    return count_marked(vb, blo, bhi, marks, base)


@inlined
def weigh_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int, weights: Array) -> int:
    """The sum of the weights of a list's marked values."""
    n = 0
    for k in range(blo, bhi):
        place = np.uint64(np.int64(at(vb, k))) - np.uint64(base)
        if place < np.uint64(len(marks)):
            n += at(marks, place) * at(weights, k)
    return n


@part
def weigh_common(
    va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, weights: Array
) -> int:
    """The sum of the weights of the second list's values that the first list has. Each list seeks
    in the other one."""
    return _leapt(va, alo, ahi, vb, blo, bhi, va, weights, False, True)


@part
def is_marked(marks: Array, base: int, key: int) -> bool:
    """Whether a value is marked. Values outside the marks are not."""
    k = key - base
    return 0 <= k < len(marks) and at(marks, k) != 0


# --------------------------------------------------------------------------- counts, and kept lists


FETCHED = 256  # lists that are prefetched: each takes a line of the L1 cache


@inlined
def find_tally(counts: Array, low: int, key: Scalar) -> int:
    """The position of a key's count, in an array of the counts of all keys from `low` on; -1 if it
    has none."""
    # Unsigned, so that one comparison checks both ends.
    place = np.uint64(key) - np.uint64(low)
    inside = place < np.uint64(len(counts))
    return int(place) if inside and at(counts, place) != 0 else -1


@inlined
def clear_tally(counts: Array, values: Array, length: int, low: int) -> int:
    """Clears the table; returns 0, the number of keys with a count."""
    for i in range(length):
        put(counts, at(values, i) - low, 0)
    return 0


@part
def keep_list(values: Array, length: int, starts: Array, place: int, lists: Array, top: int) -> int:
    """Keeps a list, after its length, under a place; returns where the next one goes. If there is
    no room, it drops everything kept so far."""
    if top + length + 1 > len(lists):
        for i in range(len(starts)):
            put(starts, i, 0)
        top = 0
    put(lists, top, length)
    for i in range(length):
        put(lists, top + 1 + i, at(values, i))
    put(starts, place, top + 1)
    return top + length + 1


@inlined
def fetch_kept(
    keys: Array, first: int, end: int, values: Array, lo: int, hi: int, starts: Array, lists: Array
) -> None:
    """Prefetches the beginnings of the lists that are kept for some ascending keys, each at its
    place in a range of values: no load waits for another."""
    place = lo
    for i in range(first, min(end, first + FETCHED)):
        place = seek(values, place, hi, at(keys, i))
        prefetch(lists, max(at(starts, place), 1) - 1)


@inlined
def sum_tally(counts: Array, low: int, values: Array, lo: int, hi: int) -> int:
    """The sum of the counts of ascending keys; -1 if it may leave 62 bits."""
    lo, hi = _within(values, lo, hi, low, len(counts))
    total, about = 0, 0.0
    for i in range(lo, hi):
        count = at(counts, at(values, i) - low)
        total += count
        about += float(count)
    return total if about < 4e18 else -1
