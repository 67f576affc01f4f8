"""Builds tries from rows by the cheapest sort.

The last level is built first: the offsets of a level are the starts of its parents' lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable, current_watch
from gdatalog.storage.rows import (
    Columns,
    RowPacking,
    firsts,
    order_rows,
    row_firsts,
    sorted_set,
    spans_of,
)
from gdatalog.storage.spill import is_spilled
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, sort_values, spread
from gdatalog.storage.trie import Trie, TrieLevel

# Columns whose range of values is at most so many times their length are counted, not sorted, but
# only while the counts fit in the cache.
DENSE, COUNTED = 2, 1 << 18
# Rows that one thread sorts at once; bits of a packed row.
SORTED_BY_ONE_BELOW, PACKED = 1 << 16, 62


def build_trie(columns: Sequence[Array], depth: int, total: int, weighted: bool) -> Trie:
    """The trie of the first `depth` of lexicographically sorted columns of `total` rows."""
    spill = current_watch().account.spill
    if spill is not None and depth and is_spilled(columns[0]):
        from gdatalog.storage.spilled_tries import spilled_trie

        return spilled_trie(tuple(columns), depth, weighted, spill)
    if total < cancellation.LATE:
        return _build_trie(columns, depth, total, weighted)
    return cancellable(total, lambda: _build_trie(columns, depth, total, weighted))


def _build_trie(columns: Sequence[Array], depth: int, total: int, weighted: bool) -> Trie:
    if depth == 0:
        return Trie((), total, None)
    left: Columns = tuple(columns[:depth])
    marks = row_firsts(left)
    weights = None
    if marks.all():
        weights = np.ones(total, dtype=np.int64) if weighted else None
    else:
        starts = np.flatnonzero(marks)
        left = tuple(column[starts] for column in left)
        weights = np.diff(np.append(starts, total)) if weighted else None
        total = total if weighted else len(starts)
    levels: list[TrieLevel] = []
    while len(left) > 1:
        above, values = left[:-1], left[-1]
        starts = np.flatnonzero(row_firsts(above))
        levels.append(TrieLevel(values, np.append(starts, len(values))))
        left = tuple(column[starts] for column in above)
    levels.append(_root(left[0]))
    return Trie(levels[::-1], total, weights)


def trie_of_counts(counts: Array, weighted: bool) -> Trie:
    """The trie of the ranks that have rows, from the number of rows of each."""
    ranks = np.flatnonzero(counts)
    level = TrieLevel(ranks.astype(np.int32), np.array([0, len(ranks)], dtype=np.int64))
    if weighted:
        return Trie((level,), int(counts.sum()), counts[ranks])
    return Trie((level,), len(ranks), None)


def trie_of_rows(columns: Sequence[Array], length: int, weighted: bool) -> Trie:
    """The trie of rows in any order. If it is not weighted, duplicates count as one row."""
    if 1 < length < SORTED_BY_ONE_BELOW and columns and not weighted:
        found = _of_few(columns)
        if found is not None:
            return found
    if length < cancellation.LATE:
        return _trie_of_rows(columns, length, weighted)
    return cancellable(length, lambda: _trie_of_rows(columns, length, weighted))


def _of_few(columns: Sequence[Array]) -> Trie | None:
    """The same for few rows, in one thread; None if they cannot be packed."""
    lows = tuple(int(column.min()) for column in columns)
    bits = tuple(
        (int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)
    )
    if sum(bits) > PACKED:
        return None
    packed = columns[0].astype(np.int64)
    packed -= lows[0]
    for column, low, width in zip(columns[1:], lows[1:], bits[1:], strict=True):
        packed <<= width
        packed += column
        packed -= low
    packed.sort()
    new = packed[1:] != packed[:-1]
    if not new.all():
        packed = packed[np.append(True, new)]
    return _of_packed(packed, RowPacking(lows, bits), columns, len(packed), None)


def _trie_of_rows(columns: Sequence[Array], length: int, weighted: bool) -> Trie:
    if length < 2 or not columns:
        return build_trie(columns, len(columns), length, weighted)
    if len(columns) == 1:
        return _of_column(columns[0], weighted)
    packing = RowPacking.of(columns)
    if packing is None:
        order = order_rows(columns)
        ordered = spread(lambda column: column[order], columns, length >= LONG)
        return build_trie(ordered, len(columns), length, weighted)
    packed = packing.pack(columns)
    if weighted:
        packed, weights = _runs(packed)
        return _of_packed(packed, packing, columns, length, weights)
    packed = sorted_set(packed)
    return _of_packed(packed, packing, columns, len(packed), None)


def _of_column(column: Array, weighted: bool) -> Trie:
    if not weighted:
        values = sorted_set(column)
        return Trie([_root(values)], len(values), None)
    ((low, high),) = spans_of([(column,)])
    if high - low < min(DENSE * len(column), COUNTED):
        counts = np.bincount(column - low if low else column)
        values = np.flatnonzero(counts)
        weights = counts if len(values) == len(counts) else counts[values]
        values = (values + low).astype(column.dtype)
    else:
        values, weights = _runs(column)
    return Trie([_root(values)], len(column), weights)


def _runs(values: Array) -> tuple[Array, Array]:
    """The distinct values, ascending, and how often each occurs."""
    ordered = sort_values(values)
    starts = np.flatnonzero(firsts(ordered))
    if len(starts) == len(ordered):
        return ordered, np.ones(len(ordered), dtype=np.int64)
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def _of_packed(
    packed: Array, packing: RowPacking, like: Sequence[Array], total: int, weights: Array | None
) -> Trie:
    """The trie of packed rows, sorted and distinct, with the dtypes of `like`."""
    levels: list[TrieLevel] = []
    places = list(zip(packing.least, packing.bits, [column.dtype for column in like], strict=True))
    for low, bits, dtype in reversed(places[1:]):
        if len(packed) < LONG:
            values = packed & ((1 << bits) - 1)
            values += low
            values = values.astype(dtype, copy=False)
        else:
            (values,) = RowPacking((low,), (bits,)).unpack(packed, [dtype])
        above = packed >> bits
        starts = np.flatnonzero(firsts(above))
        levels.append(TrieLevel(values, np.append(starts, len(packed))))
        packed = above[starts]
    low, _, dtype = places[0]
    levels.append(_root((packed + low).astype(dtype)))
    return Trie(levels[::-1], total, weights)


def _root(values: Array) -> TrieLevel:
    return TrieLevel(values, np.array([0, len(values)]))
