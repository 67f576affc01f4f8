"""Searches in the lists of levels on a device: one kernel each, a thread for each value."""

from __future__ import annotations

from typing import Any

from gdatalog.gpu_ops.arrays import Array
from gdatalog.gpu_ops.evaluate import ExpressionOperations
from gdatalog.gpu_ops.launching import type_of
from gdatalog.storage.trie import TrieLevel


class Searches(ExpressionOperations):
    """The verbs that look values up."""

    def level_of(self, values: Array, offsets: Array) -> TrieLevel:
        """Lists that are made on the way."""
        return TrieLevel(values, offsets, self.xp)

    def find(self, level: TrieLevel, values: Array) -> Array:
        """Positions of values in the root's list, -1 where absent: by index where dense."""
        size, dense = len(values), level.dense_index()
        values = self.xp.ascontiguousarray(values)
        found = self.xp.empty(size, dtype=self.place_of(len(level)))
        if not size:
            return found
        types = {"VALUE": type_of(level.values), "SOUGHT": type_of(values)}
        types |= {"OFFSET": "i64", "PARENT": "i64", "PLACE": type_of(found)}
        args: list[Any]
        if dense is not None:
            least, index = dense
            args = [index, values, found, least, len(index), size]
        else:
            args = [level.values, values, found, len(level), size]
        name = "find_sorted" if dense is None else "find_dense"
        self.kernels.launch('#include "lookup.cuh"\n', name, types, size, args)
        return found

    def find_in(self, level: TrieLevel, parents: Array, values: Array) -> Array:
        """Positions of values in their parents' lists, -1 where absent."""
        found = self.xp.empty(len(values), dtype=self.place_of(len(level)))
        return self._search("find_in", level, parents, values, found)

    def bound_in(self, level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
        """Where in its parent's list each value would stand; behind an equal one if asked."""
        found = self.xp.empty(len(values), dtype=self.xp.int64)
        return self._search("bound_in", level, parents, values, found, int(after_equal))

    def _search(
        self, name: str, level: TrieLevel, parents: Array, values: Array, found: Array, *how: int
    ) -> Array:
        size = len(values)
        if not size:
            return found
        values = self.xp.ascontiguousarray(values)
        types = {
            "VALUE": type_of(level.values),
            "OFFSET": type_of(level.offsets),
            "PARENT": type_of(parents),
            "SOUGHT": type_of(values),
            "PLACE": type_of(found),
        }
        args = [level.values, level.offsets, parents, values, found, *how, size]
        self.kernels.launch('#include "lookup.cuh"\n', name, types, size, args)
        return found
