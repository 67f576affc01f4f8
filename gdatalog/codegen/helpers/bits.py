"""Bits of words, and bitmaps of row numbers."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.loop_language import Array, Scalar, intrinsic, part

ONE = np.uint64(1)
NONE = np.uint64(0)
SIX = np.uint64(6)
LOW = np.uint64(63)
ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


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
        while left != NONE:
            zeros = trailing_zeros(left)
            left &= left - ONE
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
