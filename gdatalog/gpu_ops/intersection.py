"""Operations of a device that look values up, and that expand levels: by one kernel
(`fused_level.py`), or by array operations while it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from gdatalog.gpu_ops.evaluate import ExpressionOperations
from gdatalog.gpu_ops.fused_level import FusedLevel, UncountedRows
from gdatalog.gpu_ops.kernels import TILE, WAVES, text_of, type_of
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import Choice, ListEntries, Lookup, TrieLevel, ValueTests

_SORTED, _PAIRS = '#include "sorted.cuh"\n', '#include "sorted_pairs.cuh"\n'
# How often a GPU's blocks may start anew, and how many keys each has (as in sorted.cuh).
_LAUNCHES = {_SORTED: (64, 8 * TILE), _PAIRS: (WAVES, TILE)}
STEP_BYTES = 64  # of each candidate, if array operations expand a level


class Searches(ExpressionOperations):
    """Operations that look values up."""

    def level_of(self, values: Array, offsets: Array) -> TrieLevel:
        """A level of temporary lists."""
        return TrieLevel(values, offsets, self.xp)

    def find(self, level: TrieLevel, values: Array) -> Array:
        """Positions of values in the root's list, -1 if absent; by index if the root is dense."""
        place = self.place_of(len(level))
        if level.dense_index() is None:
            found = self._looked_up("look_up_sorted", _SORTED, level, values, None)
            if found is not None:
                return found
        return self._searched(level, None, values, place, None)

    def find_in(self, level: TrieLevel, parents: Array, values: Array) -> Array:
        """Positions of values in their parents' lists, -1 if absent."""
        place = self.place_of(len(level))
        found = self._looked_up("look_up_pairs", _PAIRS, level, values, parents)
        return self._searched(level, parents, values, place, None) if found is None else found

    def _looked_up(
        self, name: str, text: str, level: TrieLevel, values: Array, parents: Array | None
    ) -> Array | None:
        """Looks values up by a kernel for their types; None while it is compiled."""
        xp, size = self.xp, len(values)
        if not size:
            return None
        found, sought = xp.empty(size, self.place_of(len(level))), xp.ascontiguousarray(values)
        arrays = {"PLACE": found, "VALUE": level.values, "KEY": sought}
        if parents is not None:
            arrays |= {"OFFSET": level.offsets, "PARENT": xp.ascontiguousarray(parents)}
        types = {name: type_of(array) for name, array in arrays.items()}
        if not self.kernels.soon(text_of(types, text), name):
            return None
        args = [*arrays.values(), *[len(level)] * (parents is None), size]
        self.kernels.launch(text, name, types, size, args, *_LAUNCHES[text])
        return found

    def bound_in(self, level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
        """Where each value would stand in its parent's list; after an equal one if
        `after_equal`."""
        return self._searched(level, parents, values, self.xp.int64, after_equal)

    def _searched(
        self,
        level: TrieLevel,
        parents: Array | None,
        values: Array,
        place: Any,
        after_equal: bool | None,
    ) -> Array:
        found = self.xp.empty(len(values), dtype=place)
        if len(values):
            values = self.xp.ascontiguousarray(values)
            self.kernels.arrays.look_up(found, level, parents, values, after_equal)
        return found


class Intersections(Searches):
    """Operations that expand a level."""

    def fused(
        self,
        choices: Sequence[Choice],
        others: Sequence[Lookup],
        tests: ValueTests,
        way: str,
        chunk: int,
        rows: int,
        ahead: UncountedRows | None = None,
    ) -> FusedLevel | None:
        """One kernel for all of a level (`way`: as in `FusedLevel.texts`). None while it is
        compiled, if there is memory for array operations with a chunk of candidates."""
        level = FusedLevel(self, choices, others, tests, rows, ahead)
        ready = [self.kernels.soon(text, name) for name, text in level.texts(way).items()]
        if all(ready) or STEP_BYTES * min(level.most, chunk) > self.driver.free_memory() // 4:
            return level
        if self.notes is not None:
            self.notes.spoil()
        return None

    def intersect_lists(
        self, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, placed: bool
    ) -> tuple[Array, Array, list[Array]]:
        """Like `cpu_ops.intersect_lists`, by an operation for each list and test. Waits for how
        many entries each of them leaves."""
        xp, which = self.xp, entries.which
        rows, places = self.expand(entries.starts, entries.lengths, entries.size)
        rows = rows + which if isinstance(which, int) else which[rows]
        found = [rows.astype(xp.int32), entries.values[places]]
        if placed:
            found.append(places.astype(self.place_of(len(entries.values))))
        for op, column in tests:
            left = self.survivors(self.functions.order[op](found[1], column[found[0]]))
            found = [each[left] for each in found]
        for level, parents, wanted in others:
            places = (
                self.find(level, found[1])
                if parents is None
                else self.find_in(level, parents[found[0]], found[1])
            )
            left = self.survivors(places >= 0)
            found = [each[left] for each in (found + [places] * wanted)]
        return found[0], found[1], found[2:]

    def count_met(
        self, counts: Array, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests
    ) -> None:
        """Adds to `counts[row]` the number of entries of the row's list that remain."""
        others = [lookup._replace(wanted=False) for lookup in others]
        base, count = entries.which, len(entries.lengths)
        rows = self.intersect_lists(entries, others, tests, False)[0]
        counts[base : base + count] += self.xp.bincount(rows - base, minlength=count)

    def ranges(
        self, level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]]
    ) -> tuple[Array, Array]:
        """The start and the length of each parent's list, cut by (operator, bounds)."""
        xp, size = self.xp, len(parents)
        starts, lengths = xp.empty(size, dtype=xp.int64), xp.empty(size, dtype=xp.int64)
        if not size:
            return starts, lengths
        parents = xp.ascontiguousarray(parents)
        bounds = [(op, xp.ascontiguousarray(bound)) for op, bound in cuts]
        self.kernels.arrays.ranges(level, parents, bounds, starts, lengths)
        return starts, lengths

    def shortest(self, lists: Sequence[Array]) -> tuple[list[int], int]:
        """Like `cpu_ops.shortest`. Waits for the device."""
        *totals, least = self.totals(*lists, reduce(self.xp.minimum, lists))
        return totals, least

    def intersect(self, lists: Sequence[Array]) -> tuple[Array, list[Array]]:
        """The values common to sorted lists, and their positions in each. Searches for those of the
        shortest list. Waits for how many of them each other list has."""
        xp = self.xp
        values = min(lists, key=len)
        places = {id(values): xp.arange(len(values))}  # by id of the list
        for other in lists:
            if id(other) in places:
                continue
            level = self.level_of(other, xp.arange(2) * len(other))
            level.knows(index=(0, xp.empty(0, dtype=xp.int32)))  # an index would serve once
            found = self.find(level, values)
            left = self.survivors(found >= 0)
            values, places[id(other)] = values[left], found
            places = {number: column[left] for number, column in places.items()}
        return values, [places[id(one)] for one in lists]
