"""Prints a join plan as a module with one function: nested loops over the lists of its tries.

Each step is printed inside the previous one. A step that tests a row prints `continue` for rows
that fail, so every scope is a loop, even if it runs only once. Work that does not depend on a loop
is hoisted out of it: ranges of lists, intersections, marks. `levels.py` and `recode.py` print the
steps that extend rows; `leaves.py` prints what happens to a complete row.
`branches.py` prints what a branch computes for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gdatalog.plan import join_plan as plan
from gdatalog.plan.effects import all_steps
from gdatalog.plan.labels import format_join
from gdatalog.printer.arguments import Argument, LevelArgument
from gdatalog.printer.branches import print_branch
from gdatalog.printer.cached_intersections import find_kept
from gdatalog.printer.expressions import ExpressionPrinter, Unprintable
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.leaves import GroupLeaf
from gdatalog.printer.level_loop import last_loop
from gdatalog.printer.levels import print_generate, print_join, spreads, spreads_behind
from gdatalog.printer.lookups import seek
from gdatalog.printer.nest import Leaf, NestPrinter, Point
from gdatalog.printer.nest_state import ARRAY, Counter, Counting
from gdatalog.printer.recoded_lists import looked_up
from gdatalog.printer.tallies import print_tally
from gdatalog.printer.turns import begin_unit, tasks
from gdatalog.records import dataclass

# The helpers that printed source may call, by their module in codegen.
HOMES = {
    "helpers": ("add", "at", "mark_first", "prefetch", "put", "stopped", "take"),
    "helpers.group_sets": (
        "add_bit", "add_new_bit", "add_own", "empty_bits", "empty_slots", "widen_slots",
    ),
    "helpers.key_sets": ("add_key", "slot_of"),
    "helpers.hash_tables": ("find_child", "has_child"),
    "helpers.lists": (
        "children", "fetch_children", "fetch_sought", "find", "find_indexed", "find_root", "has",
        "lower", "parent_of", "seek", "upper",
    ),
    "helpers.tallies": ("clear_tally", "fetch_kept", "find_tally", "keep_list", "sum_tally"),
    "helpers.list_merges": (
        "count_common", "count_leapfrog", "count_merge", "intersect", "leapfrog", "merge",
    ),
    "helpers.marks": (
        "count_intersect_marked", "intersect_marked", "is_marked", "mark", "unmark", "weigh_common",
        "weigh_marked",
    ),
    "helpers.bit_rows": (
        "above", "and_rows", "below", "copy_row", "count_and", "count_row", "fill_ones", "has_bit",
    ),
    "helpers.recoding": ("place", "recode_rows", "unplace"),
    "helpers.bits": ("trailing_zeros",),
    "helpers.lattice": (
        "begin", "clear", "follow_again", "goes_round", "improve", "improves", "next_group",
    ),
    "helpers.numbered_groups": ("enter_codes", "number_all", "numbered"),
}  # fmt: skip


# A function that emits rows reads its worker's `state`: the size of a block (2), the number of rows
# wanted (6). It writes the number of rows to keep if the block is full (4).
ROWS = ("room, wanted = state[2], state[6]", "n = 0")


@dataclass(frozen=True, slots=True)
class PrintedPlan:
    """The source of a plan's function, and its arguments.

    `which`: the positions of the plan's distinct tries; arguments and scalars number tries in this
    order. `single`: each worker emits one row at most.
    """

    shape: str
    source: str
    arguments: tuple[Argument, ...]
    scalars: tuple[tuple[str, LevelArgument], ...]
    expressions: ExpressionPrinter
    which: tuple[int, ...]
    outputs: int
    parallel: bool
    grain: int
    single: bool = False
    lanes: int = 0
    counters: tuple[Counter, ...] = ()


def print_plan(
    join: plan.JoinPlan,
    tries: Sequence[TrieLayout],
    leaf: Leaf,
    intersect: str,
    tile: int = 0,
    given: Sequence[npt.DTypeLike] = (),
    counted: bool = False,
    modular: bool = False,
    keeps: bool = False,
    keeps_rows: bool = False,
) -> PrintedPlan:
    """Prints the function of a plan, for a CPU thread or for a GPU's tile of `tile` lanes.

    `given`: the dtypes of the given rows' columns. `counted`: the function counts bindings for a
    profile. `modular`: it counts modulo an argument. `keeps`: it may cache intersections;
    `keeps_rows`: rows of bits.
    """
    nest = StepPrinter(join, tries, intersect, tile, modular)
    if counted:
        nest.counting = Counting(list(all_steps(nest.join.steps)))
    here = Point(nest, nest.join.steps, leaf, alone=tile == 1)
    leaf.start(nest)
    nest.keeps_rows = keeps_rows
    if keeps:
        nest.kept = find_kept(nest)
        nest.placed |= {kept.edge for kept in nest.kept.values()}
    with nest.text.block("for once in range(1)"):
        if join.given is not None and join.given.slots:  # rows without columns are one row
            here.given = tuple([np.dtype(dtype).name for dtype in given])
        nest.run(here)
    leaf.finish(nest)
    if not tile:
        nest.commit()
        nest.text.line("state[0], state[1], state[4] = 0, 0, n")
    single = isinstance(leaf, GroupLeaf) and not leaf.keys
    prologue = () if tile else ROWS
    return finished(nest, _shape(join, leaf), [nest.join], prologue, single=single)


def finished(
    nest: NestPrinter,
    shape: str,
    plans: Sequence[plan.JoinPlan],
    prologue: Sequence[str],
    own: Sequence[Argument] = (),
    single: bool = False,
    written: bool = True,
) -> PrintedPlan:
    """The result, once the loops are printed. `plans` become comments; `prologue` reads the
    function's state; `own` are arguments besides those of the nest. `written`: a tile writes rows
    to a block, which may become full."""
    lines, counters = list(prologue), tuple[Counter, ...]()
    found = nest.arguments.found
    if nest.counting is not None:
        counters = nest.counting.counters
        if counters:
            nest.arguments.plain("counts", ARRAY)
        lines += nest.counting.finish(nest.text, nest.tile, written and not single)
    lines += nest.prologue
    outputs = [argument for argument in found.values() if argument.kind == "output"]
    outputs.sort(key=lambda argument: int(argument.name[3:]))
    inputs = (argument for argument in found.values() if argument.kind != "output")
    arguments = (*inputs, *own, *outputs)
    comments = [line for join in plans for line in format_join(join)]
    return PrintedPlan(
        shape,
        loops_alone(nest, comments, lines)
        if nest.tile
        else module_of(nest, arguments, comments, lines),
        arguments,
        tuple(nest.arguments.scalars),
        nest.expressions,
        tuple(nest.which),
        len(outputs),
        nest.tasks,
        nest.grain,
        single,
        nest.tile,
        counters,
    )


def loops_alone(nest: NestPrinter, comments: Sequence[str], prologue: Sequence[str]) -> str:
    """The loops of a tile, which `gpu_ops` wraps in a kernel."""
    lines = [*(f"# {line}" for line in comments), "def walk():"]
    return "\n".join([*lines, *(f"    {line}" for line in prologue), *nest.text.lines, ""])


def _shape(join: plan.JoinPlan, leaf: Leaf) -> str:
    """A short description without names, since other rules' plans may share the code."""
    levels = sum(isinstance(step, (plan.Join, plan.Generate)) for step in all_steps(join.steps))
    what = "aggregate" if isinstance(leaf, GroupLeaf) else "rows"
    return f"{what} of {levels} levels of {len(join.tries)} atoms"


