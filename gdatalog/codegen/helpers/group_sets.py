"""The set of one group of rows, which stays in the cache, and is emptied after the group.

It is a bitmap of all possible keys, `words`, with a bit in `filled` for each word that is not zero:
so few keys among many are found, in order, without reading all words. Or it is a hash set, `slots`
(`key_sets.py`), of which a group uses as many as it needs; `taken` lists its keys.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.bits import trailing_zeros
from gdatalog.codegen.helpers.key_sets import slot_of
from gdatalog.codegen.loop_language import Array, inlined, part

_ONE = np.uint64(1)
_NONE = np.uint64(0)
LEAST_SLOTS, LEAST_SHIFT = 16, 60  # slots of a new group: 2^(64 - shift)


@inlined
def add_bit(words: Array, filled: Array, key: int) -> None:
    """Adds a key."""
    word = key >> 6
    put(words, word, at(words, word) | (_ONE << np.uint64(key & 63)))
    put(filled, word >> 6, at(filled, word >> 6) | (_ONE << np.uint64(word & 63)))


@inlined
def add_new_bit(words: Array, filled: Array, key: int) -> bool:
    """Adds a key; whether it was new."""
    word = key >> 6
    before = at(words, word)
    after = before | (_ONE << np.uint64(key & 63))
    if after == before:
        return False
    put(words, word, after)
    put(filled, word >> 6, at(filled, word >> 6) | (_ONE << np.uint64(word & 63)))
    return True


@part
def empty_bits(words: Array, filled: Array) -> None:
    """Removes all keys."""
    for block in range(len(filled)):
        left = at(filled, block)
        if left != _NONE:
            put(filled, block, _NONE)
            while left != _NONE:
                put(words, (block << 6) + trailing_zeros(left), _NONE)
                left &= left - _ONE


@inlined
def add_own(slots: Array, shift: int, key: int) -> bool:
    """Adds a key to a hash set of 2^(64 - shift) slots, which no other thread uses; whether it was
    new."""
    mask = (1 << (64 - shift)) - 1
    sought = key + 1
    place = slot_of(key, shift)
    while True:
        found = at(slots, place)
        if found == 0:
            put(slots, place, sought)
            return True
        if found == sought:
            return False
        place = (place + 1) & mask


@part
def empty_slots(slots: Array, many: int) -> None:
    """Clears the first slots."""
    for place in range(many):
        put(slots, place, 0)


@part
def widen_slots(slots: Array, taken: Array, count: int, shift: int) -> int:
    """Uses four times as many slots for the `count` keys of a group. Returns their shift, or 0 if
    there are not so many slots."""
    wider = shift - 2
    if 1 << (64 - wider) > len(slots):
        return 0
    empty_slots(slots, 1 << (64 - wider))
    for i in range(count):
        add_own(slots, wider, at(taken, i))
    return wider
