"""The CUDA source of a printed plan, as one kernel, its arguments, and the layout of its scratch
memory.

The kernel is called `walk_plan`. Each tile of `LANES` lanes takes tasks until none is left.

A buffer must have room for the longest list, but almost all lists are far shorter. If memory does
not suffice for a long buffer for each tile, each tile owns a short part of the buffer, and borrows
a longer part for lists that do not fit (`kernels/walk.cuh`). Few lists are long, but a tile works
longer on them; so the number of longer parts falls with the square root of their length. Rows of
bits are still more work, so that there are as many longer parts of each length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.gpu_ops.control_words import THREADS
from gdatalog.gpu_ops.cupy_kernel import bare
from gdatalog.gpu_ops.sources import whole
from gdatalog.gpu_ops.teams import Team
from gdatalog.gpu_ops.translate import Translation
from gdatalog.printer.arguments import Argument, LevelArgument
from gdatalog.printer.module import PrintedPlan
from gdatalog.printer.nest_state import ARRAY, Counter
from gdatalog.records import dataclass

# Blocks of a multiprocessor that loops are compiled for, and those that hold lists.
RESIDENT, HOLDING = 8, 10
# Teams of a multiprocessor: while some wait for each other's tiles, others work. And their threads.
TEAMS = 4
OF_TEAMS = 1024
_RENAMED = {"f64": "double", "bool": "u8"}

# The numbers that every kernel has as arguments, after the arrays that its tiles share.
NUMBERS = (
    "capacity", "grain", "limit", "pieces", "blocks", "block_rows", "wanted", "tiles",
    "part", "parts", "team",
)  # fmt: skip

_HEAD = """#include "walk.cuh"
#include "bits.cuh"
#include "tallies.cuh"
#include "values.cuh"
"""

_START = """\
    const Tile<LANES> t = tile_here<LANES>();
    const Run run = {control, ring,   counts,     previous, capacity, grain, limit,
                     pieces,  blocks, block_rows, wanted,   tiles,    part,  parts, team};
    Work work = work_open();
"""

# Tiles without a part of few given rows leave at once.
_OF_ROUND = "    if (tile_of_grid<LANES>() >= tiles_of_round(control, tiles, sizes[1])) return;"

_END = """\
finish:
    if (troubled(t, run, work)) work.pool.n = 0;
    pool_close(t, work.pool, counts);
    if (thread_of_block() == 0 && block_of_grid() < ends_n) ends[block_of_grid()] = nanoseconds();
"""


_TEAM = (
    "    SHARED(i64, team_words, TEAM_WORDS);",
    "    SHARED(u32, team_numbers, TEAM_NUMBERS);",
    f"    SHARED(i64, team_sums, {OF_TEAMS // TEAMS} / LANES);",
    f"    SHARED(i64, team_ends, {OF_TEAMS // TEAMS});",
    f"    SHARED(i64, team_origins, {OF_TEAMS // TEAMS});",
    "    ROOM(u8, team_table, team);",
    "    const i64 place = place_of_team<LANES>(team);",
)

# A tile's table of a list that it holds.
_HOLDS = (
    f"    SHARED(i32, all_held, HELD_SLOTS * ({THREADS} / LANES));",
    "    const i64 own_held = (i64)HELD_SLOTS * (thread_of_block() / LANES);",
    "    const auto held = slice(all_held, own_held, HELD_SLOTS);",
    "    Held held_now = {0, 0, 0};",
)

_FINISH = """\
finish:
    return_rooms(t, lent, borrowed, 0);
"""


# The words of `sizes` before the plan's own, if it has given rows: where they begin in their
# columns, and their number.
GIVEN_WORDS = 2


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """The kernel of a plan. `source`: without comments, so that plans share it. `arrays`: its array
    arguments, in order, after those that all kernels have. `sized`: the arrays that are followed by
    their length. `given`: the columns of given rows, of which `sizes` says the part to read.
    `table`: the table of counts that may lie in a block's shared memory; `filling`: the values
    whose lists fill it."""

    printed: PrintedPlan
    source: str
    arrays: tuple[str, ...]
    sized: frozenset[str]
    scratch: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    lanes: int
    buffers: tuple[str, ...]  # scratch of which tiles may borrow longer parts
    given: tuple[str, ...]
    table: str | None = None
    filling: str = ""
    turned: tuple[tuple[str, LevelArgument], ...] = ()


def element(kind: str) -> str:
    """The C++ type of an array's elements."""
    name = kind.removesuffix("[]")
    return _RENAMED.get(name, name)


