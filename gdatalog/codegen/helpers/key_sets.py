"""Hash sets of keys, which threads may fill together.

Keys are from 0 to 2^63 - 2. A slot holds a key plus 1, or 0 if it is empty. A key goes to the first
free slot from its own on, which is given by the top bits of a product, so that all bits of the key
matter. Keys are never removed. The caller ensures that slots stay free. Threads add a key by one
compare-and-swap.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import compare_swap, load
from gdatalog.codegen.helpers.hash_tables import GOLDEN
from gdatalog.codegen.loop_language import Array, inlined, part


@inlined
def slot_of(key: int, shift: int) -> int:
    """The first slot that a key may have, among 2^(64 - shift)."""
    return np.int64((np.uint64(key) * GOLDEN) >> np.uint64(shift))  # type: ignore[return-value]  # compiled code has 64 bits


@inlined
def add_key(slots: Array, shift: int, key: int) -> bool:
    """Adds a key; whether it was new. If threads add the same key, it is new for one of them."""
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
    """Adds some of an array's keys, and stores in `fresh` which were new. Returns how many were."""
    count = 0
    for i in range(lo, hi):
        new = add_key(slots, shift, keys[i])
        fresh[i] = new
        count += new
    return count


@part
def move_keys(old: Array, lo: int, hi: int, slots: Array, shift: int) -> None:
    """Adds the keys in some slots of a smaller set."""
    for place in range(lo, hi):
        found = old[place]
        if found != 0:
            add_key(slots, shift, found - 1)
