"""Cliques counted by loops written by hand: what compiled rules are measured against.

All of them read a graph whose edges run from the vertex of lower degree to the one of higher
degree, as two arrays: the targets of vertex a are `targets[offsets[a] : offsets[a + 1]]`,
ascending. So no list is long, and each clique is found once, from its vertex of lowest degree.

By merging: the lists of two vertices are read side by side. By marks: one vertex's list is
marked, and the lists of its neighbours are read against the marks. Recoded: the edges among a
vertex's neighbours become rows of bits, and all that is left are `and` and counts of bits.

The threads take intervals of vertices from one counter. Each brings `marks`, a byte for each
vertex, all 0; `rows`, room for the rows of the longest list and one more; and `room`, for two lists
of vertices.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.numba_parts import at, jit, popcount, put, take, trailing_zeros
from tests.data import Array

Loop = Callable[[Array, Array, Array, int, Array, Array, Array], int]

GRAIN = 16  # vertices
_NONE, _ONE, _SIX, _LOW = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)


def degree_oriented(u: Array, v: Array) -> tuple[Array, Array]:
    """(offsets, targets) of undirected edges that are given once each."""
    n = int(max(u.max(), v.max())) + 1 if len(u) else 0
    degree = np.bincount(u, minlength=n) + np.bincount(v, minlength=n)
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(n)
    low, high = np.minimum(rank[u], rank[v]), np.maximum(rank[u], rank[v])
    packed = np.sort(low * n + high)
    offsets = np.searchsorted(packed, np.arange(n + 1) * n)
    return offsets.astype(np.int64), (packed % max(n, 1)).astype(np.int32)


def count(loop: Loop, offsets: Array, targets: Array, threads: int) -> int:
    """What the threads find together."""
    control = np.zeros(1, dtype=np.int64)
    most = int(np.diff(offsets).max(initial=0))

    def work() -> int:
        marks = np.zeros(len(offsets), dtype=np.uint8)
        rows = np.empty((most + 1) * ((most + 63) >> 6), dtype=np.uint64)
        room = np.empty(2 * most, dtype=np.int32)
        return loop(offsets, targets, control, threads, marks, rows, room)

    with ThreadPoolExecutor(threads) as pool:
        return sum(part.result() for part in [pool.submit(work) for _ in range(threads)])


# ------------------------------------------------------------------------------------ merging


@jit
def common(values: Array, i: int, i_end: int, others: Array, j: int, j_end: int) -> int:
    """How many vertices two lists have in common."""
    n = 0
    if i >= i_end or j >= j_end:
        return n
    x, y = at(values, i), at(others, j)
    while True:
        if x < y:
            i += 1
            if i == i_end:
                return n
            x = at(values, i)
        elif y < x:
            j += 1
            if j == j_end:
                return n
            y = at(others, j)
        else:
            n += 1
            i += 1
            j += 1
            if i == i_end or j == j_end:
                return n
            x, y = at(values, i), at(others, j)


@jit
def meet(
    values: Array, i: int, i_end: int, others: Array, j: int, j_end: int, out: Array, start: int
) -> int:
    """The same, written down from `start` on."""
    n = 0
    if i >= i_end or j >= j_end:
        return n
    x, y = at(values, i), at(others, j)
    while True:
        if x < y:
            i += 1
            if i == i_end:
                return n
            x = at(values, i)
        elif y < x:
            j += 1
            if j == j_end:
                return n
            y = at(others, j)
        else:
            put(out, start + n, x)
            n += 1
            i += 1
            j += 1
            if i == i_end or j == j_end:
                return n
            x, y = at(values, i), at(others, j)


@jit
def triangles_merged(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """Triangles a b c: c is in the rest of a's list behind b, and in b's list."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            end = at(offsets, a + 1)
            for i in range(at(offsets, a), end):
                b = at(targets, i)
                b_start, b_end = at(offsets, b), at(offsets, b + 1)
                total += common(targets, i + 1, end, targets, b_start, b_end)


