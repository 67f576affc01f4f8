"""Hash tries (`storage/loop_tables.py`), whose children are found by parent and value; hash sets of
keys, which threads may fill together; and the set of one group of rows.

**Hash tries.** The children of a node are a list in an array that all nodes of a level share:
`spans` has the start and the length of each node's list. The capacity of a list is a power of two.
A full list moves to a place of twice the capacity, and its old place is reused for another list.
`keys` is a hash table of (parent, value) pairs, each plus 1; 0 is an empty slot. `ids` has the
child of each pair.

`counts` has the number of children, how much of the array is used, and for each capacity the first
free place plus 1; a free place holds the next one. Two entries are for functions that add: how many
of the rows were added before, and the value at which the index of a dense root starts.

Functions that add return the number of rows that they have added: all, or fewer if an array is
full.

**Hash sets.** Keys are from 0 to 2^63 - 2. A slot holds a key plus 1, or 0 if it is empty. A key
goes to the first free slot from its own on, which is given by the top bits of a product, so that
all bits of the key matter. Keys are never removed. The caller ensures that slots stay free. Threads
add a key by one compare-and-swap.

The set of one group of rows stays in the cache, and is emptied after the group. It is a bitmap of
all possible keys, `words`, with a bit in `filled` for each word that is not zero: so few keys among
many are found, in order, without reading all words. Or it is a hash set, `slots`, of which a group
uses as many as it needs; `taken` lists its keys.
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, compare_swap, load, put
from gdatalog.codegen.helpers.bits import trailing_zeros
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part

CHILDREN, TAKEN, FREE, ADDED, LOW = 0, 1, 2, 34, 35  # the entries of `counts`

GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


@inlined
def slot_of_pair(keys: Array, pair: int) -> Scalar:
    """The slot of a pair in the table, or the empty slot where it belongs."""
    mask = len(keys) - 1
    place = np.int64((np.uint64(pair) * GOLDEN) >> np.uint64(32)) & mask
    found = at(keys, place)
    while found != 0 and found != pair + 1:
        place = (place + 1) & mask
        found = at(keys, place)
    return place


@inlined
def pair_of(node: int, value: int) -> int:
    return (node << 32) | (value & 0xFFFF_FFFF)


@inlined
def find_child(keys: Array, ids: Array, node: int, value: Scalar) -> int:
    """The child of a node with this value; -1 if there is none."""
    if value < _INT32_MIN or value > _INT32_MAX:
        return -1
    place = slot_of_pair(keys, pair_of(node, value))
    return int(at(ids, place)) if at(keys, place) != 0 else -1


@inlined
def has_child(keys: Array, node: int, value: Scalar) -> int:
    """0 if a node of the last level has a value, else -1."""
    if value < _INT32_MIN or value > _INT32_MAX:
        return -1
    return 0 if at(keys, slot_of_pair(keys, pair_of(node, value))) != 0 else -1


@part
def list_moved(spans: Array, node: int, values: Array, below: Array, counts: Array) -> Scalar:
    """Moves a full list to a place of twice the capacity; returns where it starts, or -1 if there
    is no room. `below` has the children at the same places, unless it is the last level."""
    count = at(spans, 2 * node + 1)
    room, length = 1, 0  # of the new place: its capacity, and the logarithm
    while room <= count:
        room <<= 1
        length += 1
    start = at(counts, FREE + length) - 1
    if start >= 0:
        put(counts, FREE + length, at(values, start))
    else:
        start = at(counts, TAKEN)
        if start + room > len(values):
            return -1
        put(counts, TAKEN, start + room)
    if count > 0:
        old = at(spans, 2 * node)
        for i in range(count):
            put(values, start + i, at(values, old + i))
        if len(below) > 0:
            for i in range(count):
                put(below, start + i, at(below, old + i))
        put(values, old, at(counts, FREE + length - 1))
        put(counts, FREE + length - 1, old + 1)
    put(spans, 2 * node, start)
    return start


@inlined
def add_to_list(
    spans: Array, node: int, values: Array, below: Array, counts: Array, value: int, child: int
) -> bool:
    """Adds a value to a node's list; False if there is no room."""
    start, count = at(spans, 2 * node), at(spans, 2 * node + 1)
    if count & (count - 1) == 0:
        start = list_moved(spans, node, values, below, counts)
        if start < 0:
            return False
    put(values, start + count, value)
    if len(below) > 0:
        put(below, start + count, child)
    put(spans, 2 * node + 1, count + 1)
    return True


@part
def add_indexed(
    column: Array,
    index: Array,
    spans: Array,
    values: Array,
    below: Array,
    counts: Array,
    out: Array,
) -> int:
    """Adds a column's values to the root, whose `index` has the children by value. Stores the child
    of each row in `out`."""
    low = at(counts, LOW)
    for i in range(at(counts, ADDED), len(column)):
        value = at(column, i)
        place = value - low
        if place < 0 or place >= len(index):
            return i
        child = at(index, place)
        if child < 0:
            child = at(counts, CHILDREN)
            if not add_to_list(spans, 0, values, below, counts, value, child):
                return i
            put(index, place, child)
            put(counts, CHILDREN, child + 1)
        put(out, i, child)
    return len(column)


@part
def add_children(
    column: Array,
    parents: Array,
    keys: Array,
    ids: Array,
    spans: Array,
    values: Array,
    below: Array,
    counts: Array,
    out: Array,
) -> int:
    """Adds a column's values to the nodes of `parents`, each once. Stores the child of each row in
    `out`, except on the last level, which has no `ids`."""
    for i in range(at(counts, ADDED), len(column)):
        node, value = at(parents, i), at(column, i)
        pair = pair_of(node, value)
        place = slot_of_pair(keys, pair)
        if at(keys, place) == 0:
            child = at(counts, CHILDREN)
            if 2 * child >= len(keys):
                return i
            if not add_to_list(spans, node, values, below, counts, value, child):
                return i
            put(keys, place, pair + 1)
            put(counts, CHILDREN, child + 1)
            if len(ids) > 0:
                put(ids, place, child)
        if len(ids) > 0:
            put(out, i, at(ids, place))
    return len(column)


@part
def add_different(
    column: Array,
    parents: Array,
    spans: Array,
    values: Array,
    below: Array,
    counts: Array,
) -> int:
    """Adds a column's values to nodes of the last level, without looking them up: the rows must be
    distinct."""
    for i in range(at(counts, ADDED), len(column)):
        if not add_to_list(spans, at(parents, i), values, below, counts, at(column, i), 0):
            return i
    return len(column)


@part
def fill_table(spans: Array, nodes: int, values: Array, keys: Array) -> None:
    """Builds the table of the last level from all its lists."""
    for node in range(nodes):
        start = at(spans, 2 * node)
        for i in range(start, start + at(spans, 2 * node + 1)):
            pair = pair_of(node, at(values, i))
            put(keys, slot_of_pair(keys, pair), pair + 1)


@part
def move_pairs(old: Array, old_ids: Array, keys: Array, ids: Array) -> None:
    """Copies the pairs of a smaller table."""
    for place in range(len(old)):
        found = at(old, place)
        if found != 0:
            into = slot_of_pair(keys, found - 1)
            put(keys, into, found)
            if len(old_ids) > 0:
                put(ids, into, at(old_ids, place))


# Sets of keys.


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


# ---------------------------------------------------------------------------------------- one group


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
