"""Sorts sets of rows: in memory, or externally those that exceed the memory limit.

Pieces that fit are sorted and written as runs (`spill.py`). Rows that divide all runs into ranges
are sampled, and the runs are merged in memory range by range: all runs at once, unless there are
very many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from gdatalog.account import Account
from gdatalog.cancellation import cancellable, current_watch
from gdatalog.storage.rows import Columns, concatenate, cut, sort_in_memory
from gdatalog.storage.spill import Spill
from gdatalog.storage.table import Array

SORTED_AT_ONCE = 1 << 10  # rows that are sorted at once, without looking at limits
PACKED = 8  # bytes of a packed row
SORTING = 32  # most bytes to sort a row in memory, beside its columns
SHARE = 4  # a run takes at most 1/4 of the free memory
SAMPLES = 8  # rows sampled for each range, from all runs together


def sort_rows(columns: Sequence[Array]) -> Columns:
    """The same set of rows, sorted lexicographically and without duplicates."""
    columns = tuple(columns)
    if not columns or len(columns[0]) < 2:
        return columns
    return cancellable(len(columns[0]), lambda: _sort_rows([columns]))


def merge_rows(blocks: list[Columns]) -> Columns:
    """The rows of all blocks, sorted and without duplicates. There must be a block.

    Removes blocks from the list, so that each is freed once it is packed.
    """
    count = sum(len(block[0]) for block in blocks)
    if count < 2 or (len(blocks) == 1 and len(blocks[0]) == 1):
        return sort_rows(concatenate(blocks))
    if count <= SORTED_AT_ONCE:
        return sort_in_memory(blocks)
    return cancellable(count, lambda: _sort_rows(blocks))


def _sort_rows(blocks: list[Columns]) -> Columns:
    dtypes = [np.result_type(*parts) for parts in zip(*blocks, strict=True)]
    count, width = sum(len(block[0]) for block in blocks), sum(dtype.itemsize for dtype in dtypes)
    account = current_watch().account
    spill = account.spill_for(count * (2 * width + PACKED))
    if spill is not None:
        return sort_spilled(blocks, account, spill)
    return sort_in_memory(blocks)


def rows_at_once(account: Account, spill: Spill, width: int) -> int:
    """The number of rows that fit memory while they are sorted; `width` is the bytes of a row."""
    if spill.always:
        return spill.run
    return max(spill.run, account.spare() // SHARE // (2 * width + SORTING))


def width_of(block: Sequence[Array]) -> int:
    """The bytes of a row."""
    return sum(column.dtype.itemsize for column in block)


def _taken(blocks: list[Columns]) -> Iterator[Columns]:
    """The blocks, which it takes out of the list, so that each can be freed."""
    while blocks:
        yield blocks.pop(0)


def sort_spilled(blocks: list[Columns], account: Account, spill: Spill) -> Columns:
    """The rows of all blocks, sorted and without duplicates, in files. Empties the list."""
    runs = SortedRuns(spill, [np.result_type(*parts) for parts in zip(*blocks, strict=True)])
    most = rows_at_once(account, spill, width_of(blocks[0]))
    for parts in cut(_taken(blocks), most):
        if parts:
            runs.add(sort_in_memory(parts))
    return runs.merged(account)


class SortedRuns:
    """Sets of sorted rows in files, which are merged into one."""

    def __init__(self, spill: Spill, dtypes: Sequence[np.dtype[np.generic]]) -> None:
        self._spill = spill
        self._rows = spill.columns(dtypes)
        self._bounds = [0]

    @property
    def length(self) -> int:
        """The number of rows; rows that are in several runs count several times."""
        return self._bounds[-1]

    def add(self, rows: Columns) -> None:
        """Adds sorted rows."""
        self._rows.append(rows)
        self._bounds.append(len(self._rows))

    def merged(self, account: Account) -> Columns:
        """All rows, sorted and without duplicates. No rows can be added afterwards."""
        whole = self._rows.finish()
        bounds = [pair for pair in pairwise(self._bounds) if pair[0] < pair[1]]
        runs = [tuple(column[low:high] for column in whole) for low, high in bounds]
        most = rows_at_once(account, self._spill, width_of(whole))
        # More runs would need more samples than can be sorted at once.
        fan = max(2, math.isqrt(most // 4))
        while len(runs) > 1:
            runs = [self._merge(runs[at : at + fan], most) for at in range(0, len(runs), fan)]
        return runs[0] if runs else whole

    def _merge(self, runs: Sequence[Columns], most: int) -> Columns:
        if len(runs) == 1:
            return runs[0]
        into = self._spill.columns(column.dtype for column in runs[0])
        for rows in merged_runs(runs, most):
            into.append(rows)
        return into.finish()


def merged_runs(runs: Sequence[Columns], most: int) -> Iterator[Columns]:
    """The rows of sorted runs, merged and without duplicates, in pieces of about `most` rows."""
    for parts in divided(runs, most):
        some = [part for part in parts if len(part[0])]
        if len(some) == 1:
            yield some[0]
        elif some:
            yield sort_in_memory(some)


def divided(runs: Sequence[Columns], most: int) -> Iterator[list[Columns]]:
    """Cuts sorted runs at the same rows into ranges of about `most` rows, in ascending order."""
    for low, high in pairwise(_ranges(runs, most)):
        yield [
            tuple(column[start:end] for column in run)
            for run, start, end in zip(runs, low, high, strict=True)
        ]


def _ranges(runs: Sequence[Columns], most: int) -> list[list[int]]:
    """The positions at which the runs are cut, so that ranges have about `most` rows of all
    runs."""
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
        part, key = column[low:high], column.dtype.type(value)  # other types copy the column
        low, high = (
            low + int(np.searchsorted(part, key)),
            low + int(np.searchsorted(part, key, side="right")),
        )
        if low == high:
            break
    return low
