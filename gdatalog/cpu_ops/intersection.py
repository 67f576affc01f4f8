"""A level's expansion on NumPy: lists written out, looked up in other lists, what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.cpu_ops.arrays import expand, survivors
from gdatalog.cpu_ops.functions import EQUALITY, ORDER
from gdatalog.storage.bitmap import MarkedRows
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Lookup, Meeting, TrieLevel


def intersect_lists(
    values: Array,
    starts: Array,
    lengths: Array,
    size: int | None,
    which: int | Array,
    others: Sequence[Lookup],
    placed: bool,
    tests: Sequence[tuple[str, Array]] = (),
) -> Meeting:
    """The entries of lists in `values` that are in every other list of their row, and pass the
    tests: comparisons with a column of the rows.

    The first list is of row `which` and so on, or `which` are the lists' rows; `size` is how
    many entries there are, where that is known. Where they stand is told if `placed`.
    """
    rows, positions = expand(starts, lengths)
    tried = len(rows)
    if not isinstance(which, int):
        rows = which[rows]
    elif which:
        rows += which
    found = values[positions]
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
    # Last: most pass, and there are fewer by now.
    for op, column in tests:
        mask = (ORDER.get(op) or EQUALITY[op])(found, column[rows])
        if not mask.all():
            left = survivors(mask)
            rows, found = rows[left], found[left]
            kept = [places[left] for places in kept]
    return Meeting(tried, rows, found, kept)


def count_met(
    counts: Array,
    values: Array,
    starts: Array,
    lengths: Array,
    size: int,
    base: int,
    others: Sequence[Lookup],
    tests: Sequence[tuple[str, Array]],
) -> None:
    """Adds to `counts`, from row `base` on, how many entries each list would keep."""
    others = [lookup._replace(wanted=False) for lookup in others]
    rows = intersect_lists(values, starts, lengths, size, base, others, False, tests).rows
    if base:
        rows -= base
    counts[base : base + len(lengths)] += np.bincount(rows, minlength=len(lengths))


def find(level: TrieLevel, values: Array) -> Array:
    """Positions of values in the root's list, -1 where absent."""
    return cancellable(len(values), lambda: level.find(values), None)


def find_in(level: TrieLevel, parents: Array, values: Array) -> Array:
    """Positions of values in their parents' lists, -1 where absent."""
    return cancellable(len(values), lambda: level.find_in(parents, values), None)


def bound_in(level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
    """Where in its parent's list each value would stand; behind an equal one if asked."""
    return level.bound_in(parents, values, after_equal)


def ranges(
    level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]]
) -> tuple[Array, Array]:
    """Where each parent's list starts and how long it is, cut by (operator, bounds)."""
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
    """Lists that are made on the way."""
    return TrieLevel(values, offsets)


def marked_rows(most: int) -> MarkedRows:
    """An empty set of rows, of at most so many bytes of marks."""
    return MarkedRows(most)
