"""Rows in order: all of them sorted, or the first ones, which a scan finds: few are sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.storage.row_order import Order, backward, turned, turned_back
from gdatalog.storage.rows import Columns, order_rows
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import NULL

STRETCH = 1 << 18  # rows compared at a time


def sorted_rows(
    keys: Columns,
    types: Sequence[str],
    symbols: SymbolTable,
    order: Order,
    nullable: Sequence[bool] = (),
) -> Columns:
    """The rows, sorted, nulls last. `order`: of all columns."""
    if "symbol" not in types:
        return turned_back(sort_rows(turned(keys, order, nullable)), order, nullable)
    ranks = _Ranks.of(types, symbols, nullable)
    places = order_rows(tuple(_key(keys, by, ranks) for by in order))
    return tuple(key[places] for key in keys)


def first_rows(
    blocks: Sequence[Columns],
    types: Sequence[str],
    symbols: SymbolTable,
    order: Order,
    count: int,
    nullable: Sequence[bool] = (),
) -> Columns:
    """The first `count` rows of distinct ones, sorted, nulls last. `order`: of all columns.

    The first column decides for most rows: those before the last wanted value are in, those with
    that value are ties, which the next column decides.
    """
    if not count:
        return tuple(column[:0] for column in blocks[0])
    ranks = _Ranks.of(types, symbols, nullable)
    rows = [part for block in blocks for part in _stretches(block)]
    found: list[Columns] = []
    for by in order:
        sure, rows = _divided(rows, by, ranks, count)
        found += sure
        count -= sum(len(part[0]) for part in sure)
        if sum(len(part[0]) for part in rows) <= count:
            break
    found += rows
    chosen = tuple(np.concatenate(column) for column in zip(*found, strict=True))
    places = order_rows(tuple(_key(chosen, by, ranks) for by in order))
    return tuple(column[places] for column in chosen)


def first_of(keys: Columns, count: int) -> Array:
    """The places of the first `count` rows by some keys, in this order; rows with equal keys are
    alike."""
    numbered = (*keys, np.arange(len(keys[0])))
    order = [(at, False) for at in range(len(numbered))]
    return first_rows([numbered], ["int"] * len(numbered), SymbolTable(), order, count)[-1]


class _Ranks(NamedTuple):
    """For each column the rank of each code, if it has texts, and whether it is nullable."""

    of_texts: list[Array | None]
    nullable: Sequence[bool]

    @staticmethod
    def of(types: Sequence[str], symbols: SymbolTable, nullable: Sequence[bool]) -> _Ranks:
        ranks = symbols.ranks() if "symbol" in types else None
        of_texts = [ranks if kind == "symbol" else None for kind in types]
        return _Ranks(of_texts, nullable or [False] * len(types))


def _stretches(block: Columns) -> list[Columns]:
    starts = range(0, len(block[0]), STRETCH)
    return [tuple(np.asarray(column)[at : at + STRETCH] for column in block) for at in starts]


def _key(rows: Columns, by: tuple[int, bool], ranks: _Ranks) -> Array:
    """What rows are compared by: less is earlier."""
    at, down = by
    of_texts, key = ranks.of_texts[at], rows[at]
    key = key if of_texts is None else ranks_of(key, of_texts)
    return backward(key, ranks.nullable[at]) if down else key


def ranks_of(codes: Array, ranks: Array) -> Array:
    """The ranks of texts by their codes; nulls stay nulls."""
    if codes.dtype != np.int64 or not len(codes) or codes.max() != NULL:
        return ranks[codes]
    found: Array = np.full(len(codes), NULL, dtype=np.int64)
    there = codes != NULL
    found[there] = ranks[codes[there]]
    return found


def _divided(
    rows: Sequence[Columns], by: tuple[int, bool], ranks: _Ranks, count: int
) -> tuple[list[Columns], list[Columns]]:
    """The rows before the `count`-th value of a column, or the last one, and those that have it."""
    last = _value_at(rows, by, ranks, count)
    sure: list[Columns] = []
    ties: list[Columns] = []
    for part in rows:
        current_watch().poll()
        key = _key(part, by, ranks)
        near = np.flatnonzero(key <= last)
        if len(near):
            before = key[near] < last
            for kept, places in ((sure, near[before]), (ties, near[~before])):
                kept.append(tuple(column[places] for column in part))
    return sure, ties


def _value_at(rows: Sequence[Columns], by: tuple[int, bool], ranks: _Ranks, count: int) -> Any:
    last = None  # the `count`-th value of the rows so far
    best: list[Array] = []
    for part in rows:
        current_watch().poll()
        key = _key(part, by, ranks)
        best.append(key if last is None else key[key < last])
        if sum(map(len, best)) > 2 * count:
            best = [np.partition(np.concatenate(best), count - 1)[:count]]
            last = best[0].max()
    every = np.concatenate(best)
    return np.partition(every, count - 1)[count - 1] if len(every) > count else every.max()
