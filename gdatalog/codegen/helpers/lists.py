"""Sorted lists: searches, intersections, marks.

A list is a range [lo, hi) of an array of ascending, distinct keys of 32 or 64 bits. Arrays that
are compared may differ in width. Where two lists meet, `out` may be the array of the first one
if that list starts at 0: what is written never overtakes what is read.

A `part` costs some 10 ms to compile, for each combination of types that it is called with, however
small it is. So there are few, and what chooses between them is `inlined`. Keys are widened to 64
bits on their way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.codegen.helpers.elements import at, prefetch, put
from gdatalog.codegen.language import inlined, part
from gdatalog.storage.table import Array

# From how many times the length on, a list is sought in instead of read. Short lists are read:
# the choice between two ways would be guessed wrong as often as it helps.
GALLOP = 8
SHORT = 64
GALLOP_MARKED = 32
FEW = 8  # values, of which each is compared with one that is looked for
AHEAD = 16  # places of a list from one that is at hand to those whose root is brought


@inlined
def lower(values: Array, lo: int, hi: int, key: Any) -> int:
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
def upper(values: Array, lo: int, hi: int, key: Any) -> int:
    """The first position whose value is more than the key."""
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
def seek(values: Array, lo: int, hi: int, key: Any) -> int:
    """As `lower`, for keys that are expected near the start: probes at 1, 8, 64, ..."""
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
def find(values: Array, lo: int, hi: int, key: Any) -> int:
    """The key's position, -1 if it is not there."""
    found = lower(values, lo, hi, key)
    return found if found < hi and at(values, found) == key else -1


@inlined
def has(values: Array, lo: int, hi: int, key: Any) -> bool:
    """Whether the key is there."""
    if hi - lo <= FEW:  # without branches that would be guessed wrong
        met = 0
        for k in range(lo, hi):
            met += int(at(values, k) == key)
        return met > 0
    found = lower(values, lo, hi, key)
    return found < hi and at(values, found) == key


@inlined
def find_indexed(low: int, index: Array, key: Any) -> int:
    """The key's position, from an index of all keys from `low` on; -1 where it is not there."""
    # Unsigned, so that one comparison serves both ends, and that it may wrap around: the sum of
    # signed numbers is compiled as if it could not.
    place = np.uint64(key) - np.uint64(low)
    return int(at(index, place)) if place < np.uint64(len(index)) else -1


@inlined
def children(low: int, starts: Array, key: Any) -> tuple[int, int]:
    """Where a root's key's children begin and end, from where those of all keys from `low` on
    begin; an empty range where the key is not there."""
    place = np.uint64(key) - np.uint64(low)
    if place < np.uint64(len(starts) - 1):
        return int(at(starts, place)), int(at(starts, place + np.uint64(1)))
    return 0, 0


@inlined
def fetch_sought(values: Array, i: int, low: int, array: Array) -> None:
    """Brings the entry of a root's array, by value from `low` on, for a value of a list some places
    behind the one at i."""
    if i + 2 * AHEAD < len(values):
        place = np.uint64(np.int64(at(values, i + 2 * AHEAD))) - np.uint64(low)
        if place < np.uint64(len(array)):
            prefetch(array, place)


@inlined
def fetch_children(values: Array, i: int, low: int, starts: Array, below: Array) -> None:
    """Brings the first child of such a value, once `starts` have come."""
    if i + AHEAD < len(values):
        place = np.uint64(np.int64(at(values, i + AHEAD))) - np.uint64(low)
        if place < np.uint64(len(starts)):
            first = int(at(starts, place))
            if first < len(below):
                prefetch(below, first)


@inlined
def find_root(values: Array, low: int, index: Array, key: Any) -> int:
    """The key's position in a root's list: by index (from `low` on) if there is one.

    A hot loop that knows whether there is one had better call what is called here: the other way,
    never taken, still takes the registers.
    """
    if len(index) > 0:
        return find_indexed(low, index, key)
    return find(values, 0, len(values), key)


@inlined
def parent_of(offsets: Array, position: int) -> int:
    """The parent whose list holds a position."""
    return upper(offsets, 0, len(offsets), position) - 1


# ---------------------------------------------------------------------- where two lists meet


# A merge branches on which value is less, and keeps both in registers. Without branches it waits
# at each step for what it loads: on real graphs that wins a fifth at most, and loses up to 5x.


