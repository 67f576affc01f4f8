"""Local recoding: a list's values become positions, and what is joined on below it, rows of bits.

Row j stands for the list's j-th value. It has a bit for each of the list's values, in words of 64
bits, `words = (n + 63) // 64` of them; rows lie one behind the other in one array. Intersections
within the list are then a few words' `and`, and counts a few instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.codegen.helpers.elements import at, put
from gdatalog.codegen.helpers.lists import GALLOP_MARKED, find, find_indexed, lower, seek, upper
from gdatalog.codegen.language import inlined, intrinsic, part
from gdatalog.storage.table import Array

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@intrinsic
def popcount(word: Any) -> int:
    """How many bits of an unsigned word are set."""
    return int(word).bit_count()


@intrinsic
def trailing_zeros(word: Any) -> int:
    """The place of the lowest bit that is set; 64 if there is none."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


@intrinsic
def bit_length(number: int) -> int:
    """The place behind the highest bit of an int64 that is set; of a negative one that is 64."""
    return 64 if number < 0 else int(number).bit_length()


# --------------------------------------------------------------------------- numbers of rows


@part
def count_bits(words: Array, lo: int, hi: int) -> int:
    """How many bits some words of a bitmap have."""
    count = 0
    for w in range(lo, hi):
        count += popcount(at(words, w))
    return count


@part
def column_of_bits(
    words: Array, lo: int, hi: int, column: Array, place: int, divisor: int, span: int, least: int
) -> None:
    """Fills a column from `place` on with `least + number / divisor % span` for each bit of some
    words, whose place in the bitmap is its number."""
    for w in range(lo, hi):
        left = at(words, w)
        value = w * 64 // divisor % span
        # How many bits the value lasts, and whether each bit has a value of its own.
        lasts = divisor - w * 64 % divisor
        step = min(1, divisor - 1) ^ 1
        begin = value + least
        end = span + least
        while left != _NONE:
            zeros = trailing_zeros(left)
            left &= left - _ONE
            value = begin + step * zeros
            while zeros >= lasts and step == 0:
                lasts += divisor
                begin += 1
                value += 1
                if value == end:
                    begin -= span
            while value >= end:
                value -= span
            put(column, place, value)
            place += 1


# ---------------------------------------------------------------------------------- recoding


@part
def place(values: Array, lo: int, hi: int, places: Array, base: int) -> None:
    """Notes where in the list each value stands, for `recode_rows`.

    In a byte: 64, for it is in the list, and which bit of its word it is. The word follows from
    the order in which a sorted list is read. An array of bytes stays in the cache.
    """
    for k in range(lo, hi):
        put(places, at(values, k) - base, 64 | ((k - lo) & 63))


@part
def unplace(values: Array, lo: int, hi: int, places: Array, base: int) -> None:
    """Takes the notes away."""
    for k in range(lo, hi):
        put(places, at(values, k) - base, 0)


@part
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

    Only of those behind it in the list (side 1), before it (-1), or of all (0). All of the list
    has its place.
    """
    n = hi - lo
    words = (n + 63) >> 6
    # First of all, where the values are in the trie's root, from 1 on (0: nowhere), into the first
    # words of their rows: what is found decides where to read next, so many of these are best under
    # way at once.
    for j in range(n):
        value = np.int64(at(list_values, lo + j))
        if len(root_index) > 0:
            parent = find_indexed(root_low, root_index, value)
        else:
            parent = find(root_values, 0, len(root_values), value)
        put(rows, j * words, np.uint64(parent + 1))
    for j in range(n):
        row = j * words
        found = np.int64(at(rows, row)) - 1
        c, stop = 0, 0
        alone = (side > 0 and j == n - 1) or (side < 0 and j == 0)
        if found >= 0 and not alone:
            c, stop = at(child_offsets, found), at(child_offsets, found + 1)
            value = np.int64(at(list_values, lo + j))
            first = value + 1 if side > 0 else base
            last = value - 1 if side < 0 else base + (len(places) - 1)
            # A look at the ends spares most of the searches: little is cut off, as a rule.
            if c < stop and at(child_values, c) < first:
                c = lower(child_values, c, stop, first)
            if c < stop and at(child_values, stop - 1) > last:
                stop = upper(child_values, c, stop, last)
        word = _NONE
        if stop - c > GALLOP_MARKED * n:
            for k in range(n):
                value = np.int64(at(list_values, lo + k))
                c = seek(child_values, c, stop, value)
                if c < stop and at(child_values, c) == value:
                    word |= _ONE << np.uint64(k & 63)
                if k & 63 == 63 or k == n - 1:
                    put(rows, row + (k >> 6), word)
                    word = _NONE
            continue
        # Read from end to end, a word at a time; no branch asks who is in the list.
        for w in range(words - 1):
            bound = at(list_values, lo + 64 * w + 63)
            word = _NONE
            while c < stop and at(child_values, c) <= bound:
                noted = np.uint64(at(places, at(child_values, c) - base))
                word |= (noted >> _SIX) << (noted & _LOW)
                c += 1
            put(rows, row + w, word)
        word = _NONE
        while c < stop:
            noted = np.uint64(at(places, at(child_values, c) - base))
            word |= (noted >> _SIX) << (noted & _LOW)
            c += 1
        put(rows, row + words - 1, word)


# -------------------------------------------------------------------------------------- rows


# Rows are short, as a rule: a loop that first asks for the width of its vectors, and ends with
# what they leave over, costs more than the work. So the first two words stand alone.


@inlined
def and_rows(dst: Array, d: int, a: Array, i: int, b: Array, j: int, words: int) -> None:
    """A row becomes what two rows have in common. It may be one of them."""
    if words > 0:
        put(dst, d, at(a, i) & at(b, j))
    if words > 1:
        put(dst, d + 1, at(a, i + 1) & at(b, j + 1))
        for w in range(2, words):
            put(dst, d + w, at(a, i + w) & at(b, j + w))


@part
def copy_row(dst: Array, d: int, a: Array, i: int, words: int) -> None:
    """A row becomes another."""
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
        put(dst, d + w, _ALL)
    if n & 63:
        put(dst, d + (n >> 6), (_ONE << np.uint64(n & 63)) - _ONE)


@part
def above(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits up to k, and k. There may be no such bit: k may be -1, or behind the row."""
    if k < 0:
        return
    word = k >> 6
    for w in range(words):
        if w < word:
            put(dst, d + w, _NONE)
        elif w == word:
            # shifted twice, for there is no shift by 64
            put(dst, d + w, at(dst, d + w) & ((_ALL << np.uint64(k & 63)) << _ONE))


@part
def below(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits from k on. There may be no such bit."""
    word = k >> 6
    for w in range(words):
        if w > word:
            put(dst, d + w, _NONE)
        elif w == word:
            put(dst, d + w, at(dst, d + w) & ~(_ALL << np.uint64(k & 63)))


@part
def has_bit(a: Array, i: int, k: int) -> bool:
    """Whether bit k of a row is set."""
    return bool((at(a, i + (k >> 6)) & (_ONE << np.uint64(k & 63))) != np.uint64(0))