def loops_of(printed: PrintedPlan) -> LoopKernel:
    """The kernel of a plan that was printed for a tile."""
    lanes = printed.lanes
    types = {"sizes": "i64[]"} | printed.expressions.types()
    inputs = {name: element(kind) for name, kind in types.items()}
    results: dict[str, str] = {}
    scratch, outputs = [], []
    for argument in printed.arguments:
        if argument.kind == "output":
            outputs.append(argument)
        elif argument.kind in ("buffer", "rows", "words", "own", "tally", "tallied"):
            scratch.append(argument)
        elif argument.kind in ("result", "counts", "local"):
            results[argument.name] = element(argument.type)
        else:
            inputs[argument.name] = element(argument.type)
    own = {argument.name: element(argument.type) for argument in scratch}
    given = tuple(a.name for a in printed.arguments if a.name.removeprefix("new").isdecimal())
    columns = [element(argument.type) for argument in outputs]
    counters = printed.counters
    kept = [counter for counter in counters if counter.kept in printed.source]
    # All tasks read a buffer that is filled before the first task, so a tile cannot borrow it.
    first, _, inside = printed.source.partition("while next_task")
    buffers = tuple(
        argument.name
        for argument in scratch
        if argument.kind in ("buffer", "rows") and f"{argument.name})" not in first and inside
    )
    translation = Translation(
        inputs | results | own, columns, lanes, buffers, teams=printed.single, counters=counters,
        undone=kept,
    )  # fmt: skip
    scalars = [f"{kind}{at.trie}_{at.depth}" for kind, at in printed.scalars]
    skipped = GIVEN_WORDS if given else 0
    prologue = [f"{name} = sizes[{at + skipped}]" for at, name in enumerate(scalars)]
    prologue += printed.expressions.prologue()
    text = printed.source.replace(
        "def walk():\n", "def walk():\n" + "".join(f"    {line}\n" for line in prologue)
    )
    body = translation.body(text)
    team, turned = translation.team, translation.turned
    inputs |= dict.fromkeys(turned, "i32")
    levels = {
        argument.name: argument.levels[0] for argument in printed.arguments if argument.levels
    }
    sized = (frozenset(translation.lengths) | own.keys()).difference(given)
    arrays = [*inputs, *results, *own, *(argument.name for argument in outputs)]
    parameters = [
        "ARRAY(i64) control", "ARRAY(i64) ring", "ARRAY(i32) counts", "ARRAY(i32) previous",
        "ARRAY(i64) ends", "i64 ends_n", *(f"i64 {name}" for name in NUMBERS),
    ]  # fmt: skip
    for name, kind in inputs.items():
        parameters.append(_parameter(f"const {kind}", name, sized, "_all" * (name in given)))
    parameters += [_parameter(kind, name, sized) for name, kind in results.items()]
    parameters += [_parameter(kind, name, sized, "_all") for name, kind in own.items()]
    parameters += [f"ARRAY({kind}) out{at}" for at, kind in enumerate(columns)]
    if buffers:
        parameters += ["ARRAY(const i64) rooms", "ARRAY(i64) lent", "i64 classes"]
    wide = ["double" if kind == "double" else "i64" for kind in columns]
    give = [f"    {kind} give{at} = 0;" for at, kind in enumerate(wide)]
    give += [f"    i64 number{at} = 0;" for at in range(translation.numbers)]
    give += ["    i64 give_key = 0, give_count = 0;"] if translation.counts else []
    tails = translation.lists * THREADS // lanes  # lengths of the worklists of a block's tiles
    none = ", ".join("-1" for _ in buffers)
    dealt = f"{translation.dealt} * {OF_TEAMS // TEAMS}"
    hashed = any(a.name == "known" or a.kind in ("spans", "keys") for a in printed.arguments)
    # Loops that count wait for loads: more warps are worth more than all registers. Of those that
    # keep tables of counts, only teams: few tables fit into the caches.
    tables = any(argument.kind in ("tally", "tallied") for argument in scratch)
    bounded = translation.entries or (printed.single and not tables)
    resident = HOLDING if turned else RESIDENT
    bounds = f"#define BOUNDS __launch_bounds__({THREADS}, {resident})\n" * bounded
    bounds = f"#define BOUNDS __launch_bounds__({OF_TEAMS})\n" if team else bounds
    lines = [
        bounds + '#include "hashing.cuh"\n' * hashed,
        _HEAD + '#include "teams.cuh"\n' * bool(team),
        *(f"// {line.removeprefix('# ')}" for line in printed.source.splitlines()
          if line.startswith("# ")),
        f"enum {{ LANES = {lanes} }};", "",
        "KERNEL(walk_plan)(" + ",\n             ".join(parameters) + ") {",
        *_top(translation.root, inputs),
        *([f"    SHARED(u32, tails, {tails});"] if tails else []),
        *(_TEAM if team else []),
        *([f"    SHARED(i64, team_dealt, {dealt});"] if translation.dealt else []),
        *(_HOLDS if turned or translation.holds else []),
        "    if (tile_of_grid<LANES>() >= tiles) return;",
        *(_part(name, inputs[name]) for name in given),
        *(_slice(name, kind, buffers, team) for name, kind in own.items()),
        *([f"    i64 borrowed[{len(buffers)}] = {{{none}}};"] if buffers else []),
        *translation.declarations(), *give, "    bool gives = false;",
        *([_OF_ROUND] if given else []),
        _START.rstrip("\n"),
        *([f"    auto {team.table} = open_team(run, work, team_words, team_numbers, team_table, "
           f"{team.table}_far, {team.table}_n);"] if team else []),
        *body,
        _END.replace("finish:\n", _FINISH) if buffers else _END,
        *_counted(counters),
        "}", "",
    ]  # fmt: skip
    return LoopKernel(
        printed,
        whole(bare("\n".join(lines))),
        tuple(arrays),
        sized,
        tuple(scratch),
        tuple(outputs),
        lanes,
        buffers,
        given,
        None if team is None else team.table,
        "" if team is None else team.filling,
        tuple((name, levels[offsets]) for name, offsets in turned.items()),
    )


