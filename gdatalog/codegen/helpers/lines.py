"""Delimited text: cutting lines into cells, writing cells as lines.

Arrays of bytes are read by words of eight.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put, put_word, word
from gdatalog.codegen.helpers.bits import trailing_zeros
from gdatalog.codegen.helpers.text_sets import NONE, ONES, SEED, low_bytes, mixed, tagged, zeros
from gdatalog.codegen.loop_language import Array, inlined, part

# The state of `scan`: the position, the number of rows cut, and the bitwise or of all bytes.
PLACE, ROW, SEEN = 0, 1, 2

# The results of `scan`: rows are cut, or a line is not as expected.
DONE, ODD = 0, 1

# The state of `join`: the number of bytes written, and the bitwise or of all bytes.
WRITTEN, ALL = 0, 1

# How to read a column.
TEXT, INT, NOTHING = 0, 1, 2

_NEWLINES = np.uint64(0x0A0A_0A0A_0A0A_0A0A)
_TABS = np.uint64(0x0909_0909_0909_0909)
_RETURNS = np.uint64(0x0D0D_0D0D_0D0D_0D0D)
_TEN = np.uint64(10)
_NEWLINE, _PLUS, _MINUS, _ZERO, _NINE = 10, 43, 45, 48, 57
_DIGITS = 18  # as many always fit 64 bits


@inlined
def _number(data: Array, begin: int, end: int) -> tuple[int, bool]:
    """A decimal number with an optional sign, and whether the text is one."""
    sign = at(data, begin)  # in an empty cell, the delimiter
    i = begin
    if sign == _MINUS or sign == _PLUS:  # noqa: SIM109, a tuple is an array here
        i += 1
    digits = end - i
    if digits < 1 or digits > _DIGITS:
        return 0, False
    value = 0
    while i < end:
        digit = at(data, i)
        if digit < _ZERO or digit > _NINE:
            return 0, False
        value = 10 * value + (digit - _ZERO)
        i += 1
    return -value if sign == _MINUS else value, True


@part
def scan(
    data: Array, stop: int, delimiter: int, blank: bool, wanted: Array, rows: int,
    begins: Array, sizes: Array, numbers: Array, state: Array,
) -> int:  # fmt: skip
    """Cuts `data[:stop]`, whole lines, into as many cells a line as `wanted` has columns; at most
    `rows` rows.

    For texts, it stores the start, and the hash and length, row by row; for numbers, the values,
    column by column. `blank`: an empty line is a row. Continues where `state` says.
    """
    delimiters = ONES * np.uint64(delimiter)
    width = len(wanted)
    here = at(state, PLACE)
    seen = NONE
    row = 0
    cell = 0
    while here < stop and row < rows:
        if not blank and at(data, here) == _NEWLINE:
            here += 1
            continue
        number = row
        for column in range(width):
            begin = here
            h = SEED
            ended = NONE
            some = NONE
            while True:
                some = word(data, here)
                seen |= some
                ended = zeros(some ^ delimiters) | zeros(some ^ _NEWLINES)
                if ended != NONE:
                    break
                h = mixed(h, some)
                here += 8
            rest = trailing_zeros(ended) >> 3
            here += rest
            if (at(data, here) == _NEWLINE) != (column + 1 == width):
                return ODD
            what = at(wanted, column)
            if what == TEXT:
                length = here - begin
                tag = tagged(mixed(h, some & low_bytes(rest)), length)
                put(begins, cell, begin)
                put(sizes, cell, (tag << 32) | length)
                cell += 1
            elif what == INT:
                value, fine = _number(data, begin, here)
                if not fine:
                    return ODD
                put(numbers, number, value)
                number += rows
            here += 1
        row += 1
    put(state, PLACE, here)
    put(state, ROW, row)
    put(state, SEEN, at(state, SEEN) | np.int64(seen))
    return DONE


@inlined
def _put_number(value: int, out: Array, place: int) -> int:
    """Writes a number in decimal; returns the position after it."""
    left = np.uint64(value)
    if value < 0:
        put(out, place, _MINUS)
        place += 1
        left = NONE - left
    end = place + 1
    over = left // _TEN
    while over != NONE:
        end += 1
        over = over // _TEN
    for i in range(end - place):
        put(out, end - 1 - i, _ZERO + np.int64(left % _TEN))
        left = left // _TEN
    return end


@part
def join(
    cells: Array, wanted: Array, delimiter: int, text: Array, ends: Array, out: Array, state: Array
) -> bool:
    """Writes rows of numbers, and of texts by their numbers, as delimited lines. There must be room
    for all. Returns whether no text contains a delimiter, a tab or a line break."""
    delimiters = ONES * np.uint64(delimiter)
    width = len(wanted)
    rows = len(cells) // width
    place = 0
    seen = NONE
    odd = NONE
    for row in range(rows):
        for column in range(width):
            cell = at(cells, row * width + column)
            if at(wanted, column) == TEXT:
                start = at(ends, cell)
                length = at(ends, cell + 1) - start
                for i in range(length >> 3):
                    some = word(text, start + 8 * i)
                    odd |= zeros(some ^ delimiters) | zeros(some ^ _NEWLINES)
                    odd |= zeros(some ^ _TABS) | zeros(some ^ _RETURNS)
                    seen |= some
                    put_word(out, place + 8 * i, some)
                rest = length & ~7
                some = word(text, start + rest) & low_bytes(length & 7)
                odd |= zeros(some ^ delimiters) | zeros(some ^ _NEWLINES)
                odd |= zeros(some ^ _TABS) | zeros(some ^ _RETURNS)
                seen |= some
                put_word(out, place + rest, some)
                place += length
            else:
                place = _put_number(cell, out, place)
            put(out, place, _NEWLINE if column + 1 == width else delimiter)
            place += 1
    put(state, WRITTEN, place)
    put(state, ALL, np.int64(seen))
    return bool(odd == NONE)
