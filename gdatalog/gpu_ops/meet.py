"""A level's expansion on a device, in one kernel: lists written out, looked up, compacted.

Each thread finds of which list its entry is (load balancing), reads the value, and searches it in
the other lists of its row as long as it is found; a block's survivors go behind those of the
blocks before (compact.cuh). So a candidate that fails is never in memory, and what is written is
what is kept. The kernel is printed for what it looks up; what it is made of is in `kernels/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.arrays import Array
from gdatalog.gpu_ops.evaluate import Expressions
from gdatalog.gpu_ops.launching import type_of
from gdatalog.storage.trie import Lookup, Meeting, TrieLevel


class Meetings(Expressions):
    """The verbs on lists of levels."""

    def meet(
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
        """The entries of lists in `values` that are in every other list of their row.

        As `cpu_ops.meet`. Waits for how many entries are left; for how many there are too, if
        `size` does not tell.
        """
        xp = self.xp
        ends = xp.cumsum(lengths)
        if size is None:
            size = int(ends[-1]) if len(ends) else 0
        picked = None if isinstance(which, int) else which
        base = which if isinstance(which, int) else 0
        kernel = _Printed(values, placed)
        rows, found = xp.empty(size, dtype=xp.int32), xp.empty(size, dtype=values.dtype)
        args: list[Any] = [ends, starts.astype(xp.int64, copy=False), values]
        kept = [rows, found]
        if placed:
            kept.append(xp.empty(size, dtype=self.place_of(len(values))))
            kernel.placed(kept[-1])

        def of_lists(column: Array) -> Array:
            """A column of the rows that the lists are of."""
            if picked is not None:
                return column[picked]
            return xp.ascontiguousarray(column[base : base + len(lengths)])

        for op, column in tests:
            column = of_lists(column)
            kernel.test(op, column)
            args.append(column)
        for lookup in others:
            if lookup.parents is not None:
                lookup = lookup._replace(parents=of_lists(lookup.parents))
            places = None
            if lookup.wanted:
                places = xp.empty(size, dtype=self.place_of(len(lookup.level)))
                kept.append(places)
            args += kernel.look_up(lookup, places)
        if size:
            state = self.state_of(size)
            text = kernel.text(bool(others or tests))
            args += [*kept, state, len(lengths), size, base]
            self.kernels.launch(text, "meet", {}, size, args)
            if others or tests:
                kept = self.kept(kept[0], state, *kept[1:])
        rows = kept[0] if picked is None else picked[kept[0]]
        return Meeting(size, rows, kept[1], kept[2:])

    def ranges(
        self, level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, Array]]
    ) -> tuple[Array, Array]:
        """Where each parent's list starts and how long it is, cut by (operator, bounds)."""
        xp, size = self.xp, len(parents)
        starts, lengths = xp.empty(size, dtype=xp.int64), xp.empty(size, dtype=xp.int64)
        if not size:
            return starts, lengths
        parents = xp.ascontiguousarray(parents)
        bounds = [xp.ascontiguousarray(bound) for _, bound in cuts]
        text = _ranges(
            level, parents, [(op, type_of(b)) for (op, _), b in zip(cuts, bounds, strict=True)]
        )
        args = [level.values, level.offsets, parents, *bounds, starts, lengths, size]
        self.kernels.launch(text, "ranges", {}, size, args)
        return starts, lengths

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


def _ranges(level: TrieLevel, parents: Array, cuts: Sequence[tuple[str, str]]) -> str:
    """The kernel that finds the parts of lists that cuts leave, for these operators and types."""
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


