"""Statistics of groups of rows: quantiles, variances, correlations, modes.

A row counts as often as its weight says; rows whose value is null are not `there`. Each function
gives the value of each group, and which groups have one: the variance of one row is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.cancellation import working_space
from gdatalog.storage.grouped_rows import COUNTED, SMALL, group_rows
from gdatalog.storage.keys import key_to_float
from gdatalog.storage.rows import RowPacking, order_rows
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.cpu_ops.compiled_statistics import ColumnsByGroup

Columns = Sequence[Array]
Numbers = tuple[Array, bool]  # keys, and whether they are those of floats
Found = tuple[Array, Array]  # the values, and which of them there are
Products = Sequence[tuple[int, int]]  # each of columns by number
COMPILED = 1 << 19  # rows, from which compiled code takes them
_PRODUCTS = [(0, 1), (0, 0), (1, 1)]  # as compiled code sums them


class Groups:
    """Rows by group. The numbers of groups are below `size`; those that are `present` have rows,
    and their `keys` are the columns of the groups. Of the `rows` that are there: their weights
    (None: one each), and the numbers of their groups; and the sum of each group's weights."""

    def __init__(self, group: Columns, there: Array, weights: Array | None) -> None:
        length = len(there)
        with working_space("grouping", 24 * length):
            packing = RowPacking.of(group) if group and length else None
            size = 0 if packing is None else 1 << sum(packing.bits)
            if packing is None or size > max(COUNTED * length, SMALL):
                firsts, self.of = group_rows(group, length)
                size, keys = len(firsts), tuple(column[firsts] for column in group)
            else:
                self.of, keys = packing.pack(group), None
        self.size, self.counts = size, np.bincount(self.of, minlength=size)
        self.present = np.flatnonzero(self.counts)
        if keys is None and packing is not None:
            keys = packing.unpack(self.present, [column.dtype for column in group])
        self.keys: Columns = keys or ()
        self.rows: Array | slice = slice(None)
        if not there.all():
            self.rows = np.flatnonzero(there)
            self.of = self.of[self.rows]
        self.weights = None if weights is None else weights[self.rows].astype(np.int64)
        if len(self.of) < length or weights is not None:
            self.counts = np.bincount(self.of, self.weights, size).astype(np.int64)

    def centred(self, numbers: Sequence[Numbers], products: Products) -> Columns:
        """Sums by group of products of columns, each less its mean in the group. Of equal values
        the mean is exact."""
        by_group = self._by_group([keys for keys, _ in numbers])
        if by_group is not None:
            sums = by_group.centred([are_floats for _, are_floats in numbers])
            return [sums[_PRODUCTS.index(product)] for product in products]
        columns = [_floats(number)[self.rows] for number in numbers]
        some = [np.zeros(self.size) for _ in columns]
        for centre, column in zip(some, columns, strict=True):
            centre[self.of] = column
        sums = self._sums(columns, some, [(at,) for at in range(len(columns))])
        about = [centre + total / self.counts for centre, total in zip(some, sums, strict=True)]
        return self._sums(columns, about, products)

    def _sums(
        self, columns: Columns, about: Columns, products: Sequence[tuple[int, ...]]
    ) -> Columns:
        """Sums by group of products of columns, less a value of the group each, in the order of the
        rows."""
        less = [column - centre[self.of] for column, centre in zip(columns, about, strict=True)]
        weights = [] if self.weights is None else [self.weights]
        totals = [np.zeros(self.size) for _ in products]
        for total, places in zip(totals, products, strict=True):
            np.add.at(total, self.of, reduce(np.multiply, [*(less[at] for at in places), *weights]))
        return totals

    def _by_group(self, columns: Columns) -> ColumnsByGroup | None:
        """The columns of the rows, group after group; None if the rows are few or have weights, or
        the compiler does not work."""
        if len(self.of) < COMPILED or self.weights is not None:
            return None
        from gdatalog.cpu_ops.compiled_statistics import columns_by_group

        with working_space("grouping", 8 * len(columns) * len(self.of)):
            return columns_by_group(self.of, self.size, [column[self.rows] for column in columns])

    def at_places(self, keys: Array, places: Array) -> tuple[Array, Array]:
        """The keys at each group's place in the order of its keys, and at the next one, if there is
        one. Places count weights."""
        by_group = self._by_group([keys])
        if by_group is not None:
            return by_group.at_places(places)
        keys, counts = keys[self.rows], self.counts
        order = order_rows((self.of, keys)) if len(keys) else np.arange(0)
        before = np.cumsum(counts) - counts
        last = np.maximum(counts - 1, 0)
        wanted = [before + at for at in (places, np.minimum(places + 1, last))]
        if self.weights is not None:
            passed = np.cumsum(self.weights[order])
            wanted = [np.searchsorted(passed, at, side="right") for at in wanted]
        ordered = np.append(keys[order], 0)  # the last groups may have no rows
        return ordered[wanted[0]], ordered[wanted[1]]


def _floats(numbers: Numbers) -> Array:
    keys, are_floats = numbers
    return key_to_float(keys) if are_floats else keys.astype(np.float64)


def quantile(
    groups: Groups, keys: Array, share: float, between: Callable[[Array, Array, Array], Array]
) -> Found:
    """The value at a share of each group's rows, in the order of their keys. `between`: the value
    between two keys."""
    place = share * np.maximum(groups.counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    return between(*groups.at_places(keys, low), place - low), groups.counts > 0


def mode(groups: Groups, keys: Array) -> Found:
    """The row of the most frequent key of each group; of equally frequent ones the least."""
    rows = np.arange(len(keys))[groups.rows]
    firsts, pairs = group_rows((groups.of, keys[rows]), len(rows))
    counts = np.bincount(pairs, groups.weights, len(firsts)).astype(np.int64)
    found = np.zeros(groups.size, dtype=np.int64)
    if len(firsts):
        # the best of each group is written last
        order = order_rows((groups.of[firsts], counts, ~keys[rows[firsts]]))
        found[groups.of[firsts[order]]] = rows[firsts[order]]
    return found, groups.counts > 0


def variance(groups: Groups, numbers: Numbers) -> Found:
    """Of samples: divided by one less than the number of rows."""
    (squares,) = groups.centred([numbers], [(0, 0)])
    return squares / (groups.counts - 1), groups.counts > 1


def correlation(groups: Groups, one: Numbers, other: Numbers) -> Found:
    """Pearson's coefficient."""
    both, of_one, of_other = groups.centred([one, other], _PRODUCTS)
    size = np.sqrt(of_one) * np.sqrt(of_other)
    return np.clip(both / size, -1.0, 1.0), size != 0
