"""Indexes of a graph by the ranks of its vertices: sorted, or derived from other ranked indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.storage.graph import TURNED, EdgeStatistics
from gdatalog.storage.table import Array
from gdatalog.storage.threads import sort_values
from gdatalog.storage.trie import RowTest, Tests, Trie, TrieLevel, TrieName
from gdatalog.storage.trie_builder import build_trie, trie_of_counts

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
