"""Local recoding: the values of a list become positions, and the lists below them rows of bits.

Row j belongs to the list's j-th value. It has one bit for each value of the list, in words of 64
bits: `words = (n + 63) // 64` words. Rows are stored one after the other in one array.
Intersections within the list are then an `and` of a few words, and counts a few instructions.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.lists import GALLOP_MARKED, find, find_indexed, lower, seek, upper
from gdatalog.codegen.loop_language import Array, Scalar, inlined, intrinsic, part

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@intrinsic
def popcount(word: Scalar) -> int:
    """How many bits of an unsigned word are set."""
    return int(word).bit_count()


@intrinsic
def trailing_zeros(word: Scalar) -> int:
    """The position of the lowest bit that is set; 64 if there is none."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


@intrinsic
def bit_length(number: int) -> int:
    """The position after the highest bit of an int64 that is set; 64 for negative numbers."""
    return 64 if number < 0 else int(number).bit_length()


# --------------------------------------------------------------------------- numbers of rows


@part
def count_bits(words: Array, lo: int, hi: int) -> int:
    """How many bits are set in some words of a bitmap."""
    count = 0
    for w in range(lo, hi):
        count += popcount(at(words, w))
    return count


@part
def column_of_bits(
    words: Array, lo: int, hi: int, column: Array, place: int, divisor: int, span: int, least: int
) -> None:
    """Fills a column from `place` on with `least + number / divisor % span` for each bit that is
    set in some words. A bit's number is its position in the bitmap."""
    for w in range(lo, hi):
        left = at(words, w)
        value = w * 64 // divisor % span
        # How many more bits have this value, and whether each bit has a value of its own.
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
    """Notes the position of each value of a list, for `recode_rows`.

    The note is a byte: 64 (the value is in the list) and the number of its bit in a word. The word
    follows from the order in which a sorted list is read. An array of bytes stays in the cache.
    """
    for k in range(lo, hi):
        put(places, at(values, k) - base, 64 | ((k - lo) & 63))


@part
def unplace(values: Array, lo: int, hi: int, places: Array, base: int) -> None:
    """Clears the notes."""
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
    """Fills the rows of a list: row j has a bit for each value that is a child of value j in a
    trie.

    Only values after j in the list (side 1), before j (-1), or all (0). All values of the list must
    have been placed.
    """
    n = hi - lo
    words = (n + 63) >> 6
    # First finds the values in the trie's root, and stores their positions plus 1 (0: absent) in
    # the first words of their rows. The address of the next load depends on what is found, so as
    # many searches as possible run at once.
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
            # Comparing the ends saves most searches: usually little is cut off.
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
        # Reads all children, a word at a time, without branching on whether they are in the list.
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


# Rows are usually short: a loop that computes the width of its vectors and handles the remainder
# costs more than the work. So the first two words are separate.


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
        put(dst, d + w, _ALL)
    if n & 63:
        put(dst, d + (n >> 6), (_ONE << np.uint64(n & 63)) - _ONE)


@part
def above(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits up to and including k. k may be -1, or beyond the row."""
    if k < 0:
        return
    word = k >> 6
    for w in range(words):
        if w < word:
            put(dst, d + w, _NONE)
        elif w == word:
            # two shifts, because a shift by 64 is undefined
            put(dst, d + w, at(dst, d + w) & ((_ALL << np.uint64(k & 63)) << _ONE))


@part
def below(dst: Array, d: int, k: int, words: int) -> None:
    """Clears the bits from k on. k may be beyond the row."""
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
