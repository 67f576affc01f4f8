"""Builds tries from rows by the cheapest sort.

The last level is built first: the offsets of a level are the starts of its parents' lists. Indexes
of a graph by the ranks of its vertices are sorted, or derived from other ranked indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog import cancellation
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
from gdatalog.storage.trie import RowTest, Tests, Trie, TrieLevel, TrieName

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


UP: Tests = ((0, "<", 1),)
DOWN: Tests = ((0, ">", 1),)
LOOPS: Tests = ((0, "=", 1),)


def ranked_trie(
    graph: EdgeStatistics,
    order: tuple[int, ...],
    tests: Sequence[RowTest],
    weighted: bool,
    tries: Mapping[TrieName, Trie],
) -> Trie:
    """The trie of the rows of `graph.ranked`, with the columns of `order` as levels. `tries`: those
    built so far."""
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
    """Derives one direction of all edges from both, or both from one, without a sort of all
    rows."""
    if current_watch().account.spill_for(TURNED * len(graph.left)) is not None:
        return None
    up, whole = (tries.get(((0, 1), tested, False, True)) for tested in (UP, ()))
    if tests in (UP, DOWN) and whole is not None:
        # Keeps the lower neighbours in each list, or the higher ones.
        parts = [graph.degrees(0, each) for each in (DOWN, LOOPS, UP)]
        kept = _among(parts, (tests == DOWN, False, tests == UP))
        return _of_lists(parts[0 if tests == DOWN else 2], whole.levels[1].values[kept])
    if tests == () and up is not None and not graph.loops:
        return _both_ways(up, len(graph.ranking().labels))
    return None


def _among(parts: Sequence[Array], marks: Sequence[bool]) -> Array:
    """A mask for lists whose elements come in consecutive parts: True in the marked parts."""
    lengths = np.stack(parts, axis=1).ravel()
    return np.repeat(np.tile(np.array(marks), len(parts[0])), lengths)


def _of_lists(lengths: Array, values: Array) -> Trie:
    """The trie of the lists of all ranks; lists may be empty."""
    ranks = np.flatnonzero(lengths)
    root = TrieLevel(ranks.astype(values.dtype), np.array([0, len(ranks)]))
    offsets = np.append(0, np.cumsum(lengths[ranks]))
    return Trie([root, TrieLevel(values, offsets)], len(values), None)


def _both_ways(up: Trie, count: int) -> Trie:
    """Builds lists of the lower neighbours, followed by the higher ones, which `up` has."""
    root, below = up.levels
    targets = below.values
    higher = np.zeros(count, dtype=np.int64)
    higher[root.values] = np.diff(below.offsets)
    lower = np.bincount(targets, minlength=count)
    bits = count.bit_length()
    turned = targets.astype(np.int64)
    turned <<= bits
    turned |= np.repeat(root.values, higher[root.values])
    turned = sort_values(turned, own=True)
    turned &= (1 << bits) - 1
    values: Array = np.empty(2 * len(targets), dtype=targets.dtype)
    first = _among((lower, higher), (True, False))
    values[first] = turned
    values[~first] = targets
    return _of_lists(lower + higher, values)
