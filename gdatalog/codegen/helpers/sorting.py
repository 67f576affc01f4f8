"""Sorts 64-bit integers by digits: first into buckets, then each bucket within the cache.

Digits are those of the difference to the least value, so negative values need no special case. The
first digit is the top bits: every thread counts and distributes a part of the values. Then the
buckets are sorted independently by their lower digits, the least significant first.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen import inlined, part
from gdatalog.codegen.helpers import at, put
from gdatalog.storage.table import Array

WIDEST = 10  # bits of a digit: more buckets would not fit in the cache
FEW = 48  # values: fewer are sorted by insertion


@part
def count_keys(keys: Array, low: int, counts: Array) -> None:
    """Counts how often each key occurs; counts start at key `low`."""
    for i in range(len(keys)):
        key = at(keys, i) - low
        put(counts, key, at(counts, key) + 1)


@part
def tally(values: Array, low: np.uint64, shift: np.uint64, counts: Array) -> None:
    """Counts the values of each top digit."""
    for i in range(len(values)):
        digit = (np.uint64(at(values, i)) - low) >> shift
        put(counts, digit, at(counts, digit) + 1)


@part
def scatter(values: Array, low: np.uint64, shift: np.uint64, places: Array, out: Array) -> None:
    """Moves each value to the next place of its top digit."""
    for i in range(len(values)):
        value = at(values, i)
        digit = (np.uint64(value) - low) >> shift
        place = at(places, digit)
        put(places, digit, place + 1)
        put(out, place, value)


@part
def sort_buckets(
    values: Array,
    room: Array,
    starts: Array,
    first: int,
    last: int,
    low: np.uint64,
    bits: int,
    counts: Array,
) -> None:
    """Sorts the buckets `first` to `last`, whose values differ in the lower `bits` bits only."""
    for bucket in range(first, last):
        lo, hi = starts[bucket], starts[bucket + 1]
        if hi - lo < FEW:
            _insert(values, lo, hi)
        else:
            _by_digits(values, room, lo, hi, low, bits, counts)


@inlined
def _insert(values: Array, lo: int, hi: int) -> None:
    for i in range(lo + 1, hi):
        value = at(values, i)
        j = i - 1
        while j >= lo and at(values, j) > value:
            put(values, j + 1, at(values, j))
            j -= 1
        put(values, j + 1, value)


@inlined
def _by_digits(
    values: Array, room: Array, lo: int, hi: int, low: np.uint64, bits: int, counts: Array
) -> None:
    size = hi - lo
    widest = 6 if size < 512 else 8 if size < 4096 else WIDEST
    passes = (bits + widest - 1) // widest
    width = (bits + passes - 1) // passes
    mask = np.uint64((1 << width) - 1)
    source, target = values, room
    for step in range(passes):
        shift = np.uint64(step * width)
        for d in range(1 << width):
            put(counts, d, 0)
        for i in range(lo, hi):
            digit = ((np.uint64(at(source, i)) - low) >> shift) & mask
            put(counts, digit, at(counts, digit) + 1)
        place = lo
        for d in range(1 << width):
            count = at(counts, d)
            put(counts, d, place)
            place += count
        for i in range(lo, hi):
            value = at(source, i)
            digit = ((np.uint64(value) - low) >> shift) & mask
            place = at(counts, digit)
            put(counts, digit, place + 1)
            put(target, place, value)
        source, target = target, source
    if passes % 2 == 1:
        for i in range(lo, hi):
            put(values, i, at(room, i))
