"""Generates the source of the kernel that finds the lists of rows; what kernels of a level take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.kernels import type_of
from gdatalog.gpu_ops.level_arguments import LevelArguments
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import (
    Choice,
    ListEntries,
    ListRanges,
    ListRuns,
    Sought,
    Through,
    TrieLevel,
)

Positions = tuple[str, str]  # the types of where a row's list starts, and of ends of entries


class GivenArrays:
    """What a kernel takes of a level's arguments: their places (`taken`) and declarations
    (`params`)."""

    def __init__(self, given: LevelArguments) -> None:
        self.params: list[str] = []
        self.taken: list[int] = []
        self._given: LevelArguments | None = given  # until the source is made

    def array(self, array: Array, written: bool = False) -> str:
        """The name of an array, which is an argument; `written`: the kernel writes it."""
        const = "" if written else "const "
        return self._named("a", f"ARRAY({const}{type_of(array)})", array)

    def number(self, array: Array, name: str) -> str:
        """The name of a number that belongs to an array."""
        return self._named("n", "i64", array, name)

    def _named(self, letter: str, kind: str, *of: Any) -> str:
        assert self._given is not None
        at = self._given.of(*of)
        name = f"{letter}{at}"
        if at not in self.taken:
            self.taken.append(at)
            self.params.append(f"{kind} {name}")
        return name

    def entry(self, column: Array | Through | Sought, at: str) -> str:
        """A row's entry of a column."""
        if isinstance(column, Sought):
            return self.place(column.level, f"(i64){self.entry(column.values, at)}")
        if not isinstance(column, Through):
            return f"{self.array(column)}[{at}]"
        for rows in reversed(column.rows):
            at = f"{self.array(rows)}[{at}]"
        return f"{self.array(column.values)}[{at}]"

    def place(self, level: TrieLevel, key: str) -> str:
        """The position of a value in the root's list; -1 if it is absent."""
        dense = level.dense_index()
        if dense is None:
            values, size = self.array(level.values), self.number(level.values, "size")
            return f"find({values}, 0, {size}, {key})"
        index = dense[1]
        least, size = self.number(index, "least"), self.number(index, "size")
        return f"find_indexed({least}, {self.array(index)}, {size}, {key})"


class ListsText(GivenArrays):
    """The source of the kernel that finds each row's lists, chooses the shortest of several, and
    sums their lengths up."""

    def __init__(
        self, given: LevelArguments, choices: Sequence[Choice], positions: Positions
    ) -> None:
        super().__init__(given)
        finds = [self._find(choice.lists) for choice in choices]
        self._given = None
        more = len(choices) > 1
        lines = []
        for number, find in enumerate(finds):
            lines += ["{", *(f"    {line}" for line in find)]
            lines.append("    const i64 length = high > low ? high - low : 0;")
            if number:
                lines.append("    if (length < sums[i]) {")
                lines.append(f"        sums[i] = length, start = low, source = {number};")
                lines.append("    }")
            else:
                lines.append("    sums[i] = length, start = low;")
            lines.append("}")
        sources = "ARRAY(u8) sources, " if more else ""
        self.text = "\n".join(
            [
                '#include "search.cuh"',
                f"KERNEL(lists_of_rows)({', '.join(self.params)}, ARRAY({positions[0]}) starts,",
                f"    {sources}ARRAY({positions[1]}) ends, ARRAY(i32) cuts, i64 known,",
                "    ARRAY(i64) state, i64 most, ARRAY(const i64) ahead) {",
                "    const i64 size = rows_of_level(most, ahead);",
                "    const int each = entries_each(size), step = THREADS * each;",
                "    const i64 tiles = (size + step - 1) / step;",
                "    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {",
                "        i64 sums[EACH], lengths[EACH];",
                "#pragma unroll",
                "        for (int i = 0; i < EACH; i++) {",
                "            const i64 at = tile * step + place_in_tile(i, each);",
                "            sums[i] = 0;",
                "            if (i >= each || at >= size) continue;",
                "            i64 start;",
                *["            int source = 0;"] * more,
                *(f"            {line}" for line in lines),
                f"            starts[at] = ({positions[0]})start;",
                *["            sources[at] = (u8)source;"] * more,
                "        }",
                "        for (int i = 0; i < EACH; i++) lengths[i] = sums[i];",
                "        running_sums(sums, state, tile, tiles);",
                "#pragma unroll",
                "        for (int i = 0; i < EACH; i++) {",
                "            const i64 at = tile * step + place_in_tile(i, each);",
                "            const i64 begin = sums[i] - lengths[i];",
                "            if (i >= each || at >= size) continue;",
                f"            ends[at] = ({positions[1]})sums[i];",
                "            i64 cut = (begin + THREADS - 1) / THREADS;",
                "            for (; cut < known && cut * THREADS < sums[i]; cut++)",
                "                cuts[cut] = (i32)at;",
                "        }",
                "    }",
                "}\n",
            ]
        )

    def _find(self, lists: ListEntries | ListRanges | ListRuns) -> list[str]:
        """The lines that find where a row's list begins and ends."""
        if isinstance(lists, ListRuns):
            return self._run(lists)
        if isinstance(lists, ListEntries):
            starts, lengths = self.array(lists.starts), self.array(lists.lengths)
            return [f"const i64 low = {starts}[at], high = low + {lengths}[at];"]
        offsets = self.array(lists.level.offsets)
        absent = "parent < 0 ? 0 : " * isinstance(lists.parents, Sought)
        lines = [
            f"const i64 parent = {self.entry(lists.parents, 'at')};",
            f"i64 low = {absent}{offsets}[parent], high = {absent}{offsets}[parent + 1];",
        ]
        for op, bounds in lists.cuts:
            edge = "high" if op in ("<", "<=") else "low"
            search = "upper" if op in ("<=", ">") else "lower"
            values = self.array(lists.level.values)
            bound = self.entry(bounds, "at")
            lines.append(f"{edge} = {search}({values}, low, high, (i64){bound});")
        return lines

    def _run(self, lists: ListRuns) -> list[str]:
        parents = self.array(lists.parents)
        low, high = f"run_begin({parents}, at)", f"run_end({parents}, at, size)"
        for op in lists.cuts:
            if op in ("<", "<="):
                high = "at" if op == "<" else "at + 1"
            else:
                low = "at + 1" if op == ">" else "at"
        lines = [f"const i64 low = {low}, high = {high};"]
        if lists.lows is not None and lists.highs is not None:
            lows, highs = self.array(lists.lows, True), self.array(lists.highs, True)
            lines.append(f"{lows}[at] = (i32)low, {highs}[at] = (i32)high;")
        return lines
