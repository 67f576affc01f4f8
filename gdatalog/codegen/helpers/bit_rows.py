"""Rows of bits: `words = (n + 63) // 64` words for n bits, one row after the other in one array.

Rows are usually short: a loop that computes the width of its vectors and handles the remainder
costs more than the work. So the first two words are separate.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.bits import ALL, NONE, ONE, popcount
from gdatalog.codegen.loop_language import Array, inlined, part


@inlined
def and_rows(dst: Array, d: int, a: Array, i: int, b: Array, j: int, words: int) -> None:
    """Intersects two rows. The result may overwrite one of them."""
    if words > 0:
        put(dst, d, at(a, i) & at(b, j))
    if words > 1:
        put(dst, d + 1, at(a, i + 1) & at(b, j + 1))
        for w in range(2, words):
            put(dst, d + w, at(a, i + w) & at(b, j + w))


@part
def copy_row(dst: Array, d: int, a: Array, i: int, words: int) -> None:
    """Copies a row."""
    for w in range(words):
        put(dst, d + w, at(a, i + w))


@inlined
def count_and(a: Array, i: int, b: Array, j: int, words: int) -> int:
    """How many bits two rows have in common."""
    n = 0
    if words > 0:
        n += popcount(at(a, i) & at(b, j))
    if words > 1:
        n += popcount(at(a, i + 1) & at(b, j + 1))
        for w in range(2, words):
            n += popcount(at(a, i + w) & at(b, j + w))
    return n


@part
def count_row(a: Array, i: int, words: int) -> int:
    """How many bits of a row are set."""
    n = 0
    for w in range(words):
        n += popcount(at(a, i + w))
    return n


@part
def fill_ones(dst: Array, d: int, n: int) -> None:
    """Sets the n bits of a row."""
    for w in range(n >> 6):
        put(dst, d + w, ALL)
    if n & 63:
        put(dst, d + (n >> 6), (ONE << np.uint64(n & 63)) - ONE)


@part
def above(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits up to and including k. k may be -1, or beyond the row."""
    if k < 0:
        return
    word = k >> 6
    for w in range(words):
        if w < word:
            put(dst, d + w, NONE)
        elif w == word:
            # two shifts, because a shift by 64 is undefined
            put(dst, d + w, at(dst, d + w) & ((ALL << np.uint64(k & 63)) << ONE))


@part
def below(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits from k on. k may be beyond the row."""
    word = k >> 6
    for w in range(words):
        if w > word:
            put(dst, d + w, NONE)
        elif w == word:
            put(dst, d + w, at(dst, d + w) & ~(ALL << np.uint64(k & 63)))


@part
def has_bit(a: Array, i: int, k: int) -> bool:
    """Whether bit k of a row is set."""
    return bool((at(a, i + (k >> 6)) & (ONE << np.uint64(k & 63))) != np.uint64(0))
