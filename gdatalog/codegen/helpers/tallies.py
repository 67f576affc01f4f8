"""Tables of counts by key, and lists kept for reuse."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, prefetch, put
from gdatalog.codegen.helpers.lists import seek
from gdatalog.codegen.helpers.marks import within
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part

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
    lo, hi = within(values, lo, hi, low, len(counts))
    total, about = 0, 0.0
    for i in range(lo, hi):
        count = at(counts, at(values, i) - low)
        total += count
        about += float(count)
    return total if about < 4e18 else -1
