"""Expands a level on NumPy: expands lists, and looks their values up in lists or bitmaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import cancellable
from gdatalog.cpu_ops.arrays import expand, survivors
from gdatalog.cpu_ops.functions import EQUALITY, ORDER
from gdatalog.storage.table import Array
from gdatalog.storage.trie import ListEntries, Lookup, TrieLevel, ValueTests


def intersect_lists(
    entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, placed: bool
) -> tuple[Array, Array, list[Array]]:
    """The entries of lists that occur in every other list of their row, and pass the tests: rows,
    values, and positions in the lists for which positions are wanted; in their own lists, which
    come first, if `placed`."""
    rows, positions = expand(entries.starts, entries.lengths)
    which = entries.which
    if not isinstance(which, int):
        rows = which[rows]
    elif which:
        rows += which
    found = entries.values[positions]
    kept = [positions] if placed else []
    for level, parents, wanted in others:
        places = find(level, found) if parents is None else find_in(level, parents[rows], found)
        mask = places >= 0
        if not mask.all():
            left = survivors(mask)
            rows, found = rows[left], found[left]
            kept = [column[left] for column in kept]
            if wanted:
                places = places[left]
        if wanted:
            kept.append(places)
    # Last, because fewer entries are left, and most of them pass.
    for op, column in tests:
        mask = (ORDER.get(op) or EQUALITY[op])(found, column[rows])
        if not mask.all():
            left = survivors(mask)
            rows, found = rows[left], found[left]
            kept = [places[left] for places in kept]
    return rows, found, kept


def count_met(
    counts: Array, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests
) -> None:
    """Adds to `counts`, by row, how many entries each list keeps; rows follow each other."""
    others = [lookup._replace(wanted=False) for lookup in others]
    rows = intersect_lists(entries, others, tests, False)[0]
    base, count = entries.which, len(entries.lengths)
    if base:
        rows -= base
    counts[base : base + count] += np.bincount(rows, minlength=count)


def find(level: TrieLevel, values: Array) -> Array:
    """Positions of values in the root's list, -1 if absent."""
    if len(values) < cancellation.LATE:
        return level.find(values)
    return cancellable(len(values), lambda: level.find(values), None)


def find_in(level: TrieLevel, parents: Array, values: Array) -> Array:
    """Positions of values in their parents' lists, -1 if absent."""
    if len(values) < cancellation.LATE:
        return level.find_in(parents, values)
    return cancellable(len(values), lambda: level.find_in(parents, values), None)


def bound_in(level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
    """Where each value would stand in its parent's list; after an equal one if `after_equal`."""
    return level.bound_in(parents, values, after_equal)


def ranges(
    level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]]
) -> tuple[Array, Array]:
    """Where each parent's list starts and how long it is, cut by (operator, bounds)."""
    if len(parents) < cancellation.LATE:
        return _ranges(level, parents, cuts)
    return cancellable(len(parents), lambda: _ranges(level, parents, cuts), None)


def _ranges(
    level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]]
) -> tuple[Array, Array]:
    starts, ends = level.offsets[parents], level.offsets[parents + 1]
    for op, bounds in cuts:
        at_bound = bound_in(level, parents, bounds, op in ("<=", ">"))
        if op in ("<", "<="):
            ends = np.minimum(ends, at_bound)
        else:
            starts = np.maximum(starts, at_bound)
    return starts, np.maximum(ends - starts, 0)


def level_of(values: Array, offsets: Array) -> TrieLevel:
    """A level of temporary lists."""
    return TrieLevel(values, offsets)
