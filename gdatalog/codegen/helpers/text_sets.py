"""Sets of texts as bytes: hashing, looking up, growing.

A set numbers its texts from 0 on. The bytes of text c are `text[ends[c]:ends[c + 1]]`. `slots` is
a hash table with open addressing: a slot holds 31 bits of a text's hash above its number plus
one, or 0 if it is free. Half of the slots stay free. `state[COUNT]` is the number of texts.

All arrays of bytes are read and written by words of eight bytes, so they end with eight bytes of
padding.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, prefetch, put, put_word, word
from gdatalog.codegen.loop_language import Array, inlined, part

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
