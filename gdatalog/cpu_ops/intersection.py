"""Expands a level on NumPy: expands lists, and looks their values up in lists or bitmaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.cancellation import cancellable, current_watch, working_space
from gdatalog.cpu_ops.arrays import expand, survivors
from gdatalog.cpu_ops.functions import EQUALITY, ORDER
from gdatalog.records import replace
from gdatalog.storage.rows import Columns, RowPacking, Span, spans_of
from gdatalog.storage.table import Array
from gdatalog.storage.trie import ListEntries, Lookup, TrieLevel, ValueTests
from gdatalog.values import INT_MIN


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
    return cancellable(len(values), lambda: level.find(values), None)


def find_in(level: TrieLevel, parents: Array, values: Array) -> Array:
    """Positions of values in their parents' lists, -1 if absent."""
    return cancellable(len(values), lambda: level.find_in(parents, values), None)


def bound_in(level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
    """Where each value would stand in its parent's list; after an equal one if `after_equal`."""
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
    """A level of temporary lists."""
    return TrieLevel(values, offsets)


def marked_rows(most: int) -> MarkedRows:
    """An empty set of rows, with at most `most` bytes of marks."""
    return MarkedRows(most)


# A set of rows as one mark for each possible row: without sorting or searching.
#
# For rows whose columns together have few possible values. The range of values grows with the rows.
# When the marks would become too large, `fits` returns False, and the set stays as it is.

STRETCH = 1 << 22  # marks in one batch


class MarkedRows:
    packing = RowPacking

    def __init__(self, most: int) -> None:
        self.most = most  # bytes
        self._packing: RowPacking | None = None
        self._spans: list[Span] = []  # each column's least and greatest value
        self._marks = self.zeros(0)
        self._no_more = False  # a larger range did not fit into `most` bytes

    @property
    def nbytes(self) -> int:
        return int(self._marks.nbytes)

    def zeros(self, size: int) -> Array:
        return np.zeros(size, dtype=np.bool_)

    def spans(self, rows: Columns) -> list[Span]:
        """The least and the greatest value of each column, (0, 0) if there are no rows."""
        return spans_of([rows]) or [(0, 0)] * len(rows)

    def fits(self, rows: Columns) -> bool:
        """Extends the range of possible rows by these. Returns False, and changes nothing, if the
        marks would take more than `most` bytes."""
        if self._packing is not None and not len(rows[0]):
            return True
        spans = self.spans(rows)
        if self._spans:
            both = zip(self._spans, spans, strict=True)
            spans = [(min(a, c), max(b, d)) for (a, b), (c, d) in both]
        held = self._packing is not None and self._packing.covers(spans)
        if not held and (self._no_more or not self._widen(spans)):
            self._no_more = True
            return False
        if len(rows[0]):
            self._spans = spans
        return True

    def _widen(self, spans: list[Span]) -> bool:
        """Extends the marks to rows in these ranges. Returns False if they become too large."""
        for spare in (1, 0):
            packing = self.packing.within(spans, spare)
            if packing is not None and 1 << sum(packing.bits) <= self.most:
                self._grow(replace(packing, least=self._least(packing, spans)))
                return True
        return False

    def _grow(self, packing: RowPacking) -> None:
        before, old = self._packing, self._marks
        with working_space("marks", 1 << sum(packing.bits)):
            self._packing, self._marks = packing, self.zeros(1 << sum(packing.bits))
            wide = [np.dtype(np.int64)] * len(packing.bits)
            for start in range(0, len(old) if before is not None else 0, STRETCH):
                assert before is not None
                found = np.flatnonzero(old[start : start + STRETCH])
                found += start
                self._marks[packing.pack(before.unpack(found, wide))] = True

    def _least(self, packing: RowPacking, spans: list[Span]) -> tuple[int, ...]:
        """The least value of each column's range. Spare room is below the values if they have
        fallen, so that falling values outgrow the range as rarely as rising ones."""
        if not self._spans:
            return packing.least
        return tuple(
            max(INT_MIN, high - (1 << bits) + 1) if low < before else low
            for bits, (low, high), (before, _) in zip(packing.bits, spans, self._spans, strict=True)
        )

    def add(self, rows: Columns) -> None:
        """Marks rows, for which `fits` was true."""
        assert self._packing is not None
        self._marks[self._packing.pack(rows)] = True

    def news(self, rows: Columns) -> Array:
        """Marks rows, for which `fits` was true. Returns the ascending indices of those that were
        not marked, one for each distinct row."""
        assert self._packing is not None
        packed = self._packing.pack(rows)
        found = self._fresh(packed)
        self._marks[packed[found]] = True
        return found

    def _fresh(self, packed: Array) -> Array:
        fresh = np.flatnonzero(~self._marks[packed])
        _, first = np.unique(packed[fresh], return_index=True)
        first.sort()
        found: Array = fresh[first]
        return found

    def count(self) -> int:
        """How many rows are marked."""
        return int(np.count_nonzero(self._marks))

    def rows(self, dtypes: list[np.dtype[np.generic]]) -> Columns:
        """The marked rows, sorted."""
        assert self._packing is not None
        count = self.count()
        spill = current_watch().account.spill_for(count * sum(dtype.itemsize for dtype in dtypes))
        spilled = None if spill is None else spill.columns(dtypes)
        columns = tuple(np.empty(count if spilled is None else 0, dtype=dtype) for dtype in dtypes)
        at = 0
        for start in range(0, len(self._marks), STRETCH):
            found = np.flatnonzero(self._marks[start : start + STRETCH])
            found += start
            rows = self._packing.unpack(found, dtypes)
            if spilled is not None:
                spilled.append(rows)
                continue
            for column, part in zip(columns, rows, strict=True):
                column[at : at + len(part)] = part
            at += len(found)
        return columns if spilled is None else spilled.finish()
