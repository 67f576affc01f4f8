"""Which rows of parts on workers are there twice.

A number stands for each row: its keys side by side where they fit into 64 bits, else a hash. The
numbers go to owners, where equal ones meet; if none do that is all. Else the rows that have such a
number go to owners too, with another hash, and all but one of equal ones are told to the parts
that they came from. So little but numbers moves, and rows that are there once stay as they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.shuffle import ShuffleBlock, rows_by_owner
from gdatalog.cluster.rows.sketches import mixed, sorted_values
from gdatalog.storage.rows import (
    INT32_MAX,
    INT32_MIN,
    Columns,
    concatenate,
    firsts,
    in_sorted,
    order_rows,
)
from gdatalog.storage.table import Array

_SEEDS = (0x2545_F491_4F6C_DD1D, 0xD6E8_FEB8_6659_FD93)


class NumberedRows(NamedTuple):
    """The numbers of some of a part's rows; `part`: which one it is."""

    part: int
    places: Array
    numbers: Columns


def narrow_spans(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether rows whose columns have these least and greatest values fit into 64 bits."""
    return len(spans) <= 2 and all(low >= INT32_MIN and high <= INT32_MAX for low, high in spans)


def numbers_in(value: Any, exact: bool, turn: int, turns: int) -> Array:
    """The numbers of a part's rows whose turn it is: some at a time, so that they fit."""
    numbers = numbers_of(columns_of(value), exact)
    if turns == 1:
        return numbers
    mine: Array = numbers[mixed(numbers, _SEEDS[1]) % np.uint64(turns) == turn]
    return mine


def numbers_of(rows: Columns, exact: bool) -> Array:
    """A number for each row. `exact`: keys side by side tell rows apart."""
    if not exact:
        return _hash(rows, _SEEDS[0])
    packed = rows[0].astype(np.int64)
    for column in rows[1:]:
        packed = packed << np.int64(32) | column.astype(np.int64) & np.int64(0xFFFF_FFFF)
    return packed


def split_plain(parts: Sequence[Array], owners: int) -> list[Array]:
    """For each owner its numbers."""
    whole = (np.concatenate(parts),)
    return [numbers for (numbers,) in rows_by_owner(whole, whole, owners)]


def met(pieces: Sequence[ShuffleBlock]) -> Array:
    """The numbers that an owner has more than once, ascending."""
    ordered = np.sort(np.concatenate([piece.value for piece in pieces]))
    return sorted_values(ordered[1:][~firsts(ordered)[1:]])


def numbered(value: Any, part: int, exact: bool, again: Sequence[Array]) -> NumberedRows:
    """Those rows of a part whose numbers are there more than once."""
    rows = columns_of(value)
    numbers = numbers_of(rows, exact)
    places = np.flatnonzero(in_sorted(numbers, np.sort(np.concatenate(again))))
    few = tuple(column[places] for column in rows)
    told = (numbers[places],) if exact else (numbers[places], _hash(few, _SEEDS[1]))
    return NumberedRows(part, places, told)


def _hash(rows: Columns, seed: int) -> Array:
    found = mixed(rows[0], seed)
    for column in rows[1:]:
        found = mixed(found.view(np.int64) + column.astype(np.int64), seed)
    return found.view(np.int64)


def split_numbers(parts: Sequence[NumberedRows], owners: int) -> list[Columns]:
    """For each owner its numbers, behind the part and the place that each has there."""
    rows: list[Columns] = [
        (np.full(len(places), part, dtype=np.int32), places, *numbers)
        for part, places, numbers in parts
    ]
    whole = concatenate(rows)
    return rows_by_owner(whole[2:], whole, owners)


def repeated(pieces: Sequence[ShuffleBlock]) -> dict[int, Array]:
    """Of an owner's rows the places, by part, of those that are there before."""
    part, place, *numbers = concatenate([piece.value for piece in pieces])
    order = order_rows(numbers)
    again = np.ones(len(order), dtype=np.bool_)
    again[:1] = False
    for column in numbers:
        ordered = column[order]
        again[1:] &= ordered[1:] == ordered[:-1]
    rows = order[again]
    rows = rows[np.argsort(part[rows], kind="stable")]
    known, starts = np.unique(part[rows], return_index=True)
    ends = (*starts[1:], len(rows))
    return {
        int(which): place[rows[start:end]]
        for which, start, end in zip(known, starts, ends, strict=False)
    }


def how_many(found: Mapping[int, Array]) -> dict[int, int]:
    return {part: len(places) for part, places in found.items()}


def places_of(found: Sequence[Mapping[int, Array]], part: int) -> Array:
    """The places of a part, of what all owners have found."""
    return np.concatenate([each[part] for each in found if part in each])
