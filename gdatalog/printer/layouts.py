"""What a text depends on of the indexes that it is printed for.

Lengths are in it by their order of magnitude only: they are arguments of the compiled code, and an
index that grows in each round has the same text for most of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie, TrieLevel

MOST_ROWS, MOST_MARKS = 1 << 28, 1 << 27  # bytes of a worker's scratch
MOST_TILE_ROWS = 1 << 20  # bytes of a tile's, of which there are thousands


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """`size`, `longest`: how many values there are, and in the longest list, rounded up to a power
    of four. `dense`: whether a root's values have an index by value.

    `marks_fit`: whether a byte for each value between the least and the greatest has room;
    `rows_fit`, `tile_rows_fit`: a bit for each pair of the longest list's values.
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
    """`number`: which of a plan's tries it is; two atoms may read one. `labels`: their type, where
    ranks stand for values. `loose`: made as `cpu_ops/loose.py` makes them."""

    number: int
    levels: tuple[LevelLayout, ...]
    labels: str | None
    loose: bool


def layouts_of(tries: Sequence[Trie]) -> tuple[TrieLayout, ...]:
    first = {id(trie): at for at, trie in reversed(list(enumerate(tries)))}
    return tuple(_layout(trie, first[id(trie)]) for trie in tries)


def _layout(trie: Trie, number: int) -> TrieLayout:
    loose = len(trie.levels) > 2 and not len(trie.levels[2].offsets)
    levels = tuple(_level(level, not depth) for depth, level in enumerate(trie.levels))
    labels = None if trie.labels is None else trie.labels.dtype.name
    return TrieLayout(number, levels, labels, loose)


def _level(level: TrieLevel, root: bool) -> LevelLayout:
    low, high = level.span
    bits = level.longest**2 // 8
    return LevelLayout(
        level.values.dtype,
        level.offsets.dtype,
        rounded(len(level)),
        rounded(level.longest),
        root and level.is_dense,
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
