"""The properties of indexes that printed text depends on.

Text depends on lengths only by their order of magnitude; the lengths are arguments of the compiled
code. For an index that grows each round, sizes are unknown, so that the text serves all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from gdatalog.records import dataclass, replace
from gdatalog.storage.loop_tables import HashLevel, HashTrie, Tallied
from gdatalog.storage.trie import Trie, TrieLevel

MOST_ROWS, MOST_MARKS = 1 << 28, 1 << 27  # most bytes of a worker's scratch
UNKNOWN = 1 << 16  # the size of an index that changes each round
FEW = 1 << 11  # values of a list whose rows of bits always fit
MOST_TILE_ROWS = 1 << 22  # most bytes of a tile's scratch; there are thousands of tiles


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """`size`, `longest`: the number of values, in all and in the longest list, rounded up to a
    power of four. `dense`: whether a root's values have an index by value.

    `marks_fit`: whether scratch has room for a byte for each value between the least and the
    greatest; `rows_fit`, `tile_rows_fit`: for a bit for each pair of the longest list's values.
    """

    values: np.dtype[np.generic]
    offsets: np.dtype[np.generic]
    size: int
    longest: int
    dense: bool
    marks_fit: bool
    rows_fit: bool
    tile_rows_fit: bool


@dataclass(frozen=True, slots=True)
class TrieLayout:
    """`number`: the trie's number in the plan; atoms may share a trie. `labels`: the dtype of
    labels, if ranks replace values. `loose`: made as `cpu_ops/best_values.py` makes them. `hashed`:
    a hash trie, whose lists are unsorted. `tallied`: a table of counts that loops fill, unsorted.
    `weight`: a bound of the sum of the weights, rounded likewise.

    Equal layouts are one object, never freed: there are few, and `id` is their key.
    """

    number: int
    levels: tuple[LevelLayout, ...]
    labels: str | None
    loose: bool
    hashed: bool = False
    tallied: bool = False
    weight: float = inf


_layouts: dict[TrieLayout, TrieLayout] = {}


def layouts_of(
    tries: Sequence[Trie | HashTrie | Tallied], growing: bool = False
) -> tuple[TrieLayout, ...]:
    """Layouts of a plan's tries; `growing`: the tries change each round."""
    first: dict[int, int] = {}
    numbered = [(trie, first.setdefault(id(trie), at)) for at, trie in enumerate(tries)]
    return tuple(_layout_of(trie, number, growing) for trie, number in numbered)


def _layout_of(trie: Trie | HashTrie | Tallied, number: int, growing: bool) -> TrieLayout:
    if isinstance(trie, Tallied):
        width = np.dtype(np.int64)
        few = LevelLayout(width, width, 1, 1, False, False, False, False)
        made = TrieLayout(number, (few,) * trie.columns, None, False, True, True)
        return _layouts.setdefault(made, made)
    return _layout(trie, number, growing) if isinstance(trie, Trie) else _hashed(trie, number)


def _layout(trie: Trie, number: int, grows: bool) -> TrieLayout:
    if trie.whole is not None:
        return _of_slices(trie, trie.whole, number)
    found: TrieLayout | None = trie.layouts.get((number, grows))
    if found is None:
        loose = len(trie.levels) > 2 and not len(trie.levels[2].offsets)
        levels = tuple(_level(level, not depth, grows) for depth, level in enumerate(trie.levels))
        labels = None if trie.labels is None else trie.labels.dtype.name
        weight = inf if grows or trie.weights is None else rounded(trie.total)
        found = TrieLayout(number, levels, labels, loose, weight=weight)
        found = trie.layouts[number, grows] = _layouts.setdefault(found, found)
    return found


def _of_slices(trie: Trie, whole: Trie, number: int) -> TrieLayout:
    """A layout with the sizes of the whole trie: all slices share one text."""
    found: TrieLayout | None = whole.layouts.get((number, "sliced"))
    if found is None:
        made = _layout(whole, number, False)
        levels = tuple(
            replace(layout, offsets=level.offsets.dtype)
            for layout, level in zip(made.levels, trie.levels, strict=True)
        )
        made = replace(made, levels=levels)
        found = whole.layouts[number, "sliced"] = _layouts.setdefault(made, made)
    return found


def _hashed(trie: HashTrie, number: int) -> TrieLayout:
    key = (number, *(level.dense for level in trie.levels[:1]))
    found: TrieLayout | None = trie.layouts.get(key)
    if found is None:
        made = TrieLayout(number, tuple(map(_hash_level, trie.levels)), None, False, True)
        found = trie.layouts[key] = _layouts.setdefault(made, made)
    return found


def _hash_level(level: HashLevel) -> LevelLayout:
    width = np.dtype(np.int32)
    return LevelLayout(width, width, UNKNOWN, UNKNOWN, level.dense, False, False, False)


def _level(level: TrieLevel, root: bool, grows: bool) -> LevelLayout:
    low, high = level.span
    # Small growing levels need no exact maximum.
    longest = len(level) if grows and len(level) < FEW else level.longest
    bits = longest**2 // 8
    return LevelLayout(
        level.values.dtype,
        level.offsets.dtype,
        UNKNOWN if grows else rounded(len(level)),
        UNKNOWN if grows else rounded(longest),
        root and not grows and level.is_dense,
        high - low < MOST_MARKS,
        bits <= MOST_ROWS,
        bits <= MOST_TILE_ROWS,
    )


def rounded(number: int) -> int:
    """
    >>> [rounded(number) for number in (0, 1, 2, 4, 5, 16, 17)]
    [0, 1, 4, 4, 16, 16, 64]
    """
    bits = max(0, number - 1).bit_length()
    return 1 << bits + (bits & 1) if number else 0
