"""Statistics of groups of rows: quantiles, variances, correlations, modes.

A row counts as often as its weight says; rows whose value is null are not `there`. Each function
gives the value of each group, and which groups have one: the variance of one row is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.rows import order_rows
from gdatalog.storage.table import Array

Found = tuple[Array, Array]  # the values, and which of them there are


class Groups:
    """Rows by group: `firsts`, a row of each group, and of the rows that are there their weights
    and the numbers of their groups."""

    def __init__(self, group: Sequence[Array], there: Array, weights: Array | None) -> None:
        self.firsts, numbers = group_rows(group, len(there))
        self.rows = np.flatnonzero(there)
        self.of = numbers[self.rows]
        ones = np.ones(len(self.rows), dtype=np.int64)
        self.weights = ones if weights is None else weights[self.rows].astype(np.int64)
        self.counts = self.sums(self.weights)

    def sums(self, values: Array) -> Array:
        found: Array = np.bincount(self.of, weights=values, minlength=len(self.firsts))
        return found

    def centred(self, values: Array) -> Array:
        """Values without the mean of their group; 0 if all are equal."""
        values = values[self.rows]
        some = np.zeros(len(self.firsts))
        some[self.of] = values
        differ = self.sums(values != some[self.of]) > 0
        means = np.where(differ, self.sums(values * self.weights) / self.counts, some)
        found: Array = values - means[self.of]
        return found


def quantile(
    groups: Groups, keys: Array, share: float, between: Callable[[Array, Array, Array], Array]
) -> Found:
    """The value at a share of each group's rows, in the order of their keys. `between`: the value
    between those of two rows."""
    order = order_rows((groups.of, keys[groups.rows])) if len(groups.rows) else groups.rows
    passed = np.append(np.cumsum(groups.weights[order]), 0)
    place = share * np.maximum(groups.counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    counts = groups.counts.astype(np.int64)
    before = np.cumsum(counts) - counts
    sorted_rows = np.append(groups.rows[order], 0)
    lower, upper = (
        sorted_rows[np.searchsorted(passed[:-1], before + at, side="right")]
        for at in (low, np.minimum(low + 1, np.maximum(counts - 1, 0)))
    )
    return between(lower, upper, place - low), counts > 0


def mode(groups: Groups, keys: Array) -> Found:
    """The row of the most frequent key of each group; of equally frequent ones the least."""
    firsts, pairs = group_rows((groups.of, keys[groups.rows]), len(groups.rows))
    counts = np.bincount(pairs, weights=groups.weights, minlength=len(firsts)).astype(np.int64)
    found = np.zeros(len(groups.firsts), dtype=np.int64)
    if len(firsts):
        # the best of each group is written last
        order = order_rows((groups.of[firsts], counts, ~keys[groups.rows[firsts]]))
        found[groups.of[firsts[order]]] = groups.rows[firsts[order]]
    return found, groups.counts > 0


def variance(groups: Groups, values: Array) -> Found:
    """Of samples: divided by one less than the number of rows."""
    centred = groups.centred(values)
    squares = groups.sums(groups.weights * centred * centred)
    return squares / (groups.counts - 1), groups.counts > 1


def correlation(groups: Groups, one: Array, other: Array) -> Found:
    """Pearson's coefficient."""
    a, b = groups.centred(one), groups.centred(other)
    both, of_one, of_other = (
        groups.sums(groups.weights * x * y) for x, y in ((a, b), (a, a), (b, b))
    )
    size = np.sqrt(of_one) * np.sqrt(of_other)
    return np.clip(both / size, -1.0, 1.0), size != 0
