"""How often values stand in a column, summed up; and a binary relation as one list per value."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gdatalog.records import dataclass, field
from gdatalog.storage.table import Array

# Of arrays, wherever they lie.
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

STRETCH = 1 << 18  # values that are compared at a time
MOMENTS = 8  # powers of degrees that are summed


@dataclass(frozen=True, slots=True)
class Degrees:
    """In how many rows each value of a column stands.

    `powers[k]` is the sum of the degrees' k-th powers over all values: 0 for how many values
    there are, 1 for the rows; what a row of the column sees is `powers[2] / powers[1]`.
    """

    most: int
    powers: tuple[float, ...]

    @staticmethod
    def of(counts: Array) -> Degrees:
        """From how often each value stands; zeros do not matter."""
        if len(counts) == 0:
            return Degrees(0, (0.0,) * (MOMENTS + 1))
        often = np.bincount(counts)
        degrees = np.flatnonzero(often)
        degrees = degrees[degrees > 0]
        return Degrees.of_often(degrees, often[degrees])

    @staticmethod
    def of_often(degrees: Array, often: Array) -> Degrees:
        """From the degrees that there are, ascending, and how many values have each."""
        terms = often.astype(np.float64)
        sizes = degrees.astype(np.float64)
        powers = []
        for _ in range(MOMENTS + 1):
            powers.append(float(terms.sum()))
            terms = terms * sizes
        return Degrees(int(degrees[-1]) if len(degrees) else 0, tuple(powers))

    @staticmethod
    def of_sample(counts: Array, step: int, length: int, values: int) -> Degrees:
        """From how often each value stands among every `step`-th row, one of `length`."""
        many = counts[counts > 1].astype(np.float64)
        falling = [float(values), float(length)]
        terms = many
        for at in range(1, MOMENTS):
            # Of d rows, c are in the sample: c(c-1)... stands for d(d-1)... / step^k.
            terms = terms * np.maximum(many - at, 0.0)
            falling.append(float(terms.sum()) * float(step) ** (at + 1))
        powers = [falling[0]]
        for k in range(1, MOMENTS + 1):
            powers.append(sum(_STIRLING[k][j] * falling[j] for j in range(1, k + 1)))
        return Degrees(max(1, int(counts.max()) * step if len(many) else 1), tuple(powers))


def _stirling(size: int) -> list[list[int]]:
    """Powers as sums of falling powers: row k has the factors of x^k."""
    rows = [[1] + [0] * size]
    for _ in range(size):
        last = rows[-1]
        rows.append([0, *(last[j - 1] + j * last[j] for j in range(1, size + 1))])
    return rows


_STIRLING = _stirling(MOMENTS)


@dataclass(frozen=True, slots=True)
class AdjacencyLists:
    """A binary relation as a list for each value of one column: what walks go along."""

    values: Array  # of the first column, ascending
    starts: Array  # of their lists among the children
    ends: Array
    children: Array
    picked: dict[Any, Any] = field(default_factory=dict)  # by samplers, of the values

    def cut(self, op: str) -> AdjacencyLists:
        """Only the children that a value is `op` to."""
        # Lists ascend: what is kept is at one of their ends.
        kept = np.empty(len(self.values), dtype=np.int64)
        lengths = self.ends - self.starts
        before = np.append(0, np.cumsum(lengths))
        low = 0
        while low < len(kept):  # children of some values at a time: few stay in the cache
            high = max(low + 1, int(np.searchsorted(before, before[low] + STRETCH, "right")) - 1)
            parents = np.repeat(self.values[low:high], lengths[low:high])
            passing = COMPARE[op](parents, self.children[before[low] : before[high]])
            count = np.append(0, np.cumsum(passing))[before[low : high + 1] - before[low]]
            kept[low:high] = np.diff(count)
            low = high
        if op in ("<", "<="):
            return AdjacencyLists(self.values, self.ends - kept, self.ends, self.children)
        return AdjacencyLists(self.values, self.starts, self.starts + kept, self.children)
