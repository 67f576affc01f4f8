"""Whole tries that are read in place: their arrays, one after the other in a range of bytes.

Kernels read these arrays where they are, even in host memory; the device derives nothing from
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel
from gdatalog.storage.trie_slices import ArraySlice, offsets_of

ALIGNED = 256  # bytes: the alignment of arrays, so that no two share a word

# An array of a trie: ("values", 1) are the values of its second level.
Name = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class TrieArrays:
    """The arrays of a trie, the byte at which each begins, and their total bytes."""

    pieces: Mapping[Name, ArraySlice]
    starts: Mapping[Name, int]
    size: int


def layout_of(trie: Trie) -> TrieArrays:
    """Lays out the arrays of a trie: small ones first, then the values of deeper levels."""
    root = trie.levels[0]
    found: dict[Name, ArraySlice] = {("values", 0): _whole(root.values)}
    dense = root.dense_index()
    if dense is not None:
        found["index", 0] = _whole(dense[1])
    for depth, level in enumerate(trie.levels[1:], 1):
        found["offsets", depth] = ArraySlice(level.offsets, offsets_of(level))
    if trie.labels is not None:
        found["labels", 0] = _whole(trie.labels)
    for depth, level in enumerate(trie.levels[1:], 1):
        found["values", depth] = _whole(level.values)
    if trie.weights is not None:
        found["weights", 0] = _whole(trie.weights)
        found["sums", 0] = _whole(trie.weight_sums)
    starts: dict[Name, int] = {}
    size = 0
    for name, piece in found.items():
        starts[name] = size
        size += -(-piece.nbytes // ALIGNED) * ALIGNED
    return TrieArrays(found, starts, size)


def _whole(array: Array) -> ArraySlice:
    return ArraySlice(array, array.dtype)


def trie_in_place(whole: Trie, arrays: Mapping[Name, Array], xp: Any) -> Trie:
    """A trie from these arrays, which copy those of a host trie."""
    levels = []
    for depth, own in enumerate(whole.levels):
        if depth:
            offsets = arrays["offsets", depth]
        else:
            offsets = xp.asarray(np.array([0, len(own)], dtype=np.int32))
        level = TrieLevel(arrays["values", depth], offsets, xp)
        level.knows(own.span)
        level.longest = own.longest
        levels.append(level)
    dense = whole.levels[0].dense_index()
    least = 0 if dense is None else dense[0]
    index = xp.empty(0, dtype=xp.int32) if dense is None else arrays["index", 0]
    levels[0].knows(index=(least, index))
    found = Trie(levels, whole.total, arrays.get(("weights", 0)), arrays.get(("labels", 0)))
    if whole.weights is not None:
        found.weight_sums = arrays["sums", 0]
    found.whole = whole
    return found
