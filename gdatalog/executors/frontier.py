"""A frontier: the bindings of a level as (parent, value) arrays, never as rows.

A frontier stores the parent row of each of its rows and the columns that its level added; earlier
columns are gathered through the parents on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.executors.ops import Ops
from gdatalog.storage.table import Array
from gdatalog.storage.trie import TrieLevel

# Columns are named by variables, by tries (their number: the node that the trie stands at),
# and by WEIGHT: how many bindings a row stands for.
Key = str | int
WEIGHT = "#"
FAR = 8  # frontiers, above which a column that was found is remembered


class Frontier:
    __slots__ = ("_gathered", "_lists", "columns", "level", "parent", "rows", "size", "whole")

    def __init__(
        self,
        size: int,
        parent: Frontier | None = None,
        rows: Array | None = None,
        columns: dict[Key, Array] | None = None,
    ) -> None:
        self.size = size
        self.parent = parent
        self.rows = rows  # None: the parent's rows, one to one
        self.columns = {} if columns is None else columns  # that this frontier added
        self._gathered: dict[Key, Array] = {}  # others, once somebody has asked for them
        self.level: str | None = None  # the variable whose lists this frontier is
        self.whole = True  # whether those lists are whole: no chunk cuts one
        self._lists: TrieLevel | None = None

    def above(self) -> Iterator[Frontier]:
        """This frontier and its ancestors."""
        frontier: Frontier | None = self
        while frontier is not None:
            yield frontier
            frontier = frontier.parent

    def has(self, key: Key) -> bool:
        return any(key in frontier.columns for frontier in self.above())

    def column(self, key: Key) -> Array:
        """A column in the order of this frontier's rows, gathered through the parents."""
        below: list[Frontier] = []
        for frontier in self.above():
            found = frontier.columns.get(key)
            if found is None:
                found = frontier._gathered.get(key)
            if found is not None:
                break
            below.append(frontier)
        else:
            raise AssertionError(key)
        for frontier in reversed(below):
            if frontier.rows is not None:
                found = frontier._gathered[key] = found[frontier.rows]
        if len(below) > FAR:
            self._gathered[key] = found
        return found

    def take(self, rows: Array) -> Frontier:
        return Frontier(len(rows), self, rows)

    def adding(self, columns: dict[Key, Array]) -> Frontier:
        """The same rows with more columns."""
        return Frontier(self.size, self, None, columns)

    def lists(self, ops: Ops) -> TrieLevel:
        """This level's values as lists, one for each parent row."""
        if self._lists is None:
            assert self.parent is not None and self.rows is not None and self.level is not None
            bounds = ops.xp.searchsorted(self.rows, ops.xp.arange(self.parent.size + 1))
            self._lists = ops.level_of(self.columns[self.level], bounds)
        return self._lists


def weight_of(frontier: Frontier) -> Array | None:
    """How many bindings each row represents; None: one each."""
    return frontier.column(WEIGHT) if frontier.has(WEIGHT) else None


def times(ops: Ops, counts: Array, weight: Array | None) -> Array:
    """Multiplies counts; raises an error if a product does not fit into 64 bits."""
    product: Array = counts if weight is None else ops.times(counts, weight)
    return product


def signed_sum(
    ops: Ops, counts: Sequence[Array], terms: Sequence[tuple[int, tuple[int, ...]]]
) -> Array:
    """A signed sum of products of counts; raises an error if one does not fit into 64 bits."""
    total: Array = ops.xp.zeros_like(counts[0])
    for coefficient, (first, *others) in terms:
        product = counts[first]
        for number in others:
            product = times(ops, product, counts[number])
        total = total + coefficient * product
    return total


def weighing(ops: Ops, frontier: Frontier, weight: Array) -> Frontier:
    """The same rows with weights multiplied by these."""
    return frontier.adding({WEIGHT: times(ops, weight, weight_of(frontier))})
