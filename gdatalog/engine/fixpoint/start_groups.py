"""The initial rows of a partitioned fixpoint, grouped by the partition column."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.plan import join_plan as p
from gdatalog.records import dataclass
from gdatalog.storage.key_space import span_of
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie


@dataclass(frozen=True, slots=True)
class RowsByColumn:
    """Rows grouped by a column: its distinct `values` in ascending order; the rows of the k-th
    value have the other columns in `columns`, from `starts[k]` to `starts[k + 1]`. `xp`: the array
    module."""

    values: Array
    starts: Array
    columns: Mapping[int, Array]
    xp: Any = np

    def among(self, values: Array) -> Array:
        """Where the rows of each of these values start; they include all of `self.values`."""
        if len(values) == len(self.values):
            return self.starts
        xp = self.xp
        counts = xp.zeros(len(values) + 1, dtype=xp.int64)
        counts[xp.searchsorted(values, self.values) + 1] = xp.diff(self.starts)
        found: Array = xp.cumsum(counts)
        return found

    def between(self, low: int, high: int) -> RowsByColumn:
        """The rows of the host of the values from one on, below another."""
        first, last = bisect_left(self.values, low), bisect_left(self.values, high)
        start, end = self.starts[first], self.starts[last]
        columns = {at: column[start:end] for at, column in self.columns.items()}
        return RowsByColumn(self.values[first:last], self.starts[first : last + 1] - start, columns)

    def on(self, xp: Any) -> RowsByColumn:
        """The same rows with arrays of a device, or of the host."""
        given = brought if xp is np else xp.asarray
        columns = {at: given(column) for at, column in self.columns.items()}
        return RowsByColumn(given(self.values), given(self.starts), columns, xp)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arrays of the host, because a module cannot be pickled."""
        here = self.on(np)
        return RowsByColumn, (here.values, here.starts, here.columns)

    def span(self, column: int) -> Span | None:
        return span_of(self.columns[column])


def repeated(values: Array, counts: Array, xp: Any) -> Array:
    """Repeats each value as its count says: CuPy's `repeat` takes no array of counts."""
    if xp is np:
        return np.repeat(values, counts)
    ends = xp.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Array = values[xp.searchsorted(ends, xp.arange(total), side="right")]
    return found


def order_by(split: int, arity: int) -> tuple[int, ...]:
    """The columns, the partition column first."""
    return (split, *(column for column in range(arity) if column != split))


def grouped(trie: Trie, order: Sequence[int]) -> RowsByColumn:
    """The rows of a trie whose levels are the columns in this order."""
    first, *others = trie.levels
    xp = first.xp
    starts = xp.arange(len(first) + 1, dtype=xp.int64)
    columns: dict[int, Array] = {}
    for level, column in zip(others, order[1:], strict=True):
        offsets = level.offsets
        for at, values in columns.items():
            columns[at] = repeated(values, xp.diff(offsets), xp)
        starts = offsets[starts].astype(xp.int64)
        columns[column] = xp.ascontiguousarray(level.values)
    return RowsByColumn(first.values, starts, columns, xp)


def copied(plan: p.RulePlan, split: int) -> p.TrieRef | None:
    """The trie that holds exactly a rule's output, by the partition column; None if the rule does
    more than copying rows."""
    if len(plan.joins) != 1 or plan.gathers:
        return None
    (join,) = plan.joins
    if len(join.tries) != 1 or len(join.steps) != len(join.outputs) or join.bag:
        return None
    (ref,) = join.tries
    columns: dict[str, int] = {}
    for step in join.steps:
        if not isinstance(step, p.Join) or len(step.participants) != 1:
            return None
        if len({cut for _, cut in step.implied}) != len(step.cuts):
            return None
        columns[step.variable] = ref.columns[step.participants[0].depth]
    asked = [output.name for output in join.outputs if isinstance(output, p.Slot)]
    if sorted(asked) != sorted(columns) or ref.tests or ref.ranked or ref.weighted:
        return None
    ordered = [columns[asked[at]] for at in order_by(split, len(asked))]
    return p.TrieRef(ref.relation, "full", tuple(ordered))