def module_of(
    nest: NestPrinter,
    arguments: Sequence[Argument],
    comments: Sequence[str],
    prologue: Sequence[str],
) -> str:
    """The source of the module; `comments` describe the plan to readers, and `prologue` reads the
    function's state."""
    expressions = nest.expressions
    types = {"control": "i64[]", "state": "i64[]", "sizes": "i64[]"}
    types |= expressions.types()
    types |= {argument.name: argument.type for argument in arguments}
    lines = ['"""A join plan, printed by gdatalog:', ""]
    lines += [line.replace("\\", "/").replace('"', "'") for line in comments]
    lines += ['"""', "", "import numpy as np", ""]
    for home, names in HOMES.items():
        used = [name for name in names if name in nest.imports]
        if used:
            lines.append(f"from gdatalog.codegen.{home} import {', '.join(used)}")
    values = sorted(expressions.imports | (nest.imports - {n for ns in HOMES.values() for n in ns}))
    if values:
        lines.append(f"from gdatalog.codegen.helpers.values import {', '.join(values)}")
    # The entries of `state`, one array for each worker: the current interval (0, 1), the number of
    # workers (3), the least task (5).
    lines += [
        "",
        "",
        "def run(",
        *(f'    {name}: "{kind}",' for name, kind in types.items()),
        ') -> "i64":',
        "    start, stop = state[0], state[1]",
        "    threads, grain = state[3], state[5]",
    ]
    lines += [f"    {line}" for line in prologue]
    for at, (kind, level) in enumerate(nest.arguments.scalars):
        lines.append(f"    {kind}{level.trie}_{level.depth} = sizes[{at}]")
    lines += [f"    {line}" for line in expressions.prologue()]
    lines += nest.text.lines
    lines += ["    return 0", ""]
    return "\n".join(lines)


