"""Generates the source of kernels for given numbers of lists, types and tests."""

from __future__ import annotations

from gdatalog.gpu_ops.kernels import type_of
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import Lookup


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