@jit
def k4_merged(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """4-cliques: the triangles' third vertices are kept, and met with their own lists."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            end = at(offsets, a + 1)
            for i in range(at(offsets, a), end):
                b = at(targets, i)
                b_start, b_end = at(offsets, b), at(offsets, b + 1)
                n = meet(targets, i + 1, end, targets, b_start, b_end, room, 0)
                for k in range(n):
                    c = at(room, k)
                    c_start, c_end = at(offsets, c), at(offsets, c + 1)
                    total += common(room, k + 1, n, targets, c_start, c_end)


@jit
def k5_merged(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """5-cliques: the same, with one level more."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            end = at(offsets, a + 1)
            for i in range(at(offsets, a), end):
                b = at(targets, i)
                b_start, b_end = at(offsets, b), at(offsets, b + 1)
                n = meet(targets, i + 1, end, targets, b_start, b_end, room, 0)
                for k in range(n):
                    c = at(room, k)
                    c_start, c_end = at(offsets, c), at(offsets, c + 1)
                    m = meet(room, k + 1, n, targets, c_start, c_end, room, n)
                    for h in range(m):
                        d = at(room, n + h)
                        d_start, d_end = at(offsets, d), at(offsets, d + 1)
                        total += common(room, n + h + 1, n + m, targets, d_start, d_end)


# -------------------------------------------------------------------------------------- marks


@jit
def triangles_marked(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """Triangles a b c: c is in b's list, and marked as one of a's."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            first, end = at(offsets, a), at(offsets, a + 1)
            if end - first < 2:
                continue
            for i in range(first, end):
                put(marks, at(targets, i), 1)
            for i in range(first, end):
                b = at(targets, i)
                for k in range(at(offsets, b), at(offsets, b + 1)):
                    total += at(marks, at(targets, k))
            for i in range(first, end):
                put(marks, at(targets, i), 0)


# ----------------------------------------------------------------------------------- recoding


@jit
def recode(offsets: Array, targets: Array, a: int, places: Array, rows: Array) -> None:
    """Row j has bit k where a's j-th neighbour is joined to its k-th one.

    `places` has, for each of a's neighbours, 64 and which bit of its word it is, and 0 else. A
    word is gathered in a register: the lists ascend, so words are finished one after the other.
    """
    first, end = at(offsets, a), at(offsets, a + 1)
    words = (end - first + 63) >> 6
    for i in range(first, end):
        put(places, at(targets, i), 64 | ((i - first) & 63))
    for i in range(first, end):
        b = at(targets, i)
        k, b_end = at(offsets, b), at(offsets, b + 1)
        row = (i - first) * words
        for w in range(words - 1):
            bound = at(targets, first + 64 * w + 63)
            word = _NONE
            while k < b_end and at(targets, k) <= bound:
                place = np.uint64(at(places, at(targets, k)))
                word |= (place >> _SIX) << (place & _LOW)
                k += 1
            put(rows, row + w, word)
        word = _NONE
        while k < b_end:
            place = np.uint64(at(places, at(targets, k)))
            word |= (place >> _SIX) << (place & _LOW)
            k += 1
        put(rows, row + words - 1, word)
    for i in range(first, end):
        put(places, at(targets, i), 0)


@jit
def edges_within(rows: Array, start: int, words: int) -> int:
    """How many edges there are among the neighbours that a row has.

    Most rows have one or two words, so these are kept in registers.
    """
    total = 0
    first = at(rows, start)
    second = at(rows, start + 1) if words > 1 else _NONE
    for w in range(words):
        rest = at(rows, start + w)
        while rest != _NONE:
            other = (64 * w + trailing_zeros(rest)) * words
            rest &= rest - _ONE
            total += popcount(first & at(rows, other))
            if words > 1:
                total += popcount(second & at(rows, other + 1))
                for u in range(2, words):
                    total += popcount(at(rows, start + u) & at(rows, other + u))
    return total


@jit
def k4_recoded(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """4-cliques: the edges among the common neighbours of a and b, for each b."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            n = at(offsets, a + 1) - at(offsets, a)
            if n < 3:
                continue
            words = (n + 63) >> 6
            recode(offsets, targets, a, marks, rows)
            for j in range(n):
                total += edges_within(rows, j * words, words)


@jit
def k5_recoded(
    offsets: Array,
    targets: Array,
    control: Array,
    threads: int,
    marks: Array,
    rows: Array,
    room: Array,
) -> int:
    """5-cliques: the edges among the common neighbours of a, b and c, for each b and c."""
    total = 0
    while True:
        start, stop = take(control, threads, len(offsets) - 1, GRAIN)
        if start >= stop:
            return total
        for a in range(start, stop):
            n = at(offsets, a + 1) - at(offsets, a)
            if n < 4:
                continue
            words = (n + 63) >> 6
            recode(offsets, targets, a, marks, rows)
            for j in range(n):
                for w in range(words):
                    rest = at(rows, j * words + w)
                    while rest != _NONE:
                        k = 64 * w + trailing_zeros(rest)
                        rest &= rest - _ONE
                        for u in range(words):
                            put(
                                rows,
                                n * words + u,
                                at(rows, j * words + u) & at(rows, k * words + u),
                            )
                        total += edges_within(rows, n * words, words)
