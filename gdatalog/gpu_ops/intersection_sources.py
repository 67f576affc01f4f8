"""Generates the source of kernels for given numbers of lists, types and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.gpu_ops.kernels import LEVEL_BLOCKS, LEVEL_EACH, LEVEL_TILE, type_of
from gdatalog.gpu_ops.level_arguments import LevelArguments
from gdatalog.gpu_ops.rows import Array
from gdatalog.storage.trie import (
    Choice,
    ListEntries,
    ListRanges,
    ListRuns,
    Lookup,
    Sought,
    Through,
    TrieLevel,
    ValueTests,
)

HELD_LISTS = 2  # in which values are looked up first: blocks note where those of rows are
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
                "    const i64 tiles = (size + TILE - 1) / TILE;",
                "    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {",
                "        i64 sums[EACH], lengths[EACH];",
                "#pragma unroll",
                "        for (int i = 0; i < EACH; i++) {",
                "            const i64 at = tile * TILE + place_in_tile(i);",
                "            sums[i] = 0;",
                "            if (at >= size) continue;",
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
                "            const i64 at = tile * TILE + place_in_tile(i);",
                "            const i64 begin = sums[i] - lengths[i];",
                "            if (at >= size) continue;",
                f"            ends[at] = ({positions[1]})sums[i];",
                f"            i64 cut = (begin + {LEVEL_TILE} - 1) / {LEVEL_TILE};",
                f"            for (; cut < known && cut * {LEVEL_TILE} < sums[i]; cut++)",
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


class LevelText(GivenArrays):
    """The source of a level's kernels: rows are expanded from the shortest of their `choices`, and
    the values looked up in the others, in order; then in `others`. `places`: for each position that
    is wanted, the number of its list (those of `choices` first)."""

    def __init__(
        self,
        given: LevelArguments,
        choices: Sequence[Choice],
        others: Sequence[Lookup],
        tests: ValueTests,
        positions: Positions,
    ) -> None:
        super().__init__(given)
        self._positions = positions
        self.places: list[int] = []
        self.looks: list[str] = []
        self._held: list[str] = []  # what is found out once for a row of a tile
        self._lists = len(choices) - 1  # in which values are looked up
        self._many = self._lists > 0
        self._whole = not (self._many or others or tests)  # all entries remain
        self._own(choices)
        for op, column in tests:
            test = "==" if op == "=" else op
            self.looks.append(f"if (!(key {test} (i64){self.entry(column, 'r')})) continue;")
        for number in range(len(choices) - 1):
            self._in_choice(number, choices[number], choices[number + 1])
        for number, lookup in enumerate(others, len(choices)):
            self._in_root(number, lookup)
        self._given = None

    def _own(self, choices: Sequence[Choice]) -> None:
        """The value of an entry, and its position."""
        arrays = [self.array(choice.lists.values) for choice in choices]
        kinds = {type_of(choice.lists.values) for choice in choices}
        kind = kinds.pop() if len(kinds) == 1 else "i64"
        value = f"({kind}){arrays[-1]}[position]"
        for number in reversed(range(len(choices) - 1)):
            if arrays[number:] != arrays[-1:] * (len(choices) - number):
                value = f"source == {number} ? ({kind}){arrays[number]}[position] : {value}"
        self.looks.append(f"const {kind} key = {value};")
        for number, choice in enumerate(choices):
            if choice.lookup.wanted:
                self.places.append(number)
                when = f"if (source == {number}) " if self._many else ""
                self.looks.append(f"{when}at{number}[i] = position;")

    def _in_choice(self, number: int, low: Choice, high: Choice) -> None:
        """Looks a value up in one more of its row's choices: the next that is not its own."""
        at, later = f"place{number}", f"source <= {number}"
        lists = [f"if ({later}) {{", *self._list_of(high), "} else {", *self._list_of(low), "}"]
        if number < HELD_LISTS:
            self._held += ["{", "    i64 low, high;", *(f"    {line}" for line in lists)]
            self._held += [f"    lows{number}[near] = low, highs{number}[near] = high;", "}"]
            self.looks.append(f"const i64 low{number} = lows{number}[near];")
            self.looks.append(f"const i64 high{number} = highs{number}[near];")
        else:
            self.looks.append(f"i64 low{number}, high{number};")
            self.looks += ["{", "    i64 low, high;", *(f"    {line}" for line in lists)]
            self.looks += [f"    low{number} = low, high{number} = high;", "}"]
        finds = []
        for choice in (high, low):
            values = self.array(choice.lookup.level.values)
            finds.append(f"find({values}, low{number}, high{number}, key)")
        find = finds[0] if finds[0] == finds[1] else f"{later} ? {finds[0]} : {finds[1]}"
        self.looks += [f"const i64 {at} = {find};", f"if ({at} < 0) continue;"]
        for when, which, choice in (("", number + 1, high), ("!", number, low)):
            if choice.lookup.wanted:
                self.looks.append(f"if ({when}({later})) at{which}[i] = {at};")

    def _list_of(self, choice: Choice) -> list[str]:
        """The lines that find the list of a choice of the row `r`."""
        lists, lookup = choice.lists, choice.lookup
        if isinstance(lists, ListRuns):
            assert lists.lows is not None and lists.highs is not None
            lows, highs = self.array(lists.lows), self.array(lists.highs)
            return [f"    low = {lows}[r], high = {highs}[r];"]
        offsets, parent = self.array(lookup.level.offsets), self.entry(lookup.parents, "r")
        return [
            f"    const i64 parent = {parent};",
            f"    low = {offsets}[parent], high = {offsets}[parent + 1];",
        ]

    def _in_root(self, number: int, lookup: Lookup) -> None:
        """Looks a value up in the root's list."""
        search = self.place(lookup.level, "key")
        self.looks += [f"const i64 place{number} = {search};", f"if (place{number} < 0) continue;"]
        if lookup.wanted:
            self.places.append(number)
            self.looks.append(f"at{number}[i] = place{number};")

    def expanding(self, value: str, places: Sequence[str]) -> str:
        """The source of the kernel that writes the rows that remain, with their values and places,
        of these types."""
        outs = ["ARRAY(i32) rows_out", f"ARRAY({value}) values_out"]
        outs += [f"ARRAY({kind}) out{n}" for n, kind in zip(self.places, places, strict=True)]
        held = [f"{kind} at{n}[EACH];" for n, kind in zip(self.places, places, strict=True)]
        to = "begin - from + place_in_tile(i)" if self._whole else "to[i]"
        lines = [
            *self._begin("expand_level", [*outs, "ARRAY(i64) state"], "i64 room, "),
            *(_ALL_KEPT if self._whole else _TAKEN_TILES),
            *_TILE,
            f"        i32 row[EACH]; {value} value[EACH]; bool keep[EACH]; {' '.join(held)}",
            "        for (int i = 0; i < EACH; i++) keep[i] = false;",
            *self._each_entry(
                True, ("row[i] = (i32)r;", f"value[i] = ({value})key;", "keep[i] = true;")
            ),
            *(() if self._whole else _PLACES),
            "#pragma unroll",
            "        for (int i = 0; i < EACH; i++) {",
            "            if (!keep[i]) continue;",
            f"            const i64 at = {to};",
            *(() if self._whole else _NO_ROOM),
            "            rows_out[at] = row[i];",
            "            values_out[at] = value[i];",
            *(f"            out{n}[at] = at{n}[i];" for n in self.places),
            "        }",
            "    }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def counting(self, by_row: bool) -> str:
        """The source of the kernel that only counts what remains: of each row, or in all. The
        number of entries comes behind."""
        lines = [
            *self._begin("count_level", ["ARRAY(i64) counts"]),
            f"    if (thread_of_grid() == 0) counts[{'rows' if by_row else '1'}] = total;",
            "    i64 found = 0;",
            *_TILES,
            *_TILE,
            *self._each_entry(False, ("atomic_add(counts, r, 1);" if by_row else "found++;",)),
            "    }",
        ]
        if not by_row:
            lines += [
                "    const Tile<32> warp = tile_here<32>();",
                "    found = sum(warp, found);",
                "    if (warp.rank == 0 && found != 0) atomic_add(counts, 0, found);",
            ]
        return "\n".join([*lines, "}"]) + "\n"

    def _each_entry(self, placed: bool, kept: Sequence[str]) -> list[str]:
        """The lines that look each value of a tile up, with or without its places, and what becomes
        of one that remains."""
        looks = self.looks if placed else [one for one in self.looks if "[i] = " not in one]
        source = ["const int source = sources[r];"] * self._many
        rows = []
        if self._held:
            rows = [
                "for (int near = thread_of_block(); near < held; near += THREADS) {",
                "    const i64 r = first + near;",
                *(f"    {line}" for line in (*source, *self._held)),
                "}",
                "block_sync();",
            ]
        return [
            *_ROWS,
            *(f"            {line}" for line in rows),
            *_ENTRY,
            *(f"                {line}" for line in (*source, *looks, *kept)),
            *_ROWS_END,
        ]

    def _begin(self, name: str, outs: Sequence[str], room: str = "") -> list[str]:
        start, end = self._positions
        params = [f"ARRAY(const {end}) ends", "ARRAY(const i32) cuts", "i64 known"]
        params.append(f"ARRAY(const {start}) starts")
        params += ["ARRAY(const u8) sources"] * self._many
        return [
            f"#define EACH {LEVEL_EACH}",
            '#include "search.cuh"',
            '#include "tile.cuh"',
            f"KERNEL_OF_BLOCKS({LEVEL_BLOCKS}, {name})(",
            f"    {', '.join([*params, *self.params, *outs])},",
            f"    {room}i64 from, i64 most, i64 most_rows, ARRAY(const i64) ahead) {{",
            "    SHARED(i32, bounds, HELD);",
            f"    SHARED({start}, origins, HELD);",
            *(
                f"    SHARED({start}, {name}{number}, HELD);"
                for number in range(min(self._lists, HELD_LISTS))
                for name in ("lows", "highs")
            ),
            "    const i64 rows = rows_of_level(most_rows, ahead);",
            "    const i64 total = rows > 0 ? ends[rows - 1] : 0;",
            "    i64 stop = total - from < most ? total : from + most;",
        ]


# Loops over the tiles: a block takes every so many-th; or the next one, if it waits for the blocks
# of earlier tiles.
_TILES = (
    "    const i64 tiles = (stop - from + TILE - 1) / TILE;",
    "    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {",
)
_TAKEN_TILES = (
    "    const i64 tiles = (stop - from + TILE - 1) / TILE;",
    "    if (thread_of_grid() == 0) state[3] = total;",
    "    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {",
)
# If all entries remain, their places are known.
_ALL_KEPT = (
    "    if (thread_of_grid() == 0) {",
    "        state[1] = stop - from, state[3] = total;",
    "        if (stop - from > room) state[2] = from + room;",
    "    }",
    "    if (stop - from > room) stop = from + room;",
    *_TILES,
)
# Else they follow those that blocks of earlier tiles keep.
_PLACES = ("        i64 to[EACH];", "        places_of_kept(keep, to, state, tile, tiles);")
_NO_ROOM = (
    "            if (at >= room) {  // the next launch begins with the first of these",
    "                if (at == room) store_relaxed(state, 2, begin + place_in_tile(i));",
    "                continue;",
    "            }",
)
_TILE = (
    "        const i64 begin = from + tile * TILE;",
    "        const i64 end = begin + TILE < stop ? begin + TILE : stop;",
    "        i64 first = row_of_tile(ends, cuts, known, rows, begin, total);",
)
# Takes a tile's rows, so many at a time as there is shared memory for.
_ROWS = (
    "        for (int done = 0; begin + done < end;) {",
    "            const int held = ",
    "                rows_of_tile(ends, starts, bounds, origins, rows, first, begin, end);",
)
# Finds the row and the position of a thread's entry.
_ENTRY = (
    "            const int covered = bounds[held - 1];",
    "            int near = 0;  // the row of the entry before",
    "#pragma unroll",
    "            for (int i = 0; i < EACH; i++) {",
    "                const int own = place_in_tile(i);",
    "                if (own < done || own >= covered) continue;",
    "                near = row_in_tile(bounds, near, held, own);",
    "                const i64 r = first + near, position = origins[near] + own;",
)
_ROWS_END = (
    "            }",
    "            if (begin + covered < end)",
    "                first = row_by_block(ends, first + held, rows, begin + covered);",
    "            done = covered;",
    "        }",
)
