"""A set of keys that threads fill together: open addressing, and one compare-and-swap for a key.

Keys are from 0 to 2^63 - 2. A slot holds a key more 1, or 0 while it is empty. A key goes to the
first free slot from its own on, which the top bits of a product name: what differs in any bit of
two keys tells there. Nothing is ever taken out. Whoever adds sees to it that slots stay free.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers.atomics import compare_swap, load
from gdatalog.codegen.language import inlined, part
from gdatalog.storage.table import Array

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)


@inlined
def slot_of(key: int, shift: int) -> int:
    """The first slot that a key may have, of 2^(64 - shift)."""
    return np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(shift))  # type: ignore[return-value]  # compiled code has 64 bits


@inlined
def add_key(slots: Array, shift: int, key: int) -> bool:
    """Adds a key; whether it was not there. Of threads that add the same, one hears yes."""
    sought = key + 1
    mask = len(slots) - 1
    place = slot_of(key, shift)
    while True:
        found = load(slots, place)
        if found == 0:
            found = compare_swap(slots, place, 0, sought)
            if found == 0:
                return True
        if found == sought:
            return False
        place = (place + 1) & mask


@part
def add_keys(slots: Array, shift: int, keys: Array, lo: int, hi: int, fresh: Array) -> int:
    """Adds some of an array's keys; notes at which of them a key came that was not there."""
    count = 0
    for i in range(lo, hi):
        new = add_key(slots, shift, keys[i])
        fresh[i] = new
        count += new
    return count


@part
def move_keys(old: Array, lo: int, hi: int, slots: Array, shift: int) -> None:
    """Adds the keys of some slots of a smaller set."""
    for place in range(lo, hi):
        found = old[place]
        if found != 0:
            add_key(slots, shift, found - 1)
