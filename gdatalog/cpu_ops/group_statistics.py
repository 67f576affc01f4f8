"""Statistics of groups of rows: quantiles, variances, correlations, modes. Each row counts as often
as its weight says. Groups without a value, such as the variance of one row, are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gdatalog.cpu_ops.ordered_groups import OrderedRows
from gdatalog.storage.table import Array

Found = tuple[Array, Array]  # a row of each group, and the group's value


class WeightedGroups:
    """Rows in the order of their groups, and within them of some keys."""

    def __init__(self, weights: Array, group: Sequence[Array], keys: Sequence[Array]) -> None:
        rows = OrderedRows(len(weights), group, keys, ())
        self.order = rows.order
        self.starts = np.flatnonzero(rows.opens)
        self.sizes = np.diff(np.append(self.starts, len(weights)))  # rows of each group
        self.weights = weights[rows.order].astype(np.int64)
        self.counts = self.sums(self.weights)

    def sums(self, values: Array) -> Array:
        """The sum of each group."""
        if not len(self.starts):
            return values[:0]
        found: Array = np.add.reduceat(values, self.starts)
        return found

    def centred(self, values: Array) -> Array:
        """Values of the sorted rows without the mean of their group; 0 if all are equal."""
        means = self.sums(values * self.weights) / self.counts
        if len(self.starts):
            least = np.minimum.reduceat(values, self.starts)
            means = np.where(least == np.maximum.reduceat(values, self.starts), least, means)
        found: Array = values - np.repeat(means, self.sizes)
        return found

    def found(self, kept: Array, values: Array) -> Found:
        return self.order[self.starts[kept]], values[kept]


def quantile(
    weights: Array, group: Sequence[Array], key: Array, share: float,
    between: Callable[[Array, Array, Array], Array],
) -> Found:  # fmt: skip
    """The value at a share of each group's rows, in the order of `key`; `between`: a value between
    those of two rows."""
    rows = WeightedGroups(weights, group, (key,))
    passed = np.cumsum(rows.weights)
    place = share * (rows.counts - 1)
    low = np.floor(place).astype(np.int64)
    before = passed[rows.starts] - rows.weights[rows.starts]
    lower, upper = (
        rows.order[np.searchsorted(passed, before + at, side="right")]
        for at in (low, np.minimum(low + 1, rows.counts - 1))
    )
    return rows.order[rows.starts], between(lower, upper, place - low)


def mode(weights: Array, group: Sequence[Array], key: Array) -> Array:
    """For each group a row with its most frequent value; of equally frequent ones the least."""
    rows = WeightedGroups(weights, (*group, key), ())
    firsts = rows.order[rows.starts]
    columns = [column[firsts] for column in group]
    kept = OrderedRows(len(firsts), columns, (-rows.counts, key[firsts]), ())
    found: Array = firsts[kept.order[kept.opens]]
    return found


def variance(weights: Array, group: Sequence[Array], values: Array) -> Found:
    """Of samples: divided by one less than the number of rows."""
    rows = WeightedGroups(weights, group, ())
    centred = rows.centred(values[rows.order])
    squares = rows.sums(rows.weights * centred * centred)
    return rows.found(rows.counts > 1, squares / np.maximum(rows.counts - 1, 1))


def correlation(weights: Array, group: Sequence[Array], one: Array, other: Array) -> Found:
    """Pearson's coefficient."""
    rows = WeightedGroups(weights, group, ())
    a, b = (rows.centred(values[rows.order]) for values in (one, other))
    both, of_one, of_other = (rows.sums(rows.weights * x * y) for x, y in ((a, b), (a, a), (b, b)))
    size = np.sqrt(of_one) * np.sqrt(of_other)
    return rows.found(size != 0, np.clip(both / np.where(size == 0, 1, size), -1.0, 1.0))
