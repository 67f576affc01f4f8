"""Local recoding: the values of a list become positions, and the lists below them rows of bits.

Row j belongs to the list's j-th value. It has one bit for each value of the list. Intersections
within the list are then an `and` of a few words, and counts a few instructions (`bit_rows.py`).
"""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.bits import LOW, NONE, ONE, SIX
from gdatalog.codegen.helpers.lists import GALLOP_MARKED, find, find_indexed, lower, seek, upper
from gdatalog.codegen.loop_language import Array, part


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
        word = NONE
        if stop - c > GALLOP_MARKED * n:
            for k in range(n):
                value = np.int64(at(list_values, lo + k))
                c = seek(child_values, c, stop, value)
                if c < stop and at(child_values, c) == value:
                    word |= ONE << np.uint64(k & 63)
                if k & 63 == 63 or k == n - 1:
                    put(rows, row + (k >> 6), word)
                    word = NONE
            continue
        # Reads all children, a word at a time, without branching on whether they are in the list.
        for w in range(words - 1):
            bound = at(list_values, lo + 64 * w + 63)
            word = NONE
            while c < stop and at(child_values, c) <= bound:
                noted = np.uint64(at(places, at(child_values, c) - base))
                word |= (noted >> SIX) << (noted & LOW)
                c += 1
            put(rows, row + w, word)
        word = NONE
        while c < stop:
            noted = np.uint64(at(places, at(child_values, c) - base))
            word |= (noted >> SIX) << (noted & LOW)
            c += 1
        put(rows, row + words - 1, word)