class _Printed:
    """The text of one kernel, put together lookup by lookup."""

    def __init__(self, values: Array, placed: bool) -> None:
        value = type_of(values)
        self.params = ["ARRAY(const i64) ends", "ARRAY(const i64) starts"]
        self.params.append(f"ARRAY(const {value}) values")
        self.outs = ["ARRAY(i32) rows", f"ARRAY({value}) found"]
        self.held = ["i32 row[EACH];", f"{value} value[EACH];"]
        self.looks: list[str] = []
        self.writes = ["rows[to[i]] = row[i] + (i32)base;", "found[to[i]] = value[i];"]
        self.number = 0

    def placed(self, places: Array) -> None:
        """Where an entry stands is written too."""
        self._write("at", type_of(places))
        self.looks.append("at[i] = position;")

    def _write(self, name: str, kind: str) -> None:
        self.held.append(f"{kind} {name}[EACH];")
        self.outs.append(f"ARRAY({kind}) {name}_out")
        self.writes.append(f"{name}_out[to[i]] = {name}[i];")

    def test(self, op: str, column: Array) -> None:
        """Entries go on that compare so with a column of their rows."""
        name = f"tested{len(self.params)}"
        self.params.append(f"ARRAY(const {type_of(column)}) {name}")
        op = "==" if op == "=" else op
        self.looks.append(f"if (!(key {op} (i64){name}[r])) continue;")

    def look_up(self, lookup: Lookup, places: Array | None) -> list[Any]:
        """One more list that values are looked up in; the kernel's arguments for it."""
        level, n = lookup.level, self.number
        self.number += 1
        args: list[Any]
        kinds: tuple[str, ...]
        names: tuple[str, ...]
        after: list[str] = []
        if lookup.parents is not None:
            kinds = type_of(level.values), type_of(level.offsets), type_of(lookup.parents)
            names = f"values{n}", f"offsets{n}", f"parents{n}"
            args = [level.values, level.offsets, lookup.parents]
            search = (
                f"find_within(values{n}, offsets{n}[parents{n}[r]], "
                f"offsets{n}[parents{n}[r] + 1], key)"
            )
        elif (dense := level.dense_index()) is not None:
            least, index = dense
            kinds, names, args = (type_of(index),), (f"index{n}",), [index, least, len(index)]
            after = [f"i64 least{n}", f"i64 size{n}"]
            search = f"find_indexed(index{n}, least{n}, size{n}, key)"
        else:
            kinds, names, args = (
                (type_of(level.values),),
                (f"values{n}",),
                [level.values, len(level)],
            )
            after = [f"i64 size{n}"]
            search = f"find_within(values{n}, 0, size{n}, key)"
        self.params += [
            f"ARRAY(const {kind}) {name}" for kind, name in zip(kinds, names, strict=True)
        ]
        self.params += after
        self.looks += [f"const i64 place{n} = {search};", f"if (place{n} < 0) continue;"]
        if places is not None:
            self._write(f"at{n}", type_of(places))
            self.looks.append(f"at{n}[i] = place{n};")
        return args

    def text(self, compacted: bool) -> str:
        """The kernel; what is not compacted is written where it is in the order of entries."""
        params = [*self.params, *self.outs, "ARRAY(i64) state", "i64 count", "i64 size", "i64 base"]
        to = "places_of_kept(keep, to, state, tile, tiles);"
        if not compacted:
            to = "for (int i = 0; i < EACH; i++) to[i] = first + i * THREADS;"
        lines = [
            '#include "expand.cuh"',
            f"KERNEL(meet)({', '.join(params)}) {{",
            "    SHARED(i64, span, 2);",
            "    const i64 tiles = (size + TILE - 1) / TILE;",
            "    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {",
            "        rows_of_tile(ends, count, size, tile, span);",
            "        const i64 first = tile * TILE + thread_of_block();",
            "        bool keep[EACH];",
            "        i64 to[EACH];",
            *(f"        {line}" for line in self.held),
            "#pragma unroll",
            "        for (int i = 0; i < EACH; i++) {",
            "            const i64 entry = first + i * THREADS;",
            "            keep[i] = false;",
            "            if (entry >= size) continue;",
            "            const i64 r = row_of(ends, span, entry);",
            "            const i64 position = starts[r] + entry - (r ? ends[r - 1] : 0);",
            "            const i64 key = values[position];",
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
