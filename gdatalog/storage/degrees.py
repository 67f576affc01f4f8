"""Degrees of values, and adjacency lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.records import dataclass, field
from gdatalog.storage.row_tests import COMPARE, STRETCH
from gdatalog.storage.rows import firsts
from gdatalog.storage.table import Array

MOMENTS = 8  # powers of degrees that are summed


@dataclass(frozen=True, slots=True)
class Degrees:
    """The distribution of degrees: a value's degree is the number of rows with it in a column.

    `powers[k]` is the sum of the degrees' k-th powers over all values: `powers[0]` is the number of
    values, `powers[1]` the number of rows. `powers[2] / powers[1]` is the mean degree over rows.
    """

    most: int
    powers: tuple[float, ...]

    @staticmethod
    def of(counts: Array) -> Degrees:
        """From the degree of each value; zeros are ignored."""
        if len(counts) == 0:
            return Degrees(0, (0.0,) * (MOMENTS + 1))
        often = np.bincount(counts)
        degrees = np.flatnonzero(often)
        degrees = degrees[degrees > 0]
        return Degrees.of_often(degrees, often[degrees])

    @staticmethod
    def of_often(degrees: Array, often: Array) -> Degrees:
        """From the distinct degrees, ascending, and how many values have each."""
        terms = often.astype(np.float64)
        sizes = degrees.astype(np.float64)
        powers = []
        for _ in range(MOMENTS + 1):
            powers.append(float(terms.sum()))
            terms = terms * sizes
        return Degrees(int(degrees[-1]) if len(degrees) else 0, tuple(powers))

    @staticmethod
    def of_sample(counts: Array, step: int, length: int, values: int) -> Degrees:
        """From how often each value occurs in every `step`-th of `length` rows."""
        many = counts[counts > 1].astype(np.float64)
        falling = [float(values), float(length)]
        terms = many
        for at in range(1, MOMENTS):
            # If c of d rows are in the sample, c(c-1)... estimates d(d-1)... / step^k.
            terms = terms * np.maximum(many - at, 0.0)
            falling.append(float(terms.sum()) * float(step) ** (at + 1))
        powers = [falling[0]]
        for k in range(1, MOMENTS + 1):
            powers.append(sum(_STIRLING[k][j] * falling[j] for j in range(1, k + 1)))
        return Degrees(max(1, int(counts.max()) * step if len(many) else 1), tuple(powers))


def _stirling(size: int) -> list[list[int]]:
    """Powers as sums of falling factorials: row k has the coefficients of x^k."""
    rows = [[1] + [0] * size]
    for _ in range(size):
        last = rows[-1]
        rows.append([0, *(last[j - 1] + j * last[j] for j in range(1, size + 1))])
    return rows


_STIRLING = _stirling(MOMENTS)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class AdjacencyLists:
    """A binary relation as a list for each value of one column, for random walks."""

    values: Array  # of the first column, ascending
    starts: Array  # of their lists in `children`
    ends: Array
    children: Array
    picked: dict[Any, Any] = field(default_factory=dict)  # samplers cache draws of values here
    _cuts: dict[str, AdjacencyLists] = field(default_factory=dict)

    @staticmethod
    def of(left: Array, right: Array) -> AdjacencyLists:
        """The lists of sorted rows."""
        starts = np.flatnonzero(firsts(left))
        ends = np.append(starts[1:], len(left))[: len(starts)]
        return AdjacencyLists(left[starts], starts, ends, right)

    def cut(self, op: str, parents: Array | None = None) -> AdjacencyLists:
        """Keeps the children for which `value op child` holds. `parents`: the value of each child,
        if it is available and the lists cover all children."""
        if op not in self._cuts:
            self._cuts[op] = self._cut(op, parents)
        return self._cuts[op]

    def _cut(self, op: str, parents: Array | None) -> AdjacencyLists:
        # Lists ascend, so the kept children are at one of their ends.
        kept = np.empty(len(self.values), dtype=np.int64)
        lengths = self.ends - self.starts
        before = np.append(0, np.cumsum(lengths))
        low = 0
        while low < len(kept):  # in batches of children that fit in the cache
            high = max(low + 1, int(np.searchsorted(before, before[low] + STRETCH, "right")) - 1)
            first, last = before[low], before[high]
            if parents is None:
                these = np.repeat(self.values[low:high], lengths[low:high])
            else:
                these = parents[first:last]
            passing = np.flatnonzero(COMPARE[op](these, self.children[first:last]))
            kept[low:high] = np.diff(np.searchsorted(passing, before[low : high + 1] - first))
            low = high
        if op in ("<", "<="):
            return AdjacencyLists(self.values, self.ends - kept, self.ends, self.children)
        return AdjacencyLists(self.values, self.starts, self.starts + kept, self.children)
