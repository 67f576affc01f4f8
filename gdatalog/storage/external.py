"""External sorting and indexing, for rows that exceed the memory limit.

Pieces that fit are sorted and written as runs (`spill.py`). Rows that divide all runs into ranges
are sampled, and the runs are merged in memory range by range: all runs at once, unless there are
very many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from gdatalog.account import Account
from gdatalog.storage.degrees import mask
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns, concatenate, sort_in_memory
from gdatalog.storage.spill import Spill, SpilledColumn
from gdatalog.storage.table import Array
from gdatalog.storage.trie import SHIFT, RowTest, Trie, TrieLevel

SORTING = 32  # bytes that sorting a row in memory takes beside its columns, at the most
SHARE = 4  # a run takes such a part of the spare memory
STRETCH = 1 << 18  # rows that are read at once where they are only passed over
SAMPLES = 8  # rows that are sampled for each range, in all runs together


def rows_at_once(account: Account, spill: Spill, width: int) -> int:
    """The number of rows that fit memory while they are sorted; `width` is the bytes of a row."""
    if spill.always:
        return spill.run
    return max(spill.run, account.spare() // SHARE // (2 * width + SORTING))


def width_of(block: Sequence[Array]) -> int:
    """The bytes of a row."""
    return sum(column.dtype.itemsize for column in block)


def sort_spilled(blocks: list[Columns], account: Account, spill: Spill) -> Columns:
    """The rows of all blocks, sorted and without duplicates, in files. Empties the list."""
    runs = SortedRuns(spill, [np.result_type(*parts) for parts in zip(*blocks, strict=True)])
    most = rows_at_once(account, spill, width_of(blocks[0]))
    for piece in _pieces(blocks, most):
        runs.add(sort_in_memory([piece]))
    return runs.merged(account)


def _pieces(blocks: list[Columns], most: int) -> Iterator[Columns]:
    """The blocks' rows in pieces of `most` rows, the last ones shorter. Empties the list."""
    some: list[Columns] = []
    count = 0
    while blocks:
        block = blocks.pop(0)
        start, length = 0, len(block[0])
        while start < length:
            end = min(length, start + most - count)
            some.append(tuple(column[start:end] for column in block))
            count += end - start
            start = end
            if count == most:
                yield concatenate(some)
                some, count = [], 0
    if some:
        yield concatenate(some)


