"""Hash tries (`storage/loop_tables.py`), whose children are found by parent and value.

The children of a node are a list in an array that all nodes of a level share: `spans` has the start
and the length of each node's list. The capacity of a list is a power of two. A full list moves to a
place of twice the capacity, and its old place is reused for another list. `keys` is a hash table of
(parent, value) pairs, each plus 1; 0 is an empty slot. `ids` has the child of each pair.

`counts` has the number of children, how much of the array is used, and for each capacity the first
free place plus 1; a free place holds the next one. Two entries are for functions that add: how many
of the rows were added before, and the value at which the index of a dense root starts.

Functions that add return the number of rows that they have added: all, or fewer if an array is
full.

"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
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
