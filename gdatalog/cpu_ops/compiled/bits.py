"""Local recoding: a list's values become positions, and what is joined on below it, rows of bits.

Row j stands for the list's j-th value. It has a bit for each of the list's values, in words of 64
bits, `words = (n + 63) // 64` of them; rows lie one behind the other in one array. Intersections
within the list are then a few words' `and`, and counts a few instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from gdatalog.cpu_ops.compiled.elements import at, put
from gdatalog.cpu_ops.compiled.jit import inlined, intrinsic, jit
from gdatalog.cpu_ops.compiled.lists import find_root, lower, upper
from gdatalog.storage.table import Array

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@intrinsic
def popcount(_: Any, word: Any) -> Any:
    """How many bits of an unsigned word are set."""
    if word != types.uint64:
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(word), write


@intrinsic
def trailing_zeros(_: Any, word: Any) -> Any:
    """The place of the lowest bit that is set; 64 if there is none."""
    if word != types.uint64:
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, False))

    return types.int64(word), write


@inlined
def bit(k: int) -> Any:
    """The word in which only bit k, modulo 64, is set."""
    return _ONE << np.uint64(k & 63)


@inlined
def from_bit(k: int) -> Any:
    """The word in which the bits from k, modulo 64, on are set."""
    return _ALL << np.uint64(k & 63)


# ---------------------------------------------------------------------------------- recoding


@jit
def place(values: Array, lo: int, hi: int, places: Array, base: int) -> None:
    """Notes where in the list each value stands, counted from 1."""
    for k in range(lo, hi):
        put(places, at(values, k) - base, k - lo + 1)


@jit
def unplace(values: Array, lo: int, hi: int, places: Array, base: int) -> None:
    """Takes the notes away."""
    for k in range(lo, hi):
        put(places, at(values, k) - base, 0)


@jit
def recode_rows(
    list_values: Array,
    lo: int,
    hi: int,
    places: Array,
    base: int,
    root_values: Array,
    root_low: int,
    root_index: Array,
    child_values: Array,
    child_offsets: Array,
    rows: Array,
    side: int,
) -> None:
    """Fills the rows of a list: which of its values are children of each of them in a trie.

    Only of those behind it in the list (side 1), before it (-1), or of all (0).
    """
    n = hi - lo
    if n <= 0:
        return
    words = (n + 63) // 64
    for word in range(n * words):
        put(rows, word, _NONE)
    first, last = at(list_values, lo), at(list_values, hi - 1)
    for j in range(n):
        value = at(list_values, lo + j)
        parent = find_root(root_values, root_low, root_index, value)
        if parent < 0:
            continue
        start, stop = at(child_offsets, parent), at(child_offsets, parent + 1)
        if side > 0:
            start = upper(child_values, start, stop, value)
        elif start < stop and at(child_values, start) < first:
            start = lower(child_values, start, stop, first)
        if side < 0:
            stop = lower(child_values, start, stop, value)
        elif start < stop and at(child_values, stop - 1) > last:
            stop = upper(child_values, start, stop, last)
        row = j * words
        for c in range(start, stop):
            k = at(places, at(child_values, c) - base) - 1
            if k >= 0:
                w = row + (k >> 6)
                put(rows, w, at(rows, w) | bit(k))


# -------------------------------------------------------------------------------------- rows


@jit
def and_rows(dst: Array, d: int, a: Array, i: int, b: Array, j: int, words: int) -> None:
    """A row becomes what two rows have in common."""
    for w in range(words):
        put(dst, d + w, at(a, i + w) & at(b, j + w))


@jit
def copy_row(dst: Array, d: int, a: Array, i: int, words: int) -> None:
    """A row becomes another."""
    for w in range(words):
        put(dst, d + w, at(a, i + w))


@jit
def count_and(a: Array, i: int, b: Array, j: int, words: int) -> int:
    """How many bits two rows have in common."""
    n = 0
    for w in range(words):
        n += popcount(at(a, i + w) & at(b, j + w))
    return n


@jit
def count_row(a: Array, i: int, words: int) -> int:
    """How many bits of a row are set."""
    n = 0
    for w in range(words):
        n += popcount(at(a, i + w))
    return n


@jit
def fill_ones(dst: Array, d: int, n: int) -> None:
    """Sets the n bits of a row."""
    for w in range(n >> 6):
        put(dst, d + w, _ALL)
    if n & 63:
        put(dst, d + (n >> 6), bit(n) - _ONE)


@jit
def above(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits up to k, and k."""
    word = k >> 6
    for w in range(min(word, words)):
        put(dst, d + w, _NONE)
    if word < words:
        put(dst, d + word, at(dst, d + word) & (from_bit(k) << _ONE))


@jit
def below(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits from k on."""
    word = k >> 6
    if word < words:
        put(dst, d + word, at(dst, d + word) & ~from_bit(k))
    for w in range(word + 1, words):
        put(dst, d + w, _NONE)


@inlined
def clear_bit(dst: Array, d: int, k: int) -> None:
    """Clears bit k."""
    w = d + (k >> 6)
    put(dst, w, at(dst, w) & ~bit(k))
