"""Expands a level on a device in one kernel, which expands lists, looks values up, and compacts.

Each thread finds the list of its entry (load balancing), reads the value, and searches it in the
other lists of its row until one does not have it. A block writes the values that remain after those
of earlier blocks (search.cuh), so that no other candidate is written to memory. The kernel's source
is generated for the number of lists, their types and the tests, from building blocks in `kernels/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from gdatalog.gpu_ops.evaluate import ExpressionOperations
from gdatalog.gpu_ops.intersection_sources import FusedText, totals_text
from gdatalog.gpu_ops.kernels import TILE
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import ListEntries, Lookup, TrieLevel, ValueTests

STEP_BYTES = 64  # of each candidate, if array operations expand a level


class Searches(ExpressionOperations):
    """Operations that look values up."""

    def level_of(self, values: Array, offsets: Array) -> TrieLevel:
        """A level of temporary lists."""
        return TrieLevel(values, offsets, self.xp)

    def find(self, level: TrieLevel, values: Array) -> Array:
        """Positions of values in the root's list, -1 if absent; by index if the root is dense."""
        return self._searched(level, None, values, self.place_of(len(level)), None)

    def find_in(self, level: TrieLevel, parents: Array, values: Array) -> Array:
        """Positions of values in their parents' lists, -1 if absent."""
        return self._searched(level, parents, values, self.place_of(len(level)), None)

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

    def intersect_lists(
        self, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, placed: bool
    ) -> tuple[Array, Array, list[Array]]:
        """The entries of lists that occur in every other list of their row, and pass the tests:
        rows, values, and positions. Waits for the number of entries that remain."""
        xp, values, size, which = self.xp, entries.values, entries.size, entries.which
        assert size is not None
        ends = xp.cumsum(entries.lengths)
        kernel = FusedText(values, placed)
        kept = [xp.empty(size, dtype=xp.int32), xp.empty(size, dtype=values.dtype)]
        if placed:
            kept.append(xp.empty(size, dtype=self.place_of(len(values))))
            kernel.placed(kept[-1])
        args = self._looked_up(kernel, entries, others, tests, ends, kept)
        if size:
            some = bool(others or tests)
            text = kernel.text(some)
            if self._step_by_step(text, "intersect_lists", size):
                return self._intersected(entries, others, tests, placed)
            state = self.state_of(size if some else 0)
            base = which if isinstance(which, int) else 0
            args += [*kept, state, len(ends), size, base]
            self.kernels.launch(text, "intersect_lists", {}, size, args)
            if some:
                kept = self.kept(kept[0], state, *kept[1:])
        rows = kept[0] if isinstance(which, int) else which[kept[0]]
        return rows, kept[1], kept[2:]

    def count_met(
        self, counts: Array, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests
    ) -> None:
        """Adds to `counts[row]` the number of entries of the row's list that remain. Entries of a
        row must be consecutive."""
        kernel, size, count = FusedText(entries.values, False), entries.size, len(entries.lengths)
        assert size is not None
        others = [lookup._replace(wanted=False) for lookup in others]
        ends = self.xp.cumsum(entries.lengths)
        args = self._looked_up(kernel, entries, others, tests, ends, [])
        args += [counts, count, size, entries.which]
        text, base = kernel.counting(), entries.which
        if size and self._step_by_step(text, "count_met", size):
            rows = self._intersected(entries, others, tests, False)[0]
            counts[base : base + count] += self.xp.bincount(rows - base, minlength=count)
            return
        self.kernels.launch(text, "count_met", {}, size, args)

    def _step_by_step(self, text: str, name: str, size: int) -> bool:
        """Whether array operations do the work of a kernel, which is compiled meanwhile, if there
        is memory for that."""
        if self.kernels.soon(text, name):
            return False
        return STEP_BYTES * size <= self.driver.free_memory() // 4

    def _intersected(
        self, entries: ListEntries, others: Sequence[Lookup], tests: ValueTests, placed: bool
    ) -> tuple[Array, Array, list[Array]]:
        """What `intersect_lists` gives, by an operation for each list and test."""
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

    def _looked_up(
        self,
        kernel: FusedText,
        entries: ListEntries,
        others: Sequence[Lookup],
        tests: ValueTests,
        ends: Array,
        kept: list[Array],
    ) -> list[Array | int]:
        """Adds tests and lookups to the kernel. Returns the arguments for them and for the entries.
        Appends to `kept` an array for each lookup whose positions are needed."""
        which, size = entries.which, entries.size
        assert size is not None

        def of_lists(column: Array) -> Array:
            """The values of a column for the lists' rows."""
            if isinstance(which, int):
                return self.xp.ascontiguousarray(column[which : which + len(ends)])
            return column[which]

        starts = entries.starts.astype(self.xp.int64, copy=False)
        args = [ends, self._cuts(ends, size), starts, entries.values]
        for op, column in tests:
            args.append(of_lists(column))
            kernel.test(op, args[-1])
        for lookup in others:
            if lookup.parents is not None:
                lookup = lookup._replace(parents=of_lists(lookup.parents))
            places = None
            if lookup.wanted:
                places = self.xp.empty(size, dtype=self.place_of(len(lookup.level)))
                kept.append(places)
            args += kernel.look_up(lookup, places)
        return args

    def _cuts(self, ends: Array, size: int) -> Array:
        """The row in which each tile of entries begins; empty if there is one tile."""
        xp, tiles = self.xp, -(-size // TILE)
        cuts = xp.empty(tiles + 1 if tiles > 1 else 0, dtype=xp.int64)
        if tiles > 1:
            self.kernels.arrays.partition(ends, cuts, size)
        return cuts

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
        size, sums = len(lists[0]), self.xp.zeros(len(lists) + 1, dtype=self.xp.int64)
        if size:
            args, text = [*lists, sums, size], totals_text(len(lists))
            if self._step_by_step(text, "totals", size):
                *totals, least = self.totals(*lists, reduce(self.xp.minimum, lists))
                return totals, least
            self.kernels.launch(text, "totals", {}, size, args)
        *totals, least = sums.tolist()
        return totals, least

    def intersect(self, lists: Sequence[Array]) -> tuple[Array, list[Array]]:
        """The values common to sorted lists, and their positions in each. Expands the shortest
        list. Waits for the number of values."""
        xp = self.xp
        shortest = min(range(len(lists)), key=lambda at: len(lists[at]))
        own, size = lists[shortest], len(lists[shortest])
        above = xp.zeros(1, dtype=xp.int32)  # one parent for all lists
        others = [
            Lookup(self.level_of(other, xp.arange(2) * len(other)), above, True)
            for at, other in enumerate(lists)
            if at != shortest
        ]
        starts = xp.zeros(1, dtype=xp.int64)
        entries = ListEntries(own, starts, xp.full(1, size), size)
        _, values, (first, *rest) = self.intersect_lists(entries, others, (), True)
        return values, [*rest[:shortest], first, *rest[shortest:]]