def print_given(here: Point, given: plan.GivenRows) -> None:
    """Prints the outermost loop of a plan with given rows, whose columns are the arguments `new0`,
    `new1`, ... A worker takes tasks, intervals of rows, until none is left, and runs the steps for
    each row. Each row is a unit of work."""
    nest, text = here.nest, here.text
    names = [nest.arguments.plain("given", f"new{at}", kind) for at, kind in enumerate(here.given)]
    nest.split = nest.tasks = True
    text.line("base = np.int64(0)")
    text.line(f"total = np.int64(len({names[0]}))")
    with tasks(nest, here.leaf):
        spread = spreads(here)
        lanes = spread or (here.together() and last_loop(here, -1))
        text.line("s, e = base + start, base + stop")
        turn = text.name("i")
        turns = "units(start, stop)" if lanes else "range(s, e)"
        with text.block(f"for {turn} in {turns}"):
            inner = here.inner()
            inner.given = ()
            inner.alone, inner.spread = here.alone or lanes, spread
            if not lanes:
                begin_unit(inner, turn)
            if nest.tile < 2:
                inner.may_stop()
            for slot, column, kind in zip(given.slots, names, here.given, strict=True):
                inner.bind(slot.name, nest.call("at", column, turn))
                nest.widths[slot.name] = kind
            nest.run(inner)


class StepPrinter(NestPrinter):
    """Prints the steps of a plan, and its leaf inside them."""

    def run(self, here: Point) -> None:
        """Prints the loop of given rows, the steps from `at` on, then the leaf."""
        while here.given or here.at < len(here.steps):
            if here.leaf.begins(here):
                return
            if here.given:
                assert self.join.given is not None
                print_given(here, self.join.given)
                return
            step = here.steps[here.at]
            if isinstance(step, plan.Join):
                print_join(here)
                return
            if isinstance(step, plan.Generate):
                print_generate(here, step)
                return
            here.leaf.passes(here)
            self.narrow(here, step)
            if isinstance(step, plan.Tally):
                here.spread = spreads_behind(here)
            if here.group is not None and here.at == here.group.recoding.levels[-1]:
                here.group = None
            here.bound(step)
            here.at += 1
        if not here.leaf.begins(here):
            here.leaf.emit(here)

    def narrow(self, here: Point, step: plan.Step) -> None:
        """Prints a step that keeps the current row or continues with the next."""
        text = self.text
        match step:
            case plan.Guard():
                ref = self.join.tries[step.trie]
                total = self.arguments.scalar("total", LevelArgument(self.number[ref], 0))
                with text.block(f"if {total} == 0"):
                    text.line("continue")
                if step.weighted:
                    here.weights.append(total)
            case plan.Seek():
                parts = step.participants
                if here.group is not None:
                    parts = tuple(part for part in parts if looked_up(self, here.group, part))
                if parts:
                    seek(here, step.value, here.key(step.value), parts)
            case plan.Assign():
                name = here.bind(step.variable, here.key(step.expr))
                seek(here, plan.Slot(step.variable, step.type), name, step.participants)
            case plan.Filter():
                before: list[str] = []
                test = self.expressions.test(step.test, here.names, before)
                for line in before:
                    text.line(line)
                with text.block(f"if not ({test})"):
                    text.line("continue")
            case plan.Compact():
                pass  # duplicates are dropped where rows are gathered
            case plan.Restore():
                self.restore(here, step)
            case plan.Branch():
                print_branch(here, step)
            case plan.Tally():
                print_tally(here, step)
            case _:
                raise Unprintable(f"{type(step).__name__.lower()} is not printed")

    def restore(self, here: Point, step: plan.Restore) -> None:
        """Maps ranks back to values, sorted by a sorting network."""
        labels = self.arguments.of_trie(self.number[self.join.tries[step.trie]], "labels")
        names = []
        for rank, variable in zip(step.ranks, step.variables, strict=True):
            names.append(here.bind(variable, f"{labels}[{here.names[rank]}]"))
        for end in range(len(names) - 1, 0, -1):
            for a, b in pairwise(names[: end + 1]):
                self.text.line(f"{a}, {b} = min({a}, {b}), max({a}, {b})")
