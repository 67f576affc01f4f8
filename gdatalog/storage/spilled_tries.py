"""Tries of rows that exceed the memory limit, and selections of such rows, in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gdatalog.account import Account
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.row_tests import passing
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_spilled
from gdatalog.storage.spill import Spill, SpilledColumn
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest, Trie, TrieLevel

STRETCH = 1 << 18  # rows in one batch of a pass


def trie_of(
    store: RowStore,
    order: Sequence[int],
    tests: Sequence[RowTest],
    weighted: bool,
    account: Account,
    spill: Spill,
) -> Trie:
    """The trie of the rows that pass `tests`; its levels are the columns of `order`."""
    in_order = store.known == KnownRows.SORTED  # before another thread sorts them
    columns = store.as_they_are()
    # Weights count rows that differ only in dropped columns.
    rest = [at for at in range(len(columns)) if at not in order] if weighted else []
    used = [*order, *rest]
    if not tests and in_order and used == list(range(len(used))):
        rows = columns[: len(used)]
    else:
        some = passing(columns, used, tests, spill) if tests else tuple(columns[at] for at in used)
        rows = sort_spilled([some], account, spill)
    return spilled_trie(rows, len(order), weighted, spill)


def spilled_trie(columns: Columns, depth: int, weighted: bool, spill: Spill) -> Trie:
    """The trie of the first `depth` columns of sorted, distinct rows, in files."""
    nodes = [spill.column(column.dtype) for column in columns[:depth]]
    starts = [spill.column(np.int64) for _ in range(1, depth)]
    counted = spill.column(np.int64)  # where the rows of each node of the last level start
    total = len(columns[0])
    for at, rows, marks in _stretches(columns[:depth], total):
        for level, (column, new) in enumerate(zip(rows, marks, strict=True)):
            if level:
                # The number of nodes of this level before the first child of each new parent.
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
    """Sorted rows in batches: the start of each, its columns, and for each column a mask of the
    rows at which the prefix of columns changes."""
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


def _differences(column: SpilledColumn, end: int, spill: Spill) -> Array:
    """The distance from each value to the next, and from the last one to the end."""
    values = column.finish()
    into = spill.column(np.dtype(np.int64))
    for start in range(0, len(values), STRETCH):
        into.append(np.diff(values[start : start + STRETCH + 1]))
    into.append(np.array([end - int(values[-1])] if len(values) else [], dtype=np.int64))
    return into.finish()
