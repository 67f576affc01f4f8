"""Builds tries from rows by the cheapest sort, and those of graphs by the ranks of vertices.

The last level is made first. Where the nodes of a level begin among those of the next one are
the next level's offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog.cancellation import cancellable, current_watch
from gdatalog.storage.graph import TURNED, EdgeStatistics
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
from gdatalog.storage.trie import Trie, TrieLevel, TrieName

# A column whose values are in a range this many times as long as it is counted, not sorted: but
# only while the counts stay in a cache.
DENSE, COUNTED = 2, 1 << 18
# Rows that are sorted at once by one thread; bits of a row that is packed.
FEW, PACKED = 1 << 16, 62


def build_trie(columns: Sequence[Array], depth: int, total: int, weighted: bool) -> Trie:
    """The trie of the first `depth` of lexicographically sorted columns of `total` rows."""
    spill = current_watch().account.spill
    if spill is not None and depth and is_spilled(columns[0]):
        from gdatalog.storage.external import spilled_trie

        return spilled_trie(tuple(columns), depth, weighted, spill)
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
    """The trie of the ranks that have rows, by how many rows each has."""
    ranks = np.flatnonzero(counts)
    level = TrieLevel(ranks.astype(np.int32), np.array([0, len(ranks)], dtype=np.int64))
    if weighted:
        return Trie((level,), int(counts.sum()), counts[ranks])
    return Trie((level,), len(ranks), None)


def trie_of_rows(columns: Sequence[Array], length: int, weighted: bool) -> Trie:
    """The trie of rows in any order; if it is not weighted equal rows are the same row."""
    if 1 < length < FEW and columns and not weighted:
        found = _of_few(columns)
        if found is not None:
            return found
    return cancellable(length, lambda: _trie_of_rows(columns, length, weighted))


def _of_few(columns: Sequence[Array]) -> Trie | None:
    """The same of rows that one thread soon has sorted; None if they cannot be packed."""
    lows = [int(column.min()) for column in columns]
    bits = [
        (int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)
    ]
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
    levels: list[TrieLevel] = []
    total = len(packed)
    for column, low, width in zip(columns[:0:-1], lows[:0:-1], bits[:0:-1], strict=True):
        values = packed & ((1 << width) - 1)
        values += low
        packed >>= width
        new = np.flatnonzero(packed[1:] != packed[:-1])
        offsets = np.empty(len(new) + 2, dtype=np.int64)
        offsets[0], offsets[-1] = 0, len(packed)
        np.add(new, 1, out=offsets[1:-1])
        levels.append(TrieLevel(values.astype(column.dtype), offsets))
        packed = packed[offsets[:-1]]
    packed += lows[0]
    levels.append(_root(packed.astype(columns[0].dtype)))
    return Trie(levels[::-1], total, None)


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
    ordered = sort_values(values, int(values.min()), int(values.max()))
    starts = np.flatnonzero(firsts(ordered))
    if len(starts) == len(ordered):
        return ordered, np.ones(len(ordered), dtype=np.int64)
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def _of_packed(
    packed: Array, packing: RowPacking, like: Sequence[Array], total: int, weights: Array | None
) -> Trie:
    """The trie of packed rows, sorted and distinct, with values of the types of `like`."""
    levels: list[TrieLevel] = []
    places = list(zip(packing.least, packing.bits, [column.dtype for column in like], strict=True))
    for low, bits, dtype in reversed(places[1:]):
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


# Indexes of a graph by the ranks of its vertices: sorted, or made of those that are there.

Tests = tuple[tuple[int, str, int], ...]
UP: Tests = ((0, "<", 1),)
DOWN: Tests = ((0, ">", 1),)


def ranked_trie(
    graph: EdgeStatistics,
    order: tuple[int, ...],
    tests: Sequence[tuple[int, str, int]],
    weighted: bool,
    tries: Mapping[TrieName, Trie],
) -> Trie:
    """The trie of the rows of `graph.ranked`, its levels the columns of `order`. `tries`: those
    that are there by now."""
    trie = None
    if len(order) == 1:
        trie = trie_of_counts(graph.degrees(order[0], tests), weighted)
    elif order == (0, 1) and not weighted:
        trie = _of_others(graph, tuple(tests), tries)
    if trie is None:
        rows = graph.ranked(tests)
        trie = build_trie(rows, len(order), len(rows[0]), weighted)
    trie.labels = graph.ranking().labels
    return trie


def _of_others(graph: EdgeStatistics, tests: Tests, tries: Mapping[TrieName, Trie]) -> Trie | None:
    """Of both ways of all edges those in one direction, or all of those in one direction."""
    if current_watch().account.spill_for(TURNED * len(graph.left)) is not None:
        return None
    up, whole = (tries.get(((0, 1), tested, False, True)) for tested in (UP, ()))
    if tests in (UP, DOWN) and whole is not None:
        sources, targets = _rows(whole)
        kept = targets > sources if tests == UP else targets < sources
        return build_trie((sources[kept], targets[kept]), 2, int(kept.sum()), False)
    if tests == () and up is not None and not graph.loops:
        return _both_ways(up, len(graph.ranking().labels))
    return None


def _rows(trie: Trie) -> Columns:
    root, below = trie.levels
    return np.repeat(root.values, np.diff(below.offsets)), below.values


def _both_ways(up: Trie, count: int) -> Trie:
    """Each list is of the lower neighbours, then of the higher ones, which `up` has."""
    sources, targets = _rows(up)
    bits = count.bit_length()
    turned = targets.astype(np.int64) << bits | sources
    turned = sort_values(turned, 0, (1 << 2 * bits) - 1, own=True)
    higher, lower = (np.bincount(ends, minlength=count) for ends in (sources, targets))
    own = np.arange(len(sources))
    values: Array = np.empty(2 * len(sources), dtype=targets.dtype)
    values[own + np.repeat(np.cumsum(higher) - higher, lower)] = turned & ((1 << bits) - 1)
    values[own + np.repeat(np.cumsum(lower), higher)] = targets
    lengths = higher + lower
    ranks = np.flatnonzero(lengths)
    root = TrieLevel(ranks.astype(targets.dtype), np.array([0, len(ranks)]))
    offsets = np.append(0, np.cumsum(lengths[ranks]))
    return Trie([root, TrieLevel(values, offsets)], len(values), None)