@part
def merge(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; gives how many. Reads both lists."""
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
            put(out, n, a)
            n += 1
            alo += 1
            blo += 1
            if alo == ahi or blo == bhi:
                return n
            a, b = at(va, alo), at(vb, blo)


@part
def count_merge(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int) -> int:
    """How many values are common. Reads both lists."""
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
            n += 1
            alo += 1
            blo += 1
            if alo == ahi or blo == bhi:
                return n
            a, b = at(va, alo), at(vb, blo)


@part
def leapfrog(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; gives how many. Each list seeks in the other."""
    n = 0
    while alo < ahi and blo < bhi:
        a = np.int64(at(va, alo))
        blo = seek(vb, blo, bhi, a)
        if blo == bhi:
            break
        b = np.int64(at(vb, blo))
        if a == b:
            put(out, n, a)
            n += 1
            alo += 1
            blo += 1
        else:
            alo = seek(va, alo + 1, ahi, b)
    return n


@part
def count_leapfrog(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int) -> int:
    """How many values are common. Each list seeks in the other."""
    n = 0
    while alo < ahi and blo < bhi:
        a = np.int64(at(va, alo))
        blo = seek(vb, blo, bhi, a)
        if blo == bhi:
            break
        b = np.int64(at(vb, blo))
        if a == b:
            n += 1
            alo += 1
            blo += 1
        else:
            alo = seek(va, alo + 1, ahi, b)
    return n


@inlined
def intersect(va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, out: Array) -> int:
    """Writes the common values, ascending; gives how many."""
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
    """Gives a list's values a mark, or takes it away, in bytes for base, base + 1, ..."""
    for k in range(lo, hi):
        put(marks, at(values, k) - base, mark)


@inlined
def mark(values: Array, lo: int, hi: int, marks: Array, base: int) -> None:
    """Marks a list's values."""
    write_marks(values, lo, hi, marks, base, 1)


@inlined
def unmark(values: Array, lo: int, hi: int, marks: Array, base: int) -> None:
    """Takes the marks away."""
    write_marks(values, lo, hi, marks, base, 0)


@part
def keep_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int, out: Array) -> int:
    """Writes the values that are marked, ascending; gives how many. `out` has room for one more."""
    if blo < bhi and at(vb, blo) < base:
        blo = lower(vb, blo, bhi, base)
    last = base + (len(marks) - 1)  # in this order: what is behind the last may be no number
    if blo < bhi and at(vb, bhi - 1) > last:
        bhi = upper(vb, blo, bhi, last)
    n = 0
    for k in range(blo, bhi):  # without a branch, which the processor would often guess wrong
        b = at(vb, k)
        put(out, n, b)
        n += at(marks, b - base)
    return n


@part
def count_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int) -> int:
    """How many values are marked."""
    if blo < bhi and at(vb, blo) < base:
        blo = lower(vb, blo, bhi, base)
    last = base + (len(marks) - 1)  # in this order: what is behind the last may be no number
    if blo < bhi and at(vb, bhi - 1) > last:
        bhi = upper(vb, blo, bhi, last)
    n = 0
    for k in range(blo, bhi):
        n += at(marks, at(vb, k) - base)
    return n


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
    """Writes the common values of two lists of which the first is marked; gives how many."""
    if bhi - blo > GALLOP_MARKED * (ahi - alo):
        return leapfrog(va, alo, ahi, vb, blo, bhi, out)
    return keep_marked(vb, blo, bhi, marks, base, out)


@inlined
def count_intersect_marked(
    va: Array, alo: int, ahi: int, vb: Array, blo: int, bhi: int, marks: Array, base: int
) -> int:
    """How many values two lists have in common of which the first is marked."""
    if bhi - blo > GALLOP_MARKED * (ahi - alo):
        return count_leapfrog(va, alo, ahi, vb, blo, bhi)
    return count_marked(vb, blo, bhi, marks, base)


@inlined
def weigh_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int, weights: Array) -> int:
    """The sum of the weights of a list's values that are marked."""
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
    """The sum of the weights of the second list's values that the first has. Each list seeks in the
    other."""
    n = 0
    while alo < ahi and blo < bhi:
        a = np.int64(at(va, alo))
        blo = seek(vb, blo, bhi, a)
        if blo == bhi:
            break
        b = np.int64(at(vb, blo))
        if a == b:
            n += at(weights, blo)
            alo += 1
            blo += 1
        else:
            alo = seek(va, alo + 1, ahi, b)
    return n


@part
def is_marked(marks: Array, base: int, key: int) -> bool:
    """Whether a value is marked; what lies outside of the marks is not."""
    k = key - base
    return 0 <= k < len(marks) and at(marks, k) != 0