class SortedRuns:
    """Sets of sorted rows in files, which are merged into one."""

    def __init__(self, spill: Spill, dtypes: Sequence[np.dtype[np.generic]]) -> None:
        self._spill = spill
        self._dtypes = list(dtypes)
        self._rows = spill.columns(dtypes)
        self._bounds = [0]
        self._earlier: list[Columns] = []  # runs of narrower columns

    @property
    def length(self) -> int:
        """The number of rows; rows that are in several runs count several times."""
        return self._bounds[-1] + sum(len(run[0]) for run in self._earlier)

    def add(self, rows: Columns) -> None:
        """Adds sorted rows."""
        dtypes = [np.promote_types(d, c.dtype) for d, c in zip(self._dtypes, rows, strict=True)]
        if dtypes != self._dtypes:
            self._earlier = self._finished()
            self._rows, self._bounds, self._dtypes = self._spill.columns(dtypes), [0], dtypes
        self._rows.append(rows)
        self._bounds.append(len(self._rows))

    def _finished(self) -> list[Columns]:
        whole = self._rows.finish()
        own = [tuple(c[low:high] for c in whole) for low, high in pairwise(self._bounds)]
        return [*self._earlier, *own]

    def merged(self, account: Account) -> Columns:
        """All rows, sorted and without duplicates. No rows can be added afterwards."""
        runs = [run for run in self._finished() if len(run[0])]
        width = sum(dtype.itemsize for dtype in self._dtypes)
        most = rows_at_once(account, self._spill, width)
        # More runs would take more samples than are sorted at once.
        fan = max(2, math.isqrt(most // 4))
        while len(runs) > 1:
            runs = [self._merge(runs[at : at + fan], most) for at in range(0, len(runs), fan)]
        return runs[0] if runs else self._merge([], most)

    def _merge(self, runs: Sequence[Columns], most: int) -> Columns:
        if len(runs) == 1:
            return runs[0]
        into = self._spill.columns(self._dtypes)
        for rows in merged_runs(runs, most):
            into.append(rows)
        return into.finish()


def merged_runs(runs: Sequence[Columns], most: int) -> Iterator[Columns]:
    """The rows of sorted runs, merged and without duplicates, in pieces of about `most` rows."""
    for parts in divided(runs, most) if runs else ():
        some = [part for part in parts if len(part[0])]
        if len(some) == 1:
            yield some[0]
        elif some:
            yield sort_in_memory(some)


def divided(runs: Sequence[Columns], most: int) -> Iterator[list[Columns]]:
    """Sorted runs, divided at the same rows into ranges of about `most` rows; each range is less
    than the next."""
    for low, high in pairwise(_ranges(runs, most)):
        yield [
            tuple(column[start:end] for column in run)
            for run, start, end in zip(runs, low, high, strict=True)
        ]


def _ranges(runs: Sequence[Columns], most: int) -> list[list[int]]:
    """The places that divide the runs: between neighbours are about `most` rows of all runs."""
    total = sum(len(run[0]) for run in runs)
    step = max(1, most // max(SAMPLES, 2 * len(runs)))
    samples = concatenate([tuple(column[::step] for column in run) for run in runs])
    count = -(-2 * total // most)
    ordered = sort_in_memory([samples])
    length = len(ordered[0])
    places = sorted({length * at // count for at in range(1, count)} - {0})
    cuts = [tuple(int(column[place]) for column in ordered) for place in places]
    inner = [[_place(run, cut) for run in runs] for cut in cuts]
    return [[0] * len(runs), *inner, [len(run[0]) for run in runs]]


def _place(run: Columns, row: Sequence[int]) -> int:
    """The number of a run's rows that are less than a row."""
    low, high = 0, len(run[0])
    for column, value in zip(run, row, strict=True):
        kind = np.iinfo(column.dtype)
        if not kind.min <= value <= kind.max:
            return low if value < kind.min else high
        part, key = column[low:high], column.dtype.type(value)  # of another type it would be copied
        low, high = (
            low + int(np.searchsorted(part, key)),
            low + int(np.searchsorted(part, key, side="right")),
        )
        if low == high:
            break
    return low


def joined_spilled(parts: Sequence[Array], dtype: np.dtype[np.generic], spill: Spill) -> Array:
    """The parts of a column as one column in a file."""
    column = spill.column(dtype)
    for part in parts:
        for start in range(0, len(part), STRETCH):
            column.append(part[start : start + STRETCH].astype(dtype, copy=False))
    return column.finish()


def trie_of(
    store: RowStore,
    order: Sequence[int],
    tests: Sequence[RowTest],
    weighted: bool,
    account: Account,
    spill: Spill,
) -> Trie:
    """The trie of the rows that pass `tests`; its levels are the columns of `order`."""
    columns = store.as_they_are()
    # Rows that differ only in columns which are dropped count one by one.
    rest = [at for at in range(len(columns)) if at not in order] if weighted else []
    used = [*order, *rest]
    if not tests and store.known == KnownRows.SORTED and used == list(range(len(used))):
        rows = columns[: len(used)]
    else:
        some = (
            passing_spilled(columns, used, tests, spill)
            if tests
            else (tuple(columns[at] for at in used))
        )
        rows = sort_spilled([some], account, spill)
    return spilled_trie(rows, len(order), weighted, spill)


def passing_spilled(
    columns: Columns, used: Sequence[int], tests: Sequence[RowTest], spill: Spill
) -> Columns:
    """Some columns of the rows that pass all tests."""
    into = spill.columns([columns[at].dtype for at in used])
    for start in range(0, len(columns[0]), STRETCH):
        part = tuple(column[start : start + STRETCH] for column in columns)
        passing = mask(part, tests)
        into.append([part[at][passing] for at in used])
    return into.finish()


def spilled_trie(columns: Columns, depth: int, weighted: bool, spill: Spill) -> Trie:
    """The trie of the first `depth` columns of sorted, distinct rows."""
    nodes = [spill.column(column.dtype) for column in columns[:depth]]
    starts = [spill.column(np.int64) for _ in range(1, depth)]
    counted = spill.column(np.int64)  # where the rows of each node of the last level begin
    total = len(columns[0])
    for at, rows, marks in _stretches(columns[:depth], total):
        for level, (column, new) in enumerate(zip(rows, marks, strict=True)):
            if level:
                # How many nodes of this level stand before the first child of each new parent.
                before = np.cumsum(new)[marks[level - 1]] - 1
                starts[level - 1].append(before + nodes[level].length)
            nodes[level].append(column if new.all() else column[new])
        if weighted:
            counted.append(np.flatnonzero(marks[-1]) + at)
    lengths = [column.length for column in nodes]
    levels = [TrieLevel(nodes[0].finish(), np.array([0, lengths[0]]))]
    for node, begin, length in zip(nodes[1:], starts, lengths[1:], strict=True):
        begin.append(np.array([length]))
        levels.append(TrieLevel(node.finish(), begin.finish()))
    weights = _differences(counted, total, spill) if weighted else None
    return Trie(levels, total if weighted else lengths[-1], weights)


def _stretches(columns: Columns, total: int) -> Iterator[tuple[int, list[Array], list[Array]]]:
    """Sorted rows in stretches: the start of each, its columns, and for each column the rows at
    which the prefix of columns changes."""
    for start in range(0, total, STRETCH):
        rows = [column[start : start + STRETCH] for column in columns]
        marks: list[Array] = []
        new = np.zeros(len(rows[0]), dtype=np.bool_)
        new[0] = start == 0
        for column, whole in zip(rows, columns, strict=True):
            new = new.copy()
            new[1:] |= column[1:] != column[:-1]
            if start:
                new[0] |= bool(column[0] != whole[start - 1])
            marks.append(new)
        yield start, rows, marks


def spilled_pairs(
    offsets: Array, code: Callable[[Array], tuple[Array, object]], values: Array, spill: Spill
) -> Array:
    """The (parent, value) pairs of a level's entries, packed; `code` encodes values."""
    column = spill.column(np.dtype(np.int64))
    for start in range(0, len(values), STRETCH):
        part = values[start : start + STRETCH]
        places = np.arange(start, start + len(part))
        parents = np.searchsorted(offsets[1:], places, side="right")
        column.append((parents << SHIFT) | code(part)[0])
    return column.finish()


def _differences(column: SpilledColumn, end: int, spill: Spill) -> Array:
    """The distance from each value to the next, and from the last one to the end."""
    values = column.finish()
    into = spill.column(np.dtype(np.int64))
    for start in range(0, len(values), STRETCH):
        into.append(np.diff(values[start : start + STRETCH + 1]))
    into.append(np.array([end - int(values[-1])] if len(values) else [], dtype=np.int64))
    return into.finish()
