"""What the kernels of a level read: arrays and numbers, and the shape that decides the sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import (
    Choice,
    ListEntries,
    ListRuns,
    Lookup,
    Sought,
    Through,
    TrieLevel,
    ValueTests,
)


class LevelArguments:
    """`values`: the arrays and numbers. `shape`: levels of the same shape have the same kernels;
    it says which arrays are the same ones, as numbers, and what they are, as anything else."""

    def __init__(
        self, choices: Sequence[Choice], others: Sequence[Lookup], tests: ValueTests
    ) -> None:
        self.values: list[Any] = []
        self._at: dict[object, int] = {}  # by the id of an array, or with the name of a number
        self._shape: list[object] = []
        for choice in choices:
            self._choice(choice)
        for lookup in others:
            self._shape.append(str(lookup.wanted))
            self._root(lookup.level)
        for op, column in tests:
            self._shape.append(op)
            self._column(column)
        self.shape = tuple(self._shape)

    def of(self, array: Array, number: str = "") -> int:
        """The place among the values of an array, or of a number that belongs to it."""
        return self._at[(id(array), number) if number else id(array)]

    def _array(self, array: Array) -> None:
        at = self._at.get(id(array))
        if at is None:
            at = self._at[id(array)] = len(self.values)
            self.values.append(array if array.flags.c_contiguous else array.copy())
            self._shape.append(array.dtype.char)
        self._shape.append(at)

    def _number(self, array: Array, name: str, value: int) -> None:
        if (id(array), name) not in self._at:
            self._at[id(array), name] = len(self.values)
            self.values.append(value)

    def _choice(self, choice: Choice) -> None:
        lists, lookup = choice.lists, choice.lookup
        self._shape += [type(lists), str(lookup.wanted)]
        self._array(lists.values)
        if isinstance(lists, ListEntries):
            self._array(lists.starts)
            self._array(lists.lengths)
        elif isinstance(lists, ListRuns):
            self._array(lists.parents)
            self._shape += lists.cuts
            for array in (lists.lows, lists.highs):
                if array is not None:
                    self._array(array)
            return
        else:
            self._array(lists.level.offsets)
            self._column(lists.parents)
            for op, bounds in lists.cuts:
                self._shape.append(op)
                self._column(bounds)
        if lookup.parents is not None:
            self._shape.append(Lookup)
            self._array(lookup.level.values)
            self._array(lookup.level.offsets)
            self._column(lookup.parents)

    def _column(self, column: Array | Through | Sought) -> None:
        if isinstance(column, Sought):
            self._shape.append(Sought)
            self._root(column.level)
            column = column.values
        if isinstance(column, Through):
            self._shape.append((Through, len(column.rows)))
            for rows in column.rows:
                self._array(rows)
            column = column.values
        self._array(column)

    def _root(self, level: TrieLevel) -> None:
        dense = level.dense_index()
        if dense is None:
            self._array(level.values)
            self._number(level.values, "size", len(level))
            return
        least, index = dense
        self._shape.append("dense")
        self._array(index)
        self._number(index, "least", least)
        self._number(index, "size", len(index))
