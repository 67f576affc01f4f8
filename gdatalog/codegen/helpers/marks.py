"""Marks: a list is marked in an array by value, and other lists look their values up there."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.list_merges import count_leapfrog, leapfrog, leapt
from gdatalog.codegen.helpers.lists import GALLOP_MARKED, lower, upper
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part


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
def within(values: Array, lo: int, hi: int, low: int, count: int) -> tuple[int, int]:
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
    blo, bhi = within(vb, blo, bhi, base, len(marks))
    n = 0
    for k in range(blo, bhi):  # without a branch, which would often be mispredicted
        b = at(vb, k)
        put(out, n, b)
        n += at(marks, b - base)
    return n


@part
def count_marked(vb: Array, blo: int, bhi: int, marks: Array, base: int) -> int:
    """How many values are marked."""
    blo, bhi = within(vb, blo, bhi, base, len(marks))
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
    return leapt(va, alo, ahi, vb, blo, bhi, va, weights, False, True)


@part
def is_marked(marks: Array, base: int, key: int) -> bool:
    """Whether a value is marked. Values outside the marks are not."""
    k = key - base
    return 0 <= k < len(marks) and at(marks, k) != 0
