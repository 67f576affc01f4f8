"""The properties of tries that the text of a printed function depends on."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from gdatalog.records import dataclass, replace
from gdatalog.storage.count_tables import Tallied
from gdatalog.storage.loop_tables import HashLevel, HashTrie
from gdatalog.storage.trie import Trie, TrieLevel

MOST_ROWS, MOST_MARKS = 1 << 28, 1 << 27  # most bytes of a worker's scratch
UNKNOWN = 1 << 16  # the size of an index that changes each round
COUNTED_SHORT = (1 << 16) - 1  # what 16 bits can count
MOST_TILE_ROWS = 1 << 22  # most bytes of a tile's scratch; there are thousands of tiles
ROOM_FOR_BITS_BELOW = 1 << 11  # a list with fewer values always has room for its rows of bits


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """`size`, `longest`: the number of values of the level and of its longest list, rounded up to a
    power of four, or to what 16 bits can count. `earlier`: the same of the longest list whose value
    above is not the last rank. `dense`: whether a root has an index by value.

    `marks_fit`: whether scratch has room for one byte for each value between the least and the
    greatest. `rows_fit`, `tile_rows_fit`: whether a worker's or a tile's scratch has room for one
    bit for each pair of values of the longest list.
    """

    values: np.dtype[np.generic]
    offsets: np.dtype[np.generic]
    size: int
    longest: int
    earlier: int
    dense: bool
    marks_fit: bool
    rows_fit: bool
    tile_rows_fit: bool


@dataclass(frozen=True, slots=True)
class TrieLayout:
    """`number`: the trie's number in the plan; atoms may share a trie. `labels`: the dtype of
    labels, if ranks replace values. `loose`: the values of the third and later columns stand beside
    those of the second, without offsets (`cpu_ops/loose_tries.py`). `hashed`: a hash trie, whose
    lists are unsorted. `tallied`: an unsorted table of counts that loops fill. `weight`: a bound of
    the sum of the weights, rounded up to a power of four.

    Equal layouts are the same object, so that callers can use its `id` as a key. Layouts are never
    freed; there are few.
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
    """Layouts of a plan's tries. `growing`: the tries grow each round."""
    first: dict[int, int] = {}
    numbered = [(trie, first.setdefault(id(trie), at)) for at, trie in enumerate(tries)]
    return tuple(_layout_of(trie, number, growing) for trie, number in numbered)


def _layout_of(trie: Trie | HashTrie | Tallied, number: int, grows: bool) -> TrieLayout:
    width = np.dtype(np.int64)
    if isinstance(trie, Tallied):
        few = LevelLayout(width, width, 1, 1, 1, False, False, False, False)
        made = TrieLayout(number, (few,) * trie.columns, None, False, True, True)
        return _layouts.setdefault(made, made)
    keeper, key = trie, tuple[object, ...]()
    if isinstance(trie, HashTrie):
        key = (number, *(level.dense for level in trie.levels[:1]))
    elif trie.whole is not None:
        keeper, key = trie.whole, (number, "sliced")
    else:
        key = (number, grows)
    found: TrieLayout | None = keeper.layouts.get(key)
    if found is None:
        made = _made(trie, number, grows)
        found = keeper.layouts[key] = _layouts.setdefault(made, made)
    return found


def _made(trie: Trie | HashTrie, number: int, grows: bool) -> TrieLayout:
    if isinstance(trie, HashTrie):
        return TrieLayout(number, tuple(map(_hash_level, trie.levels)), None, False, True)
    if trie.whole is not None:  # all slices share one text, which depends on the whole trie's sizes
        made = _layout_of(trie.whole, number, False)
        both = zip(made.levels, trie.levels, strict=True)
        levels = tuple(replace(layout, offsets=level.offsets.dtype) for layout, level in both)
        return replace(made, levels=levels)
    loose = len(trie.levels) > 2 and not len(trie.levels[2].offsets)
    levels = tuple(_level(level, not depth, grows) for depth, level in enumerate(trie.levels))
    labels = None if trie.labels is None else trie.labels.dtype.name
    if trie.labels is not None and len(levels) > 1 and levels[1].longest > COUNTED_SHORT:
        first, second = trie.levels[:2]
        if not grows and first.span[1] == len(trie.labels) - 1:
            earlier = bound(second.longest_of(len(second.offsets) - 2))
            levels = (levels[0], replace(levels[1], earlier=earlier), *levels[2:])
    weight = inf if grows or trie.weights is None else rounded(trie.total)
    return TrieLayout(number, levels, labels, loose, weight=weight)


def _hash_level(level: HashLevel) -> LevelLayout:
    width = np.dtype(np.int32)
    return LevelLayout(width, width, *(UNKNOWN,) * 3, level.dense, False, False, False)


def _level(level: TrieLevel, root: bool, grows: bool) -> LevelLayout:
    low, high = level.span
    # A small level that grows needs no exact maximum.
    longest = len(level) if grows and len(level) < ROOM_FOR_BITS_BELOW else level.longest
    bits = longest**2 // 8
    return LevelLayout(
        level.values.dtype,
        level.offsets.dtype,
        UNKNOWN if grows else rounded(len(level)),
        *(UNKNOWN if grows else bound(longest),) * 2,
        root and not grows and level.is_dense,
        high - low < MOST_MARKS,
        bits <= MOST_ROWS,
        bits <= MOST_TILE_ROWS,
    )


def bound(longest: int) -> int:
    """
    >>> [bound(longest) for longest in (5, 65535, 65536, 65537)]
    [16, 65535, 65536, 262144]
    """
    found = rounded(longest)
    return min(found, COUNTED_SHORT) if longest <= COUNTED_SHORT else found


def rounded(number: int) -> int:
    """
    >>> [rounded(number) for number in (0, 1, 2, 4, 5, 16, 17)]
    [0, 1, 4, 4, 16, 16, 64]
    """
    bits = max(0, number - 1).bit_length()
    return 1 << bits + (bits & 1) if number else 0
