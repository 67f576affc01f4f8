"""Slices of tries.

A slice has a range of each of a trie's arrays, with offsets that start at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel

Numbers = npt.NDArray[np.int64]

INDEX = 4  # bytes of a dense index for each possible value
SHORT = 1 << 31  # entries of a level: with fewer, offsets take 32 bits


class ArraySlice(NamedTuple):
    """An array of a slice: a range of one of the trie's, minus `base`, in this dtype."""

    source: Array
    dtype: np.dtype[np.generic]
    base: int = 0

    @property
    def nbytes(self) -> int:
        return len(self.source) * self.dtype.itemsize

    def fill(self, out: Array, start: int, end: int) -> None:
        """Writes the elements from `start` to `end` to an array of this dtype."""
        source = self.source[start:end]
        if self.base or source.dtype != self.dtype:
            np.subtract(source, source.dtype.type(self.base), out=out, casting="unsafe")
        else:
            np.copyto(out, source)


def sizes_of(trie: Trie) -> tuple[Numbers, Numbers]:
    """For each position in the root's list, and the end: the bytes of the arrays of all rows before
    it, and their bytes on a device with its indexes."""
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
    """The arrays of a slice: the root's values, the offsets and values of each level, the
    weights."""
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


def slice_of(
    trie: Trie, low: int, high: int, arrays: Sequence[Array], labels: Array | None, xp: Any
) -> Trie:
    """A slice as a trie, from its arrays on their device."""
    whole = trie.levels[0]
    root = TrieLevel(arrays[0], xp.asarray(np.array([0, high - low], dtype=np.int32)), xp)
    if high > low:
        root.knows((int(whole.values[low]), int(whole.values[high - 1])))
    root.knows(index=root.indexed(whole.is_dense))
    levels = [root]
    for at in range(1, len(trie.levels)):
        levels.append(TrieLevel(arrays[2 * at], arrays[2 * at - 1], xp))
    weights = None if trie.weights is None else arrays[-1]
    last = levels[-1]
    found = Trie(levels, lambda: len(last) if weights is None else int(weights.sum()), weights)
    found.labels = labels
    found.whole = trie
    return found


def offsets_of(level: TrieLevel) -> np.dtype[np.generic]:
    """The dtype of a level's offsets on a device."""
    return np.dtype(np.int32 if len(level) < SHORT else np.int64)
