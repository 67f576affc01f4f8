"""Builds tries on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from gdatalog.storage.on_device import DeviceStore, KnownRows
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_tests import mask
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest, Trie, TrieLevel

SHORT = 1 << 31  # entries, below which offsets take 32 bits


def build(
    ops: DeviceOps,
    rows: DeviceStore,
    order: Sequence[int],
    tests: Sequence[RowTest],
    weighted: bool,
) -> Trie:
    """The trie of the rows that pass `tests`, with the columns of `order` as levels."""
    if not order:
        return Trie((), passing(ops, rows, tests), None)
    width = len(rows.as_they_are())
    # Weights count rows that differ only in dropped columns, so duplicates are dropped first.
    columns = rows.distinct() if weighted and len(order) < width else rows.as_they_are()
    in_order = rows.known == KnownRows.SORTED and list(order) == list(range(len(order)))
    length = len(columns[0])
    used = [columns[column] for column in order]
    if tests:
        kept = ops.survivors(mask(columns, tests))
        length = len(kept)
        used = [column[kept] for column in used]
    if in_order:
        return of_sorted(ops, used, length, weighted)
    if weighted and len(order) == width:
        trie = of_rows(ops, used, length, False)
        ones = ops.xp.ones(trie.total, dtype=ops.xp.int64)
        return Trie(trie.levels, trie.total, ones)
    return of_rows(ops, used, length, weighted)


def passing(ops: DeviceOps, rows: DeviceStore, tests: Sequence[RowTest]) -> int:
    """How many distinct rows pass the tests."""
    if not tests and rows.known >= KnownRows.DISTINCT:
        return rows.count  # without joining its blocks
    columns = rows.distinct()
    if not tests:
        return rows.count
    return len(ops.survivors(mask(columns, tests)))


def of_rows(ops: DeviceOps, columns: Sequence[Array], length: int, weighted: bool) -> Trie:
    """The trie of rows in any order. If it is not weighted, duplicates count as one row."""
    if length < 2:
        return of_sorted(ops, columns, length, weighted)
    packing = ops.packing(columns)
    if packing is None:
        order = ops.order_rows(columns)
        return of_sorted(ops, [column[order] for column in columns], length, weighted)
    packed = ops.xp.sort(packing.pack(columns))
    starts = ops.survivors(ops.firsts(packed))
    weights = _lengths(ops, starts, length) if weighted else None
    if len(starts) < length:
        packed = packed[starts]
    dtypes = [column.dtype for column in columns]
    levels: list[TrieLevel] = []
    for at in range(len(dtypes) - 1, 0, -1):
        low, bits = packing.least[at], packing.bits[at]
        values = ((packed & ((1 << bits) - 1)) + low).astype(dtypes[at])
        above = packed >> bits
        starts = ops.survivors(ops.firsts(above))
        levels.append(_level(ops, values, starts))
        packed = above[starts]
    levels.append(_root(ops, (packed + packing.least[0]).astype(dtypes[0])))
    total = length if weighted else len(levels[0])
    return Trie(levels[::-1], total, weights)


def of_sorted(ops: DeviceOps, columns: Sequence[Array], length: int, weighted: bool) -> Trie:
    """The trie of `length` rows in lexicographically sorted columns."""
    if not columns:
        return Trie((), length, None)
    weights = None
    left = list(columns)
    if length:
        starts = ops.survivors(ops.row_firsts(left))
        weights = _lengths(ops, starts, length) if weighted else None
        if len(starts) < length:
            left = [column[starts] for column in left]
    elif weighted:
        weights = ops.xp.ones(0, dtype=ops.xp.int64)
    total = length if weighted else len(left[0])
    levels: list[TrieLevel] = []
    while len(left) > 1:
        values = left.pop()
        starts = ops.survivors(ops.row_firsts(left)) if len(values) else ops.xp.arange(0)
        levels.append(_level(ops, values, starts))
        left = [column[starts] for column in left]
    levels.append(_root(ops, left[0]))
    return Trie(levels[::-1], total, weights)


def _lengths(ops: DeviceOps, starts: Array, end: int) -> Array:
    """The distance from each start to the next, and from the last to the end."""
    lengths: Array = ops.xp.diff(_with_end(ops, starts, end, ops.xp.int64))
    return lengths


def _with_end(ops: DeviceOps, starts: Array, end: int, dtype: npt.DTypeLike) -> Array:
    offsets: Array = ops.xp.empty(len(starts) + 1, dtype=dtype)
    offsets[:-1] = starts
    offsets[-1:] = end
    return offsets


def _level(ops: DeviceOps, values: Array, starts: Array) -> TrieLevel:
    dtype = ops.xp.int32 if len(values) < SHORT else ops.xp.int64
    return TrieLevel(values, _with_end(ops, starts, len(values), dtype), ops.xp)


def _root(ops: DeviceOps, values: Array) -> TrieLevel:
    return _level(ops, values, ops.xp.zeros(1, dtype=ops.xp.int64))