def _counted(counters: Sequence[Counter]) -> Iterator[str]:
    """The lines that add the tile's counters to the totals when the tile ends."""
    for at, counter in enumerate(counters):
        what = "at_least" if counter.again else "add"
        yield f"    {what}_counted(t, {ARRAY}, {at}, {counter.name});"


def _top(root: str | None, inputs: Mapping[str, str]) -> list[str]:
    """The lines in which all threads of a block load the top of a root's search tree."""
    if root is None:
        return []
    load = f"    const int n_top = load_top({root}, {root}_n, top);"
    return [f"    SHARED({inputs[root]}, top, TOP);", load]


def _parameter(kind: str, name: str, sized: frozenset[str], suffix: str = "") -> str:
    length = f", i64 {name}_n" if name in sized else ""
    return f"ARRAY({kind}) {name}{suffix}{length}"


def _part(name: str, kind: str) -> str:
    """The part of a column of given rows that is read."""
    part = f"    const Array<const {kind}> {name} = slice({name}_all, sizes[0], sizes[1]);"
    return f"{part}\n    const i64 {name}_n = sizes[1];"


def _slice(name: str, kind: str, buffers: Sequence[str], team: Team | None) -> str:
    """A tile's own part of its scratch; or its team's."""
    part = f"slice({name}_all, tile_of_grid<LANES>() * {name}_n, {name}_n)"
    array = f"    Array<{kind}> {name}"
    if team is not None and name in (team.table, team.values):
        theirs = part.replace("tile_of_grid<LANES>()", "place")
        their = f"{name}_{'far' if name == team.table else ''}".rstrip("_")
        return (
            f"    const Array<{kind}> {name}_own = {part};\n    Array<{kind}> {their} = {theirs};"
        )
    if name in buffers:
        return f"    const Array<{kind}> {name}_own = {part};\n{array} = {name}_own;"
    return f"{array} = {part};"
