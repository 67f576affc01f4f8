"""Delimited text: cutting lines into cells, writing cells as lines; and sets of texts as bytes.

Arrays of bytes are read by words of eight.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, prefetch, put, put_word, word
from gdatalog.codegen.helpers.bits import trailing_zeros
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


# Sets of texts as bytes: hashing, looking up, growing.
#
# A set numbers its texts from 0 on. The bytes of text c are `text[ends[c]:ends[c + 1]]`. `slots` is
# a hash table with open addressing: a slot holds 31 bits of a text's hash above its number plus
# one, or 0 if it is free. Half of the slots stay free. `state[COUNT]` is the number of texts.
#
# All arrays of bytes are read and written by words of eight bytes, so they end with eight bytes of
# padding.

# The state of a set: the number of texts.
COUNT = 0

_FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
SEED = np.uint64(0x2545_F491_4F6C_DD1D)
ONES = np.uint64(0x0101_0101_0101_0101)
_HIGH = np.uint64(0x8080_8080_8080_8080)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_TAG = np.uint64(33)
NONE = np.uint64(0)
_LOW = 0xFFFF_FFFF
_AHEAD = 6  # texts between two steps of a look-up


@inlined
def mixed(h: np.uint64, more: np.uint64) -> np.uint64:
    h = (h ^ more) * _FACTOR
    return h ^ (h >> _HALF)


@inlined
def tagged(h: np.uint64, length: int) -> int:
    """31 bits of a hash into which all words have been mixed."""
    return np.int64(((h ^ np.uint64(length)) * _FACTOR) >> _TAG)  # type: ignore[return-value]  # compiled code has 64 bits


@inlined
def low_bytes(count: int) -> np.uint64:
    """A mask of the lowest `count` bytes, fewer than eight."""
    return (_ONE << np.uint64(8 * count)) - _ONE


@inlined
def zeros(w: np.uint64) -> np.uint64:
    """The high bit of each byte that is zero, and perhaps of some bytes above the lowest of
    these."""
    return (w - ONES) & ~w & _HIGH


@inlined
def _tag_of(data: Array, begin: int, length: int) -> int:
    h = SEED
    for i in range(length >> 3):
        h = mixed(h, word(data, begin + 8 * i))
    last = word(data, begin + (length & ~7)) & low_bytes(length & 7)
    return tagged(mixed(h, last), length)


@inlined
def _same(data: Array, begin: int, text: Array, start: int, length: int) -> bool:
    for i in range(length >> 3):
        if word(data, begin + 8 * i) != word(text, start + 8 * i):
            return False
    rest = length & ~7
    differ = word(data, begin + rest) ^ word(text, start + rest)
    return bool((differ & low_bytes(length & 7)) == NONE)


@inlined
def _code_of(
    data: Array, begin: int, length: int, tag: int,
    text: Array, ends: Array, slots: Array, shift: int, state: Array,
) -> int:  # fmt: skip
    """The number of a text, which is added if it is new; -1 if there is no room."""
    mask = len(slots) - 1
    place = tag >> shift
    found = int(at(slots, place))
    while found != 0:
        if found >> 32 == tag:
            code = (found & _LOW) - 1
            start = at(ends, code)
            if at(ends, code + 1) - start == length and _same(data, begin, text, start, length):
                return code
        place = (place + 1) & mask
        found = int(at(slots, place))
    code = int(at(state, COUNT))
    start = at(ends, code)
    if code + 1 >= len(ends) or start + length + 8 > len(text):
        return -1
    for i in range((length >> 3) + 1):
        put_word(text, start + 8 * i, word(data, begin + 8 * i))
    put(ends, code + 1, start + length)
    put(slots, place, (tag << 32) | (code + 1))
    put(state, COUNT, code + 1)
    return code


@part
def measure(data: Array, bounds: Array, sizes: Array) -> None:
    """The hash and length of the texts `data[bounds[i]:bounds[i + 1]]`, for `look_up`."""
    for i in range(len(bounds) - 1):
        begin = at(bounds, i)
        length = at(bounds, i + 1) - begin
        put(sizes, i, (_tag_of(data, begin, length) << 32) | length)


@part
def look_up(
    data: Array, begins: Array, sizes: Array, lo: int, hi: int,
    text: Array, ends: Array, slots: Array, shift: int, state: Array, codes: Array,
) -> int:  # fmt: skip
    """The numbers of texts, from the start of each and its hash and length. Adds new texts; returns
    the first for which there is no room."""
    for i in range(lo, hi):
        # The set is read at random addresses, so these are prefetched for later texts, step by
        # step.
        if i + 3 * _AHEAD < hi:
            prefetch(slots, (at(sizes, i + 3 * _AHEAD) >> 32) >> shift)
        if i + 2 * _AHEAD < hi:
            found = at(slots, (at(sizes, i + 2 * _AHEAD) >> 32) >> shift)
            if found != 0:
                prefetch(ends, (found & _LOW) - 1)
        if i + _AHEAD < hi:
            found = at(slots, (at(sizes, i + _AHEAD) >> 32) >> shift)
            if found != 0:
                prefetch(text, at(ends, (found & _LOW) - 1))
        size = at(sizes, i)
        tag, length = size >> 32, size & _LOW
        code = _code_of(data, at(begins, i), length, tag, text, ends, slots, shift, state)
        if code < 0:
            return i
        put(codes, i, code)
    return hi


@part
def index_texts(
    text: Array, ends: Array, used: Array, count: int, slots: Array, shift: int
) -> None:
    """Enters a set's texts into its free slots, except those that are not `used`."""
    mask = len(slots) - 1
    for code in range(count):
        if at(used, code):
            start = at(ends, code)
            tag = _tag_of(text, start, at(ends, code + 1) - start)
            place = tag >> shift
            while at(slots, place) != 0:
                place = (place + 1) & mask
            put(slots, place, (tag << 32) | (code + 1))


@part
def move_slots(old: Array, slots: Array, shift: int) -> None:
    """Copies the slots of a smaller table."""
    mask = len(slots) - 1
    for i in range(len(old)):
        found = at(old, i)
        if found != 0:
            place = (found >> 32) >> shift
            while at(slots, place) != 0:
                place = (place + 1) & mask
            put(slots, place, found)
