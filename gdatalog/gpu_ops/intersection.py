"""A level's expansion on a device in one kernel: expands lists, looks values up, compacts.

Each thread finds the list of its entry (load balancing), reads the value, and searches it in the
other lists of its row until one does not have it. A block writes its survivors after those of
earlier blocks (compact.cuh). So candidates that fail are never written to memory. The kernel is
generated for its lookups (fused.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.arrays import Array
from gdatalog.gpu_ops.evaluate import ExpressionOperations
from gdatalog.gpu_ops.fused import FusedText, ranges_text, totals_text
from gdatalog.gpu_ops.launching import TILE, type_of
from gdatalog.storage.trie import Lookup, Meeting, TrieLevel

# Searches in the lists of levels: one kernel each, one thread for each value.


class Searches(ExpressionOperations):
    """Operations that look values up."""

    def level_of(self, values: Array, offsets: Array) -> TrieLevel:
        """A level of temporary lists."""
        return TrieLevel(values, offsets, self.xp)

    def find(self, level: TrieLevel, values: Array) -> Array:
        """Positions of values in the root's list, -1 if absent; by index if the root is dense."""
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
        """Positions of values in their parents' lists, -1 if absent."""
        found = self.xp.empty(len(values), dtype=self.place_of(len(level)))
        return self._search("find_in", level, parents, values, found)

    def bound_in(self, level: TrieLevel, parents: Array, values: Array, after_equal: bool) -> Array:
        """Where each value would stand in its parent's list; after an equal one if
        `after_equal`."""
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


class Intersections(Searches):
    """Operations that expand a level."""

    def intersect_lists(
        self,
        values: Array,
        starts: Array,
        lengths: Array,
        size: int | None,
        which: int | Array,
        others: Sequence[Lookup],
        placed: bool,
        tests: Sequence[tuple[str, Array]] = (),
    ) -> Meeting:
        """The entries of lists in `values` that occur in every other list of their row.

        As `cpu_ops.intersect_lists`. Waits for how many entries are left, and for how many there
        are unless `size` gives it.
        """
        xp = self.xp
        ends = xp.cumsum(lengths)
        if size is None:
            size = int(ends[-1]) if len(ends) else 0
        kernel = FusedText(values, placed)
        kept = [xp.empty(size, dtype=xp.int32), xp.empty(size, dtype=values.dtype)]
        if placed:
            kept.append(xp.empty(size, dtype=self.place_of(len(values))))
            kernel.placed(kept[-1])
        args = self._entries(ends, starts, values, size)
        args += self._looked_up(kernel, len(lengths), size, which, others, tests, kept)
        if size:
            state = self.state_of(size if others or tests else 0)
            base = which if isinstance(which, int) else 0
            args += [*kept, state, len(lengths), size, base]
            self.kernels.launch(
                kernel.text(bool(others or tests)), "intersect_lists", {}, size, args
            )
            if others or tests:
                kept = self.kept(kept[0], state, *kept[1:])
        rows = kept[0] if isinstance(which, int) else which[kept[0]]
        return Meeting(size, rows, kept[1], kept[2:])

    def count_met(
        self,
        counts: Array,
        values: Array,
        starts: Array,
        lengths: Array,
        size: int,
        base: int,
        others: Sequence[Lookup],
        tests: Sequence[tuple[str, Array]],
    ) -> None:
        """Adds to `counts`, from row `base` on, how many entries each list keeps."""
        kernel = FusedText(values, False)
        args = self._entries(self.xp.cumsum(lengths), starts, values, size)
        others = [lookup._replace(wanted=False) for lookup in others]
        args += self._looked_up(kernel, len(lengths), size, base, others, tests, [])
        args += [counts, len(lengths), size, base]
        self.kernels.launch(kernel.counting(), "count_met", {}, size, args)

    def _entries(self, ends: Array, starts: Array, values: Array, size: int) -> list[Any]:
        """The kernel arguments that locate entries."""
        return [ends, self._cuts(ends, size), starts.astype(self.xp.int64, copy=False), values]

    def _looked_up(
        self,
        kernel: FusedText,
        count: int,
        size: int,
        which: int | Array,
        others: Sequence[Lookup],
        tests: Sequence[tuple[str, Array]],
        kept: list[Array],
    ) -> list[Any]:
        """Adds tests and lookups to the kernel. Returns their arguments, and appends to `kept` an
        array for each lookup whose places are wanted."""

        def of_lists(column: Array) -> Array:
            """The values of a column for the lists' rows."""
            if isinstance(which, int):
                return self.xp.ascontiguousarray(column[which : which + count])
            return column[which]

        args: list[Any] = []
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
        """The rows in which tiles of entries begin (expand.cuh); empty if there is one tile."""
        xp, tiles = self.xp, -(-size // TILE)
        cuts = xp.empty(tiles + 1 if tiles > 1 else 0, dtype=xp.int64)
        if tiles > 1:
            args = [ends, cuts, len(ends), size, tiles]
            self.kernels.launch('#include "expand.cuh"\n', "partition", {}, 4 * tiles, args)
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
        bounds = [xp.ascontiguousarray(bound) for _, bound in cuts]
        text = ranges_text(
            level, parents, [(op, type_of(b)) for (op, _), b in zip(cuts, bounds, strict=True)]
        )
        args = [level.values, level.offsets, parents, *bounds, starts, lengths, size]
        self.kernels.launch(text, "ranges", {}, size, args)
        return starts, lengths

    def shortest(self, lists: Sequence[Array]) -> tuple[list[int], int, Array | None]:
        """As `cpu_ops.shortest`, but without each row's least length, which few callers need.
        Waits."""
        size, sums = len(lists[0]), self.xp.zeros(len(lists) + 1, dtype=self.xp.int64)
        if size:
            args = [*lists, sums, size]
            self.kernels.launch(totals_text(len(lists)), "totals", {}, size, args)
        *totals, least = sums.tolist()
        return totals, least, None

    def intersect(self, lists: Sequence[Array]) -> tuple[Array, list[Array]]:
        """The values common to sorted lists and their positions in each, by expanding the shortest
        list. Waits for how many there are."""
        xp = self.xp
        shortest = min(range(len(lists)), key=lambda at: len(lists[at]))
        own, size = lists[shortest], len(lists[shortest])
        above = xp.zeros(1, dtype=xp.int32)  # one parent for all lists
        others = [
            Lookup(self.level_of(other, xp.arange(2) * len(other)), above, True)
            for at, other in enumerate(lists)
            if at != shortest
        ]
        met = self.intersect_lists(
            own, xp.zeros(1, dtype=xp.int64), xp.full(1, size), size, 0, others, True
        )
        first, *rest = met.places
        return met.values, [*rest[:shortest], first, *rest[shortest:]]
