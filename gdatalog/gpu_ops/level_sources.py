"""Generates the source of a level's kernels for given numbers of lists, types and tests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdatalog.gpu_ops.intersection_sources import GivenArrays, Positions
from gdatalog.gpu_ops.kernels import LEVEL_BLOCKS, LEVEL_EACH, type_of
from gdatalog.gpu_ops.level_arguments import LevelArguments
from gdatalog.storage.trie import Choice, ListRuns, Lookup, ValueTests

_BYTES = {"i32": 4, "i64": 8}
HELD_BYTES = 16384  # of shared memory for entries whose places are not known yet


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
        self._lists = len(choices) - 1  # in which values are looked up
        # Those of which a block notes where they are: so many as shared memory has room for.
        self._held_lists = 2 if positions[0] == "i32" else 1
        self._whole = not (self._lists or others or tests)  # all entries remain
        self._held: list[str] = []  # what a block finds out once for a row
        self._first: list[str] = []  # what reads an entry, and tests it
        self._looks: list[str] = []  # what looks it up then
        self._together = ""  # the lists in which all entries of a thread are looked up together
        self._own(choices)
        for op, column in tests:
            test = "==" if op == "=" else op
            self._first.append(f"if (!(key {test} (i64){self.entry(column, 'r')})) continue;")
        for number in range(self._lists):
            self._in_choice(number, choices[number], choices[number + 1])
        for number, lookup in enumerate(others, len(choices)):
            self._in_root(number, lookup)
        self._given = None

    def _own(self, choices: Sequence[Choice]) -> None:
        """The value of an entry, and its position."""
        arrays = [self.array(choice.lists.values) for choice in choices]
        kinds = {type_of(choice.lists.values) for choice in choices}
        self._key = kinds.pop() if len(kinds) == 1 else "i64"
        value = f"({self._key}){arrays[-1]}[position]"
        for number in reversed(range(self._lists)):
            if arrays[number:] != arrays[-1:] * (len(choices) - number):
                value = f"source == {number} ? ({self._key}){arrays[number]}[position] : {value}"
        self._first.append(f"const {self._key} key = {value};")
        for number, choice in enumerate(choices):
            if choice.lookup.wanted:
                self.places.append(number)
                when = f"if (source == {number}) " if self._lists else ""
                self._first.append(f"{when}place{number}[i] = position;")

    def _in_choice(self, number: int, low: Choice, high: Choice) -> None:
        """Looks a value up in one more of its row's choices: the next that is not its own."""
        later = f"source <= {number}"
        lists = [
            f"i64 low{number}, high{number};",
            f"if ({later}) {{",
            *self._list_of(number, high),
            "} else {",
            *self._list_of(number, low),
            "}",
        ]
        if number < self._held_lists:
            self._held += [
                *lists,
                f"lows{number}[near] = low{number}, highs{number}[near] = high{number};",
            ]
            lists = [
                f"const i64 low{number} = lows{number}[near], high{number} = highs{number}[near];"
            ]
        arrays = [self.array(choice.lookup.level.values) for choice in (high, low)]
        at, same = f"at{number}", arrays[0] == arrays[1]
        if same and number == 0:
            self._together = arrays[0]
            self._looks.append(f"const i64 {at} = from[i];")
        else:
            finds = [f"find({array}, low{number}, high{number}, key)" for array in arrays]
            find = finds[0] if same else f"{later} ? {finds[0]} : {finds[1]}"
            self._looks += [*lists, f"const i64 {at} = {find};", f"if ({at} < 0) continue;"]
        for when, which, choice in (("", number + 1, high), ("!", number, low)):
            if choice.lookup.wanted:
                self._looks.append(f"if ({when}({later})) place{which}[i] = {at};")

    def _list_of(self, number: int, choice: Choice) -> list[str]:
        """The lines that find the list of a choice of the row `r`."""
        lists, lookup = choice.lists, choice.lookup
        if isinstance(lists, ListRuns):
            assert lists.lows is not None and lists.highs is not None
            lows, highs = self.array(lists.lows), self.array(lists.highs)
            return [f"    low{number} = {lows}[r], high{number} = {highs}[r];"]
        offsets, parent = self.array(lookup.level.offsets), self.entry(lookup.parents, "r")
        return [
            f"    const i64 parent = {parent};",
            f"    low{number} = {offsets}[parent], high{number} = {offsets}[parent + 1];",
        ]

    def _in_root(self, number: int, lookup: Lookup) -> None:
        """Looks a value up in the root's list."""
        search = self.place(lookup.level, "key")
        self._looks += [f"const i64 at{number} = {search};", f"if (at{number} < 0) continue;"]
        if lookup.wanted:
            self.places.append(number)
            self._looks.append(f"place{number}[i] = at{number};")

    def expanding(self, value: str, places: Sequence[str]) -> str:
        """The source of the kernel that writes the rows that remain, with their values and places,
        of these types."""
        outs = ["ARRAY(i32) rows_out", f"ARRAY({value}) values_out"]
        outs += [f"ARRAY({kind}) out{n}" for n, kind in zip(self.places, places, strict=True)]
        kept = [f"{kind} place{n}[EACH];" for n, kind in zip(self.places, places, strict=True)]
        written = [
            f"rows_out[to] = rows_in[i], values_out[to] = ({value})keys[i];",
            *(f"out{n}[to] = place{n}[i];" for n in self.places),
        ]
        own = [
            f"        u32 keep = 0; {self._key} keys[EACH]; i32 rows_in[EACH]; {' '.join(kept)}",
        ]
        looked_up = [*_TILE, *self._each_entry(True, "keep |= 1u << i;")]
        begin = [
            *self._begin("expand_level", [*outs, "ARRAY(i64) state"], "i64 room, "),
            "    const int each = entries_each(stop - begins), step = THREADS * each;",
        ]
        if self._whole:
            written = [f"            {line}" for line in written]
            loop = [*_TILES, *own, *looked_up, *_WRITE_ALL, *written, "        }", "    }"]
            # The compiler knows how many entries a thread has, if there are many.
            full = [
                "    if (each == EACH) {",
                "    const int each = EACH, step = TILE;",
                *loop,
                "    } else {",
            ]
            return "\n".join([*begin, *_ALL_KEPT, *full, *loop, "    }", "}"]) + "\n"
        kinds = [("rows", "i32"), ("values", value)]
        kinds += [(f"place{n}", kind) for n, kind in zip(self.places, places, strict=True)]
        each = 4 + sum(_BYTES[kind] for _, kind in kinds)
        few = min(256, 1 << (HELD_BYTES // (2 * each)).bit_length() - 1)
        lines = [
            f"#define KEPT {few}",
            *begin,
            *(f"    SHARED({kind}, held_{name}, 2 * KEPT);" for name, kind in kinds),
            *_SOME_KEPT,
            *own,
            "        KeptOfTile found = {0, 0};",
            "        if (more) {",
            *looked_up,
            "            found = publish_kept(keep, state, tile);",
            "        }",
            *_HOLD,
            "                held_rows[to] = rows_in[i], held_values[to] = keys[i];",
            *(f"                held_place{n}[to] = place{n}[i];" for n in self.places),
            *_WRITE,
            *(f"            {line}" for line in written),
            *_WRITE_HELD,
            "                rows_out[to] = held_rows[at], values_out[to] = held_values[at];",
            *(f"                out{n}[to] = held_place{n}[at];" for n in self.places),
            *_SOME_END,
        ]
        return "\n".join(lines) + "\n"

    def counting(self, by_row: bool) -> str:
        """The source of the kernel that only counts what remains: of each row, or in all. The
        number of entries comes behind."""
        lines = [
            *self._begin("count_level", ["ARRAY(i64) counts"]),
            f"    if (thread_of_grid() == 0) counts[{'rows' if by_row else '1'}] = total;",
            "    i64 found = 0;",
            "    const int each = entries_of_held(stop - begins, rows, total);",
            "    const int step = THREADS * each;",
            *_TILES,
            f"        {self._key} keys[EACH]; i32 rows_in[EACH];",
            *_TILE,
            *self._each_entry(False, "atomic_add(counts, r, 1);" if by_row else "found++;"),
            "    }",
        ]
        if not by_row:
            lines += [
                "    const Tile<32> warp = tile_here<32>();",
                "    found = sum(warp, found);",
                "    if (warp.rank == 0 && found != 0) atomic_add(counts, 0, found);",
            ]
        return "\n".join([*lines, "}"]) + "\n"

    def _each_entry(self, placed: bool, kept: str) -> list[str]:
        """The lines that look each value of a tile up, with or without its places, and what becomes
        of one that remains."""
        source = ["const int source = sources[r];"] * (self._lists > 0)
        first, looks = (
            [line for line in lines if placed or not _PLACED.match(line)]
            for lines in (self._first, self._looks)
        )
        start, held, own, there = self._positions[0], [], [], "left >> i & 1u"
        if self._held:
            held = [
                "            for (int near = thread_of_block(); near < held; near += THREADS) {",
                "                // a row without entries may have no node",
                "                const int begins_at = near > 0 ? bounds[near - 1] : done;",
                "                if (bounds[near] <= begins_at) continue;",
                "                const i32 r = first + near;",
                *(f"                {line}" for line in (*source, *self._held)),
                "            }",
                "            block_sync();",
            ]
        if self._together:
            own = [f"            {start} from[EACH], until[EACH];"]
            first = [*first, "from[i] = lows0[near], until[i] = highs0[near];"]
            there = f"from[i] < until[i] && +{self._together}[from[i]] == keys[i]"
        else:
            first = [*first, "left |= 1u << i;"]
        near = ["const int near = r - first;"] * any("near" in line for line in looks)
        known = [
            f"if (!({there})) continue;",
            "const i32 r = rows_in[i];",
            *near,
            f"const {self._key} key = keys[i];",
            *source,
        ]
        return [
            *_ROWS,
            *held,
            "            const int covered = bounds[held - 1];",
            "            int near = 0;  // the row of the entry before",
            *(own or ["            u32 left = 0;  // entries of these rows"]),
            "#pragma unroll",
            "            for (int i = 0; i < EACH; i++) {",
            *["                from[i] = until[i] = 0;"] * bool(own),
            *_ENTRY,
            f"                const {start} position = origins[near] + own;",
            *(f"                {line}" for line in (*source, *first)),
            "                rows_in[i] = r, keys[i] = key;",
            "            }",
            *[f"            lower_of_each({self._together}, keys, from, until);"] * bool(own),
            "#pragma unroll",
            "            for (int i = 0; i < EACH; i++) {",
            *(f"                {line}" for line in (*known, *looks, kept)),
            "            }",
            *_ROWS_END,
        ]

    def _begin(self, name: str, outs: Sequence[str], room: str = "") -> list[str]:
        start, end = self._positions
        params = [f"ARRAY(const {end}) ends", "ARRAY(const i32) cuts", "i64 known"]
        params.append(f"ARRAY(const {start}) starts")
        params += ["ARRAY(const u8) sources"] * (self._lists > 0)
        held = [
            f"    SHARED({start}, {name}{number}, HELD);"
            for number in range(min(self._lists, self._held_lists))
            for name in ("lows", "highs")
        ]
        return [
            f"#define EACH {LEVEL_EACH}",
            '#include "search.cuh"',
            '#include "tile.cuh"',
            f"KERNEL_OF_BLOCKS({LEVEL_BLOCKS}, {name})(",
            f"    {', '.join([*params, *self.params, *outs])},",
            f"    {room}i64 begins, i64 most, i64 most_rows, ARRAY(const i64) ahead) {{",
            "    SHARED(i32, bounds, HELD);",
            f"    SHARED({start}, origins, HELD);",
            *held,
            "    const i32 rows = (i32)rows_of_level(most_rows, ahead);",
            "    const i64 total = rows > 0 ? ends[rows - 1] : 0;",
            "    const bool even = begins % THREADS == 0;",
            "    i64 stop = total - begins < most ? total : begins + most;",
        ]


_PLACED = re.compile(r"(if \(.*\) )?place\d+\[i\] = ")
# Loops over the tiles: a block takes every so many-th.
_TILES = (
    "    const i64 tiles = (stop - begins + step - 1) / step;",
    "    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {",
)
# If all entries remain, their places are known.
_ALL_KEPT = (
    "    if (thread_of_grid() == 0) {",
    "        state[1] = stop - begins, state[3] = total;",
    "        if (stop - begins > room) state[2] = begins + room;",
    "    }",
    "    if (stop - begins > room) stop = begins + room;",
)
_WRITE_ALL = (
    "#pragma unroll",
    "        for (int i = 0; i < EACH; i++) {",
    "            if (!(keep >> i & 1u)) continue;",
    "            const i64 to = begin - begins + place_in_tile(i, each);",
)
# Else they follow those that blocks of earlier tiles keep. A block holds the few that it keeps of a
# tile until it has looked at the next one, so that it hardly waits for other blocks.
_SOME_KEPT = (
    "    SHARED(i32, held_from, 2 * KEPT);",
    "    const i64 tiles = (stop - begins + step - 1) / step;",
    "    if (thread_of_grid() == 0) state[3] = total;",
    "    TakenTile taken = {0, 0};",
    "    take_ahead(state, taken);",
    "    i64 held_tile = -1;",
    "    int held_total = 0, side = 0;  // of the held entries: there is room for two tiles",
    "    while (true) {",
    "        const i64 tile = taken_tile(taken);",
    "        const bool more = tile < tiles;",
    "        if (more) take_ahead(state, taken);",
)
_HOLD = (
    "        const bool few = found.total <= KEPT;",
    "        i64 next = found.before;",
    "        next += few ? side : place_of_tile(state, tile, found.total, tiles);",
    "#pragma unroll",
    "        for (int i = 0; i < EACH; i++) {",
    "            const bool kept = keep >> i & 1u;",
    "            const i64 to = take_place(next, kept);",
    "            if (!kept) continue;",
    "            if (few) {",
    "                held_from[to] = place_in_tile(i, each);",
)
_WRITE = (
    "                continue;",
    "            }",
    "            if (to == room)  // the next launch begins there",
    "                store_relaxed(state, 2, begins + tile * step + place_in_tile(i, each));",
    "            if (to >= room) continue;",
)
_WRITE_HELD = (
    "        }",
    "        side = KEPT - side;",
    "        if (held_tile >= 0) {",
    "            const i64 base = place_of_tile(state, held_tile, held_total, tiles);",
    "            for (int n = thread_of_block(); n < held_total; n += THREADS) {",
    "                const i64 to = base + n;",
    "                const int at = side + n;",
    "                if (to == room)",
    "                    store_relaxed(state, 2, begins + held_tile * step + held_from[at]);",
    "                if (to >= room) break;",
)
_SOME_END = (
    "            }",
    "        }",
    "        if (!more) break;",
    "        held_tile = few ? tile : -1, held_total = found.total;",
    "    }",
    "}",
)
_TILE = (
    "        const i64 begin = begins + tile * step;",
    "        const int size = stop - begin < step ? (int)(stop - begin) : step;",
    "        i32 first = row_of_tile(ends, cuts, known, even, rows, begin, total);",
    "        const i32 last = last_row_of_tile(cuts, known, even, rows, begin + step, total);",
)
# Takes a tile's rows, so many at a time as there is shared memory for.
_ROWS = (
    "        for (int done = 0; done < size;) {",
    "            const int held =",
    "                rows_of_tile(ends, starts, bounds, origins, rows, first, last, begin, size);",
)
_ROWS_END = (
    "            if (covered < size)",
    "                first = (i32)row_by_block(ends, first + held, rows, begin + covered);",
    "            done = covered;",
    "        }",
)
# Finds the row and the position of a thread's entry.
_ENTRY = (
    "                const int own = place_in_tile(i, each);",
    "                if (i >= each || own < done || own >= covered) continue;",
    "                near = row_in_tile(bounds, near, held, own);",
    "                const i32 r = first + near;",
)
