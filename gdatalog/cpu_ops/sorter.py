"""The compiled sorter of long arrays, which `storage` is offered."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from gdatalog.storage.sorting import Sorter
from gdatalog.storage.table import Array
from gdatalog.storage.threads import cores, spread

# From how many values on the sort alone is worth the start of Numba, or a compilation.
WORTH_STARTING, WORTH_COMPILING = 1 << 23, 1 << 21

_TOP = 10  # bits that choose a bucket

SOURCE = '''"""Sorting 64-bit integers, compiled."""

import numba
import numpy as np

from gdatalog.cpu_ops.compiled import sorting


@numba.njit("void(i8[::1], u8, u8, i8[::1])", cache=True, nogil=True)
def tally(values, low, shift, counts):
    sorting.tally(values, low, shift, counts)


@numba.njit("void(i8[::1], u8, u8, i8[::1], i8[::1])", cache=True, nogil=True)
def scatter(values, low, shift, places, out):
    sorting.scatter(values, low, shift, places, out)


@numba.njit("void(i8[::1], i8[::1], i8[::1], i8, i8, u8, i8)", cache=True, nogil=True)
def sort_buckets(values, room, starts, first, last, low, bits):
    counts = np.empty(1 << sorting.WIDEST, np.int64)
    sorting.sort_buckets(values, room, starts, first, last, low, bits, counts)
'''


def sorter_for(count: int, start: bool) -> Sorter | None:
    """The sorter, where it is at hand, or where the sort alone is worth what it waits for: then
    it starts, if it may."""
    if start and count >= WORTH_STARTING:
        return sort_by_digits
    if "numba" not in sys.modules:
        return None
    from gdatalog.cpu_ops import code_cache

    at_hand = code_cache.compiled(code_cache.versioned("sort", SOURCE))
    return sort_by_digits if at_hand or (start and count >= WORTH_COMPILING) else None


def sort_by_digits(values: Array, low: int, high: int) -> Array:
    """The values of an array of int64, sorted."""
    from gdatalog.cpu_ops import code_cache  # with Numba, for few need it

    code = code_cache.load(code_cache.versioned("sort", SOURCE), SOURCE)
    values = np.ascontiguousarray(values)
    count = len(values)
    bits = (high - low).bit_length()
    top = min(_TOP, bits)
    shift, least = np.uint64(bits - top), np.uint64(low % (1 << 64))
    workers = cores()
    cuts = [count * at // workers for at in range(workers + 1)]
    parts = [values[a:b] for a, b in pairwise(cuts)]

    counts = np.zeros((workers, 1 << top), dtype=np.int64)
    spread(lambda at: code.tally(parts[at], least, shift, counts[at]), range(workers), True)
    # Where each part's values of each digit go: digit by digit, and part by part within.
    in_order = counts.T.ravel()
    places = (np.cumsum(in_order) - in_order).reshape(-1, workers)
    starts = np.append(places[:, 0], count)
    places = np.ascontiguousarray(places.T)
    out = np.empty(count, dtype=np.int64)
    spread(lambda at: code.scatter(parts[at], least, shift, places[at], out), range(workers), True)
    if bits > top:
        room = np.empty(count, dtype=np.int64)
        buckets = np.searchsorted(starts, cuts)
        buckets[-1] = 1 << top

        def finish(at: int) -> None:
            first, last = int(buckets[at]), int(buckets[at + 1])
            code.sort_buckets(out, room, starts, first, last, least, bits - top)

        spread(finish, range(workers), True)
    return out
