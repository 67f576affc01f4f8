"""Indexes of a graph by the ranks of its vertices: sorted, or made of those that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.storage.graph import TURNED, EdgeStatistics
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_values
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel, TrieName
from gdatalog.storage.trie_builder import build_trie, trie_of_counts

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
