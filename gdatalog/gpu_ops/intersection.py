"""Expands a level on a device in one kernel, which expands lists, looks values up, and compacts.

Each thread finds the list of its entry (load balancing), reads the value, and searches it in the
other lists of its row until one does not have it. A block writes the values that remain after those
of earlier blocks (search.cuh), so that no other candidate is written to memory. The kernel's source
is generated for the number of lists, their types and the tests, from building blocks in `kernels/`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.gpu_ops.evaluate import ExpressionOperations
from gdatalog.gpu_ops.kernels import TILE, type_of
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import ListEntries, Lookup, TrieLevel, ValueTests

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
        args: list[Array | int]
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
            state = self.state_of(size if some else 0)
            base = which if isinstance(which, int) else 0
            args += [*kept, state, len(ends), size, base]
            self.kernels.launch(kernel.text(some), "intersect_lists", {}, size, args)
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
        self.kernels.launch(kernel.counting(), "count_met", {}, size, args)

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
        """The row in which each tile of entries begins (lookup.cuh); empty if there is one tile."""
        xp, tiles = self.xp, -(-size // TILE)
        cuts = xp.empty(tiles + 1 if tiles > 1 else 0, dtype=xp.int64)
        if tiles > 1:
            args = [ends, cuts, len(ends), size, tiles]
            self.kernels.launch('#include "lookup.cuh"\n', "partition", {}, 4 * tiles, args)
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
        """Like `cpu_ops.shortest`, but without each row's least length, which few callers need.
        Waits for the device."""
        size, sums = len(lists[0]), self.xp.zeros(len(lists) + 1, dtype=self.xp.int64)
        if size:
            args = [*lists, sums, size]
            self.kernels.launch(totals_text(len(lists)), "totals", {}, size, args)
        *totals, least = sums.tolist()
        return totals, least, None

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


# Generates the source of kernels for given numbers of lists, types and tests.


def ranges_text(level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, str]]) -> str:
    """The source of the kernel that cuts lists by comparisons with these operators and types."""
    params = [
        f"ARRAY(const {type_of(level.values)}) values",
        f"ARRAY(const {type_of(level.offsets)}) offsets",
        f"ARRAY(const {type_of(parents)}) parents",
        *(f"ARRAY(const {kind}) bounds{at}" for at, (_, kind) in enumerate(cuts)),
        "ARRAY(i64) starts",
        "ARRAY(i64) lengths",
        "i64 size",
    ]
    lines = [
        '#include "search.cuh"',
        f"KERNEL(ranges)({', '.join(params)}) {{",
        "    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {",
        "        const i64 parent = parents[at];",
        "        i64 lo = offsets[parent], hi = offsets[parent + 1];",
    ]
    for at, (op, _) in enumerate(cuts):
        side = "upper" if op in ("<=", ">") else "lower"
        edge = "hi" if op in ("<", "<=") else "lo"
        lines.append(f"        {edge} = {side}_bound(values, lo, hi, bounds{at}[at]);")
    lines += ["        starts[at] = lo;", "        lengths[at] = hi - lo;", "    }", "}"]
    return "\n".join(lines) + "\n"


def totals_text(count: int) -> str:
    """The source of the kernel that sums `count` arrays of lengths, and each row's least length."""
    arrays = ", ".join(f"ARRAY(const i64) lengths{n}" for n in range(count))
    lines = [
        '#include "tile.cuh"',
        f"KERNEL(totals)({arrays}, ARRAY(i64) sums, i64 size) {{",
        "    const Tile<32> t = tile_here<32>();",
        f"    i64 {', '.join(f'sum{n} = 0' for n in range(count + 1))};",
        "    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {",
        "        i64 least = lengths0[at], length = least;",
        "        sum0 += length;",
    ]
    for n in range(1, count):
        lines.append(f"        length = lengths{n}[at];")
        lines.append(f"        sum{n} += length;")
        lines.append("        least = length < least ? length : least;")
    lines += [f"        sum{count} += least;", "    }"]
    for n in range(count + 1):
        lines.append(f"    sum{n} = sum(t, sum{n});")
    lines.append("    if (t.rank != 0) return;")
    lines += [f"    atomic_add(sums, {n}, sum{n});" for n in range(count + 1)]
    return "\n".join([*lines, "}"]) + "\n"


