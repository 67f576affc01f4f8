"""Slices of tries, and whole tries that are read in place from one stretch of bytes.

A slice of a trie is a stretch of each of its arrays, with offsets that begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

Numbers = npt.NDArray[np.int64]

INDEX = 4  # bytes of a dense index for each value between the least and the greatest
SHORT = 1 << 31  # entries of a level, below which offsets take 32 bits


class ArraySlice(NamedTuple):
    """An array of a slice: a stretch of one of the trie's, less `base`, as this dtype."""

    source: Array
    dtype: np.dtype[Any]
    base: int = 0

    @property
    def nbytes(self) -> int:
        return len(self.source) * self.dtype.itemsize

    def fill(self, out: Array, start: int, end: int) -> None:
        """Writes the elements from `start` to `end` into an array of the dtype."""
        source = self.source[start:end]
        if self.base or source.dtype != self.dtype:
            np.subtract(source, source.dtype.type(self.base), out=out, casting="unsafe")
        else:
            np.copyto(out, source)


def sizes_of(trie: Trie) -> tuple[Numbers, Numbers]:
    """For each place of the root's list, and the end: the bytes of the arrays of all rows before
    it, and what these take on a device with what is made of them there."""
    root = trie.levels[0]
    places: Numbers = np.arange(len(root) + 1, dtype=np.int64)
    moved = places * root.values.itemsize
    index = np.zeros_like(moved)
    if root.is_dense and len(root):
        keys = np.append(root.values.astype(np.int64), int(root.values[-1]) + 1)
        index = INDEX * (keys - keys[0])
    for level in trie.levels[1:]:
        moved = moved + places * offsets_of(level).itemsize
        places = level.offsets[places].astype(np.int64, copy=False)
        moved = moved + places * level.values.itemsize
    held = moved + index
    if trie.weights is not None:
        moved = moved + places * trie.weights.itemsize
        held = held + 2 * places * trie.weights.itemsize  # and their running sums
    return moved, held


def pieces_of(trie: Trie, low: int, high: int) -> list[ArraySlice]:
    """The arrays of a slice: the root's values, offsets and values of each level, weights."""
    values = trie.levels[0].values
    found = [ArraySlice(values[low:high], values.dtype)]
    for level in trie.levels[1:]:
        first, end = int(level.offsets[low]), int(level.offsets[high])
        found.append(ArraySlice(level.offsets[low : high + 1], offsets_of(level), first))
        found.append(ArraySlice(level.values[first:end], level.values.dtype))
        low, high = first, end
    if trie.weights is not None:
        found.append(ArraySlice(trie.weights[low:high], trie.weights.dtype))
    return found


def slice_of(trie: Trie, low: int, high: int, arrays: Sequence[Any], labels: Any, xp: Any) -> Trie:
    """A slice as a trie, of its arrays where they lie."""
    whole = trie.levels[0]
    root = TrieLevel(arrays[0], xp.asarray(np.array([0, high - low], dtype=np.int32)), xp)
    if high > low:
        root.known_span(int(whole.values[low]), int(whole.values[high - 1]))
    root.indexed(whole.is_dense)
    levels = [root]
    for at in range(1, len(trie.levels)):
        levels.append(TrieLevel(arrays[2 * at], arrays[2 * at - 1], xp))
    weights = None if trie.weights is None else arrays[-1]
    last = levels[-1]
    found = Trie(levels, lambda: len(last) if weights is None else int(weights.sum()), weights)
    found.labels = labels
    found.whole = trie
    return found


def offsets_of(level: TrieLevel) -> np.dtype[Any]:
    """The dtype of a level's offsets on a device."""
    return np.dtype(np.int32 if len(level) < SHORT else np.int64)


# Whole tries read in place: the arrays that make one up, in one stretch of bytes after another.
#
# Kernels read the arrays of such a trie where they lie, be that in the host's memory; nothing is
# made of them on the device.

ALIGNED = 256  # bytes: where arrays begin, so that whole words of one are no other's

# An array of a trie: ("values", 1) are the values of its second level.
Name = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class TrieArrays:
    """The arrays of a trie, each with the byte at which it begins; how many bytes they take."""

    pieces: Mapping[Name, ArraySlice]
    starts: Mapping[Name, int]
    size: int


def layout_of(trie: Trie) -> TrieArrays:
    """The small ones first, and the values of deeper levels behind them."""
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
        found["sums", 0] = _whole(trie.weight_sums())
    starts: dict[Name, int] = {}
    size = 0
    for name, piece in found.items():
        starts[name] = size
        size += -(-piece.nbytes // ALIGNED) * ALIGNED
    return TrieArrays(found, starts, size)


def _whole(array: Array) -> ArraySlice:
    return ArraySlice(array, array.dtype)


def trie_in_place(whole: Trie, arrays: Mapping[Name, Any], xp: Any) -> Trie:
    """The trie of these arrays, which are those of a trie of the host."""
    levels = []
    for depth, own in enumerate(whole.levels):
        if depth:
            offsets = arrays["offsets", depth]
        else:
            offsets = xp.asarray(np.array([0, len(own)], dtype=np.int32))
        level = TrieLevel(arrays["values", depth], offsets, xp)
        level.known_span(*own.span)
        level.known_longest(own.longest)
        levels.append(level)
    dense = whole.levels[0].dense_index()
    least = 0 if dense is None else dense[0]
    index = xp.empty(0, dtype=xp.int32) if dense is None else arrays["index", 0]
    levels[0].known_index(least, index)
    found = Trie(levels, whole.total, arrays.get(("weights", 0)), arrays.get(("labels", 0)))
    if whole.weights is not None:
        found.known_sums(arrays["sums", 0])
    found.whole = whole
    return found
