"""What depends on the order of rows: numbers of rows, their neighbours, running sums, and what is
picked of each group. Columns hold keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.ordered import first_of
from gdatalog.storage.rows import order_rows, row_firsts
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges
from gdatalog.values import INT_MAX, INT_MIN, NULL

FILTERED_FROM = 1 << 16  # rows; fewer are sorted at once


class OrderedRows:
    """Rows, sorted by group, and within each by some keys and then by others that break ties.

    `order`: the places of the rows in this order; `opens`: which of these begin a group, `peers`:
    which differ from the one before in group or keys.
    """

    def __init__(
        self, length: int, group: Sequence[Array], keys: Sequence[Array], ties: Sequence[Array]
    ) -> None:
        every = (*group, *keys, *ties)
        self.order = order_rows(every) if every else np.arange(length)
        self.opens = self._changes(group)
        self.peers = self._changes((*group, *keys))

    def _changes(self, columns: Sequence[Array]) -> Array:
        if not columns:
            alone: Array = np.arange(len(self.order)) == 0
            return alone
        return row_firsts([column[self.order] for column in columns])

    def starts(self) -> Array:
        """Where the group of each row begins."""
        found: Array = np.maximum.accumulate(np.where(self.opens, np.arange(len(self.order)), 0))
        return found

    def in_place(self, values: Array) -> Array:
        """Values of the sorted rows, at the rows' own places."""
        found = np.empty_like(values)
        found[self.order] = values
        return found

    def row_number(self) -> Array:
        return self.in_place(np.arange(1, len(self.order) + 1) - self.starts())

    def rank(self) -> Array:
        first = np.maximum.accumulate(np.where(self.peers, np.arange(len(self.order)), 0))
        return self.in_place(first + 1 - self.starts())

    def dense_rank(self) -> Array:
        number = np.cumsum(self.peers)
        return self.in_place(number + 1 - number[self.starts()] if len(number) else number)

    def neighbour(self, values: Array, default: Array, before: bool) -> Array:
        """The value of the row before or after in the group; the row's default if there is none."""
        values, found = values[self.order], default[self.order].astype(np.int64)
        if before:
            inner = np.flatnonzero(~self.opens)
            found[inner] = values[inner - 1]
        else:
            inner = np.flatnonzero(~self.opens[1:])
            found[inner] = values[inner + 1]
        return self.in_place(found)

    def running_sum(self, values: Array, of_floats: bool) -> Array | None:
        """The sums of each row's value and those before; None if one leaves 64 bits, or is not a
        number."""
        values = values[self.order]
        bounds = [*np.flatnonzero(self.opens).tolist(), len(values)]
        if of_floats:
            numbers = key_to_float(values)
            with np.errstate(over="ignore", invalid="ignore"):
                for start, stop in pairwise(bounds):
                    np.cumsum(numbers[start:stop], out=numbers[start:stop])
            return None if np.isnan(numbers).any() else self.in_place(float_to_key(numbers))
        values = values.astype(np.int64)
        starts = self.starts()
        halves = [_running(part, starts) for part in (values >> 32, values & 0xFFFF_FFFF)]
        high = halves[0] + (halves[1] >> 32)
        if len(high) and (high.max() > INT_MAX >> 32 or high.min() < INT_MIN >> 32):
            return None
        return self.in_place((high << 32) | (halves[1] & 0xFFFF_FFFF))


def _running(values: Array, starts: Array) -> Array:
    """Running sums of numbers of 33 bits."""
    sums = np.cumsum(values)
    found: Array = sums - (sums - values)[starts] if len(sums) else sums
    return found


def top(
    group: Sequence[Array], item: Array, item_key: Array, keys: Sequence[Array], most: int
) -> Array:
    """The places of rows with the first `most` items of each group by some keys. An item counts
    once, by its first row. `item_key`: what ties are broken by."""
    length = len(item)
    if not most or not length:
        return np.arange(0)
    if not group:
        return _top_of_all(item, (*keys, item_key), most)
    among = _hopeful(group, item, keys, most)
    if among is None:
        return _top_of_groups(group, item, item_key, keys, most)[0]
    group, keys = ([column[among] for column in columns] for columns in (group, keys))
    found, _ = _top_of_groups(group, item[among], item_key[among], keys, most)
    places: Array = among[found]
    return places


def _top_of_groups(
    group: Sequence[Array], item: Array, item_key: Array, keys: Sequence[Array], most: int
) -> tuple[Array, Array]:
    """The places of these rows, and which of them are the last of `most`."""
    rows = OrderedRows(len(item), (*group, item), keys, ())
    firsts = rows.order[rows.opens]
    if len(firsts) == len(item):
        firsts = np.arange(len(item))
    kept = OrderedRows(
        len(firsts),
        [column[firsts] for column in group],
        [key[firsts] for key in keys],
        [item_key[firsts]],
    )
    numbers = kept.row_number()
    few = numbers <= most
    return firsts[few], numbers[few] == most


def _hopeful(group: Sequence[Array], item: Array, keys: Sequence[Array], most: int) -> Array | None:
    """The places of rows that may be among the first `most` of their group; None if most may be.

    Of every `step`-th row the first `most` of each group are found: what comes after the last of
    them by the first key is not among them. Rows are left for sorting as many as in the sample.
    """
    length = len(item)
    if length < FILTERED_FROM:
        return None
    groups = group_rows(group, length)[1]
    count = int(groups.max()) + 1
    step = math.isqrt(length // (most * count))
    if step < 2:
        return None
    sample = slice(None, None, step)
    key, numbers = keys[0], groups[sample]
    found, last = _top_of_groups(
        [numbers], item[sample], item[sample], [column[sample] for column in keys], most
    )
    bounds: Array = np.full(count, np.iinfo(key.dtype).max, dtype=key.dtype)
    bounds[numbers[found[last]]] = key[sample][found[last]]
    keep = np.empty(length, dtype=np.bool_)

    def fill(part: slice) -> None:
        np.less_equal(key[part], bounds[groups[part]], out=keep[part])

    in_ranges(fill, length)
    return np.flatnonzero(keep)


def _top_of_all(item: Array, keys: Sequence[Array], most: int) -> Array:
    """The same without groups: a scan finds enough rows."""
    length = len(item)
    wanted = most
    while True:
        places = first_of(tuple(keys), min(wanted, length))
        _, firsts = np.unique(item[places], return_index=True)
        if len(firsts) >= most or wanted >= length:
            return places[np.sort(firsts)[:most]]
        wanted *= 4


def joined(
    rows: OrderedRows, codes: Array, texts_of: Callable[[Array], list[str]], separator: str
) -> tuple[Array, list[str]]:
    """The texts of each group one after the other: the place of a row of each group, and these.
    Nulls are left out."""
    starts, codes = np.flatnonzero(rows.opens), codes[rows.order]
    there = codes != NULL
    texts = texts_of(codes[there])
    before = np.append(0, np.cumsum(there))  # how many texts
    bounds = pairwise([*before[starts].tolist(), len(texts)])
    return rows.order[starts], [separator.join(texts[start:stop]) for start, stop in bounds]
