"""Statistics of groups of rows: quantiles, variances, correlations, modes.

A row counts as often as its weight says; rows whose value is null are not `there`. Each function
gives the value of each group, and which groups have one: the variance of one row is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.rows import order_rows
from gdatalog.storage.table import Array

Found = tuple[Array, Array]  # the values, and which of them there are
Columns = Sequence[Array]
Products = Sequence[tuple[int, ...]]  # each of columns by number
BLOCK = 1 << 16  # rows


class Groups:
    """Rows by group: `firsts`, a row of each group; of the `rows` that are there their weights
    (None: one each) and the numbers of their groups; and the sum of each group's weights."""

    def __init__(self, group: Sequence[Array], there: Array, weights: Array | None) -> None:
        self.firsts, self.of = group_rows(group, len(there))
        self.rows: Array | slice = slice(None)
        if not there.all():
            self.rows = np.flatnonzero(there)
            self.of = self.of[self.rows]
        self.weights = None if weights is None else weights[self.rows].astype(np.int64)
        self.counts = np.bincount(self.of, self.weights, len(self.firsts)).astype(np.int64)

    def sums(self, columns: Sequence[Array], about: Sequence[Array], products: Products) -> Columns:
        """Sums by group of products of columns, less a value of the group each. Blocks of rows are
        added one after the other, as their temporary arrays fit into a cache."""
        totals = [np.zeros(len(self.firsts)) for _ in products]
        for start in range(0, len(self.of), BLOCK):
            part = slice(start, start + BLOCK)
            of = self.of[part]
            less = [
                column[part] - centre.take(of)
                for column, centre in zip(columns, about, strict=True)
            ]
            for total, places in zip(totals, products, strict=True):
                factors = [less[at] for at in places]
                factors += [] if self.weights is None else [self.weights[part]]
                np.add.at(total, of, reduce(np.multiply, factors))
        return totals

    def centred(self, columns: Sequence[Array], products: Products) -> Columns:
        """Sums by group of products of columns, each less its mean in the group. Of equal values
        the mean is exact."""
        columns = [column[self.rows] for column in columns]
        some = [np.zeros(len(self.firsts)) for _ in columns]
        for centre, column in zip(some, columns, strict=True):
            centre[self.of] = column
        sums = self.sums(columns, some, [(at,) for at in range(len(columns))])
        about = [centre + total / self.counts for centre, total in zip(some, sums, strict=True)]
        return self.sums(columns, about, products)


def quantile(
    groups: Groups, keys: Array, share: float, between: Callable[[Array, Array, Array], Array]
) -> Found:
    """The value at a share of each group's rows, in the order of their keys. `between`: the value
    between those of two rows."""
    keys, counts = keys[groups.rows], groups.counts
    order = order_rows((groups.of, keys)) if len(keys) else np.arange(0)
    place = share * np.maximum(counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    before = np.cumsum(counts) - counts
    wanted = [before + at for at in (low, np.minimum(low + 1, np.maximum(counts - 1, 0)))]
    if groups.weights is not None:
        passed = np.cumsum(groups.weights[order])
        wanted = [np.searchsorted(passed, at, side="right") for at in wanted]
    rows = order if isinstance(groups.rows, slice) else groups.rows[order]
    lower, upper = (np.append(rows, 0)[at] for at in wanted)
    return between(lower, upper, place - low), counts > 0


def mode(groups: Groups, keys: Array) -> Found:
    """The row of the most frequent key of each group; of equally frequent ones the least."""
    rows = np.arange(len(keys))[groups.rows]
    firsts, pairs = group_rows((groups.of, keys[rows]), len(rows))
    counts = np.bincount(pairs, groups.weights, len(firsts)).astype(np.int64)
    found = np.zeros(len(groups.firsts), dtype=np.int64)
    if len(firsts):
        # the best of each group is written last
        order = order_rows((groups.of[firsts], counts, ~keys[rows[firsts]]))
        found[groups.of[firsts[order]]] = rows[firsts[order]]
    return found, groups.counts > 0


def variance(groups: Groups, values: Array) -> Found:
    """Of samples: divided by one less than the number of rows."""
    (squares,) = groups.centred([values], [(0, 0)])
    return squares / (groups.counts - 1), groups.counts > 1


def correlation(groups: Groups, one: Array, other: Array) -> Found:
    """Pearson's coefficient."""
    both, of_one, of_other = groups.centred([one, other], [(0, 1), (0, 0), (1, 1)])
    size = np.sqrt(of_one) * np.sqrt(of_other)
    return np.clip(both / size, -1.0, 1.0), size != 0