class FusedText:
    """Builds the source of a level's expansion, lookup by lookup."""

    def __init__(self, values: Array, placed: bool) -> None:
        value = type_of(values)
        self.params = ["ARRAY(const i64) ends", "ARRAY(const i64) cuts", "ARRAY(const i64) starts"]
        self.params.append(f"ARRAY(const {value}) values")
        self.outs = ["ARRAY(i32) rows", f"ARRAY({value}) found"]
        self.held = ["i32 row[EACH];", f"{value} value[EACH];"]
        self.looks: list[str] = []
        self.writes = ["rows[to[i]] = row[i] + (i32)base;", "found[to[i]] = value[i];"]
        self.number = 0

    def placed(self, places: Array) -> None:
        """Also writes the position of each entry."""
        self._write("at", type_of(places))
        self.looks.append("at[i] = position;")

    def _write(self, name: str, kind: str) -> None:
        self.held.append(f"{kind} {name}[EACH];")
        self.outs.append(f"ARRAY({kind}) {name}_out")
        self.writes.append(f"{name}_out[to[i]] = {name}[i];")

    def test(self, op: str, column: Array) -> None:
        """Keeps entries that satisfy a comparison with a column of their rows."""
        name = f"tested{len(self.params)}"
        self.params.append(f"ARRAY(const {type_of(column)}) {name}")
        op = "==" if op == "=" else op
        self.looks.append(f"if (!(key {op} (i64){name}[r])) continue;")

    def look_up(self, lookup: Lookup, places: Array | None) -> list[Array | int]:
        """Looks values up in one more list; returns the kernel's arguments for it."""
        level, n = lookup.level, self.number
        self.number += 1
        sizes: dict[str, int] = {}
        if lookup.parents is not None:
            arrays = {"values": level.values, "offsets": level.offsets, "parents": lookup.parents}
            begin, end = (f"offsets{n}[parents{n}[r]{more}]" for more in ("", " + 1"))
            search = f"find_within(values{n}, {begin}, {end}, key)"
        elif (dense := level.dense_index()) is not None:
            least, index = dense
            arrays, sizes = {"index": index}, {"least": least, "size": len(index)}
            search = f"find_indexed(index{n}, least{n}, size{n}, key)"
        else:
            arrays, sizes = {"values": level.values}, {"size": len(level)}
            search = f"find_within(values{n}, 0, size{n}, key)"
        self.params += [
            f"ARRAY(const {type_of(array)}) {name}{n}" for name, array in arrays.items()
        ]
        self.params += [f"i64 {name}{n}" for name in sizes]
        self.looks += [f"const i64 place{n} = {search};", f"if (place{n} < 0) continue;"]
        if places is not None:
            self._write(f"at{n}", type_of(places))
            self.looks.append(f"at{n}[i] = place{n};")
        return [*arrays.values(), *sizes.values()]

    def text(self, compacted: bool) -> str:
        """The kernel's source. If it does not compact, it writes each entry at its own number."""
        params = [*self.params, *self.outs, "ARRAY(i64) state", "i64 count", "i64 size", "i64 base"]
        first, then = "next_tile(state)", "= next_tile(state)"
        to = "places_of_kept(keep, to, state, tile, tiles);"
        if not compacted:
            first, then = "block_of_grid()", "+= blocks_of_grid()"
            to = "for (int i = 0; i < EACH; i++) to[i] = first + i * THREADS;"
        lines = [
            '#include "search.cuh"',
            f"KERNEL(intersect_lists)({', '.join(params)}) {{",
            "    const i64 tiles = (size + TILE - 1) / TILE;",
            f"    for (i64 tile = {first}; tile < tiles; tile {then}) {{",
            "        const i64 first = tile * TILE + thread_of_block();",
            "        bool keep[EACH];",
            "        i64 to[EACH];",
            *(f"        {line}" for line in self.held),
            "#pragma unroll",
            "        for (int i = 0; i < EACH; i++) {",
            "            keep[i] = false;",
            *_ENTRY,
            "            row[i] = r;",
            "            value[i] = key;",
            *(f"            {line}" for line in self.looks),
            "            keep[i] = true;",
            "        }",
            f"        {to}",
            "#pragma unroll",
            "        for (int i = 0; i < EACH; i++) {",
            "            if (!keep[i]) continue;",
            *(f"            {line}" for line in self.writes),
            "        }",
            "    }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def counting(self) -> str:
        """The source of a kernel that only counts the entries that each row keeps."""
        params = [*self.params, "ARRAY(i64) counts", "i64 count", "i64 size", "i64 base"]
        lines = [
            '#include "search.cuh"',
            f"KERNEL(count_met)({', '.join(params)}) {{",
            "    const i64 tiles = (size + TILE - 1) / TILE;",
            "    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {",
            "        const i64 first = tile * TILE + thread_of_block();",
            "        for (int i = 0; i < EACH; i++) {",
            *_ENTRY,
            *(f"            {line}" for line in self.looks),
            "            atomic_add(counts, base + r, 1);",
            "        }",
            "    }",
            "}",
        ]
        return "\n".join(lines) + "\n"


# Finds the row, position and value of a thread's entry.
_ENTRY = (
    "            const i64 entry = first + i * THREADS;",
    "            if (entry >= size) continue;",
    "            const i64 r = row_of(ends, cuts, count, tile, tiles, entry);",
    "            const i64 position = starts[r] + entry - (r ? ends[r - 1] : 0);",
    "            const i64 key = values[position];",
)
