"""A join plan as the source of a module with one function: a nest of loops over the lists of its
tries; and the function's arguments.

Each step is printed inside the one before. A step whose test fails prints `continue`, so each scope
is a loop, if only of one turn. Work that does not depend on a loop is hoisted out of it: ranges of
lists, intersections, marks. `levels.py` and `recode.py` print the steps that extend rows,
`leaves.py` prints what happens to a complete row. A branch is nested loops that compute an
existence test, a count or an aggregate for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gdatalog.plan import (
    Assign,
    Branch,
    Compact,
    Filter,
    Generate,
    GivenRows,
    Guard,
    Join,
    JoinPlan,
    Restore,
    Seek,
    Slot,
    Step,
    Tally,
)
from gdatalog.plan.effects import all_steps
from gdatalog.plan.format import format_join
from gdatalog.printer import Argument, LevelArgument, TrieLayout
from gdatalog.printer.expressions import ExpressionPrinter, Unprintable
from gdatalog.printer.leaves import (
    Accumulators,
    BranchCount,
    Gathered,
    GroupLeaf,
    WitnessLeaf,
    accumulable,
)
from gdatalog.printer.levels import last_loop, print_generate, print_join, spreads, spreads_behind
from gdatalog.printer.nest import Counter, Counting, Leaf, NestPrinter
from gdatalog.printer.nest_state import KnownPositions
from gdatalog.printer.recode import count_bits, looked_up
from gdatalog.printer.reuse import find_kept
from gdatalog.printer.tallies import print_tally
from gdatalog.printer.turns import begin_unit
from gdatalog.records import dataclass

# The helpers that printed source may call, by their module in codegen.
HOMES = {
    "helpers": ("add", "at", "mark_first", "prefetch", "put", "stopped", "take"),
    "helpers.hash_tables": (
        "add_bit", "add_key", "add_new_bit", "add_own", "empty_bits", "empty_slots", "find_child",
        "has_child", "slot_of", "widen_slots",
    ),
    "helpers.lists": (
        "children", "clear_tally", "count_common", "count_leapfrog", "count_intersect_marked",
        "count_merge", "fetch_children", "fetch_kept", "fetch_sought", "find", "find_indexed",
        "find_root", "find_tally", "has", "intersect", "is_marked", "keep_list", "leapfrog",
        "lower", "mark", "intersect_marked", "merge", "parent_of", "seek", "sum_tally", "unmark",
        "upper", "weigh_common", "weigh_marked",
    ),
    "helpers.bits": (
        "above", "and_rows", "below", "copy_row", "count_and", "count_row", "fill_ones", "has_bit",
        "place", "recode_rows", "trailing_zeros", "unplace",
    ),
    "helpers.lattice": (
        "begin", "clear", "enter_codes", "follow_again", "goes_round", "improve", "improves",
        "next_group", "number_all", "numbered",
    ),
}  # fmt: skip


# A function that emits rows reads its worker's `state`: the size of a block (2), the number of rows
# wanted (6). It writes the number of rows to keep if the block is full (4).
ROWS = ("room, wanted = state[2], state[6]", "n = 0")


@dataclass(frozen=True, slots=True)
class PrintedPlan:
    """The source of a plan's function, and its arguments.

    `single`: each worker emits one row at most. `which`: the positions of the distinct tries among
    the plan's, in the order in which arguments and scalars number them.
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
    join: JoinPlan,
    tries: Sequence[TrieLayout],
    leaf: Leaf,
    intersect: str,
    tile: int = 0,
    given: Sequence[Any] = (),
    counted: bool = False,
    modular: bool = False,
    keeps: bool = False,
) -> PrintedPlan:
    """Prints the function of a plan, for a CPU thread or for a GPU's tile of `tile` lanes.

    `given`: the dtypes of the given rows' columns. `counted`: it counts bindings for a profile.
    `modular`: it counts modulo an argument. `keeps`: it may cache intersections.
    """
    nest = StepPrinter(join, tries, intersect, tile, modular)
    counting = Counting(list(all_steps(nest.join.steps))) if counted else None
    nest.counting = counting
    text, known = nest.text, KnownPositions(alone=tile == 1)
    leaf.start(nest)
    if keeps:
        nest.kept = find_kept(nest)
        nest.placed |= {kept.edge for kept in nest.kept.values()}
    with text.block("for once in range(1)"):
        if join.given is not None:
            print_given(nest, join.given, given, known, leaf)
        else:
            nest.run(nest.join.steps, 0, known, leaf)
    leaf.finish(nest)
    if not tile:
        nest.commit()
    single = isinstance(leaf, GroupLeaf) and not leaf.keys
    counters = [] if counting is None else counting.finish(nest, not single)
    outputs = [a for a in nest.arguments.found.values() if a.kind == "output"]
    outputs.sort(key=lambda argument: int(argument.name[3:]))
    arguments = [a for a in nest.arguments.found.values() if a.kind != "output"] + outputs
    if tile:
        source = loops_alone(nest, _plan(nest), [*counters, *nest.prologue])
    else:
        text.line("state[0], state[1], state[4] = 0, 0, n")
        source = module_of(nest, arguments, _plan(nest), [*ROWS, *counters, *nest.prologue])
    return PrintedPlan(
        _shape(join, leaf),
        source,
        tuple(arguments),
        tuple(nest.arguments.scalars),
        nest.expressions,
        tuple(nest.which),
        len(outputs),
        nest.tasks,
        nest.grain,
        single,
        tile,
        () if counting is None else counting.counters,
    )


def loops_alone(nest: NestPrinter, comments: Sequence[str], prologue: Sequence[str]) -> str:
    """The loops of a tile, which `gpu_ops` wraps in a kernel."""
    lines = [*(f"# {line}" for line in comments), "def walk():"]
    return "\n".join([*lines, *(f"    {line}" for line in prologue), *nest.text.lines, ""])


def _shape(join: JoinPlan, leaf: Leaf) -> str:
    """A short description without names: plans of other rules may share the code."""
    levels = sum(isinstance(step, (Join, Generate)) for step in all_steps(join.steps))
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


def _plan(nest: NestPrinter) -> list[str]:
    return format_join(nest.join)


def print_given(
    nest: NestPrinter, given: GivenRows, dtypes: Sequence[Any], known: KnownPositions, leaf: Leaf
) -> None:
    """The outermost loop of a plan with given rows, each a unit of work: takes tasks of rows until
    none is left, and runs the steps for each row.

    `dtypes` are those of the rows' columns, the arguments `new0`, `new1`, ...
    """
    text = nest.text
    if not given.slots:  # a proposition: one row without columns
        nest.run(nest.join.steps, 0, known, leaf)
        return
    columns = [
        nest.arguments.given(f"new{at}", np.dtype(dtype).name) for at, dtype in enumerate(dtypes)
    ]
    nest.split = nest.tasks = True
    text.line("base = np.int64(0)")
    text.line(f"total = np.int64(len({columns[0]}))")
    with text.block("while next_task(total)" if nest.tile else "while True"):
        if nest.tile:
            nest.commit()
        if not nest.tile:
            with text.block("if start >= stop"):
                take = nest.call("take", "control", "threads", "total", "grain")
                text.line(f"start, stop = {take}")
                with text.block("if start >= stop"):
                    text.line("break")
        spread = spreads(nest, nest.join.steps, leaf)
        lanes = spread or (nest.together(known) and last_loop(nest, nest.join.steps, -1, leaf))
        text.line("s, e = base + start, base + stop")
        turn = text.name("i")
        turns = "units(start, stop)" if lanes else "range(s, e)"
        with text.block(f"for {turn} in {turns}"):
            inner = known.inner()
            inner.alone, inner.spread = known.alone or lanes, spread
            if not lanes:
                begin_unit(nest, turn, None, leaf, inner)
            if nest.tile < 2:
                nest.may_stop(inner)
            for slot, column, dtype in zip(given.slots, columns, dtypes, strict=True):
                nest.bind(slot.name, nest.call("at", column, turn), inner)
                nest.widths[slot.name] = np.dtype(dtype).name
            nest.run(nest.join.steps, 0, inner, leaf)
        if not nest.tile:
            leaf.settle(nest)
            text.line("start = stop")


# Steps.


class StepPrinter(NestPrinter):
    """Prints the steps of a plan, and a leaf behind them."""

    def run(self, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf) -> None:
        """Prints the steps from `at` on, then the leaf."""
        while at < len(steps):
            if leaf.begins(self, steps, at, known):
                return
            step = steps[at]
            if isinstance(step, Join):
                print_join(self, steps, at, known, leaf)
                return
            if isinstance(step, Generate):
                print_generate(self, step, steps, at, known, leaf)
                return
            leaf.passes(self, step, known)
            self.narrow(step, known)
            if isinstance(step, Tally):
                known.spread = spreads_behind(self, steps[at + 1 :], known, leaf)
            if known.group is not None and at == known.group.recoding.levels[-1]:
                known.group = None
            self.bound(step, known)
            at += 1
        if not leaf.begins(self, steps, at, known):
            leaf.emit(self, known)

    def narrow(self, step: Step, known: KnownPositions) -> None:
        """Prints a step that keeps the current row or continues with the next."""
        text = self.text
        match step:
            case Guard():
                ref = self.join.tries[step.trie]
                total = self.arguments.scalar("total", LevelArgument(self.number[ref], 0))
                with text.block(f"if {total} == 0"):
                    text.line("continue")
                if step.weighted:
                    known.weights.append(total)
            case Seek():
                parts = step.participants
                if known.group is not None:
                    parts = tuple(part for part in parts if looked_up(self, known.group, part))
                if parts:
                    self.seek(step.value, self.key(step.value, known), parts, known)
            case Assign():
                name = self.bind(step.variable, self.key(step.expr, known), known)
                self.seek(Slot(step.variable, step.type), name, step.participants, known)
            case Filter():
                with text.block(f"if not ({self.test(step.test, known)})"):
                    text.line("continue")
            case Compact():
                pass  # duplicates are dropped where rows are gathered
            case Restore():
                self.restore(step, known)
            case Branch():
                print_branch(self, step, known)
            case Tally():
                print_tally(self, step, known)
            case _:
                raise Unprintable(f"{type(step).__name__.lower()} is not printed")

    def restore(self, step: Restore, known: KnownPositions) -> None:
        """Maps ranks back to values, sorted by a sorting network."""
        labels = self.arguments.of_trie(self.number[self.join.tries[step.trie]], "labels")
        names = []
        for rank, variable in zip(step.ranks, step.variables, strict=True):
            names.append(self.bind(variable, f"{labels}[{known.names[rank]}]", known))
        for end in range(len(names) - 1, 0, -1):
            for a, b in pairwise(names[: end + 1]):
                self.text.line(f"{a}, {b} = min({a}, {b}), max({a}, {b})")


# Branches.


def print_branch(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    split, nest.split = nest.split, True  # loops in a branch are not split into tasks
    if step.mode == "aggregate":
        _aggregate(nest, step, known)
    elif step.mode == "count":
        _count(nest, step, known)
    else:
        _exists(nest, step, known)
    nest.split = split


def _inside(known: KnownPositions) -> KnownPositions:
    """The state at the start of a branch: weights of outer rows do not apply to its rows."""
    inner = known.inner()
    inner.weights = []
    inner.clip = inner.unit = None
    inner.spread = False
    return inner


def _exists(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    found = text.name("found")
    text.line(f"{found} = False")
    for number, inside in enumerate(step.alternatives):
        inner = _inside(known)
        inner.found = found
        once = text.name("once")
        # later alternatives run only if no earlier one has a match
        turns = "1" if number == 0 else f"0 if {found} else 1"
        with text.block(f"for {once} in range({turns})"):
            nest.run(inside, 0, inner, WitnessLeaf(found))
    with text.block(f"if {'not ' if step.mode == 'exists' else ''}{found}"):
        text.line("continue")


def _count(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    counts: list[str] = []
    for inside in step.alternatives:
        if step.terms or not counts:
            counts.append(text.name("count"))
            text.line(f"{counts[-1]} = np.int64(0)")
        inner = _inside(known)
        inner.found = None
        leaf = BranchCount(counts[-1])
        if inner.group is not None and count_bits(nest, inside, leaf, inner):
            continue
        inner.group = None
        with text.block(f"for {text.name('once')} in range(1)"):
            nest.run(inside, 0, inner, leaf)
    count = _signed_sum(nest, step, counts) if step.terms else counts[0]
    with text.block(f"if {count} == 0"):
        text.line("continue")
    known.weights.append(count)


def _signed_sum(nest: NestPrinter, step: Branch, counts: Sequence[str]) -> str:
    """The signed sum of the terms. Only the first term, the largest, may leave 64 bits."""
    text, total = nest.text, nest.text.name("count")
    for number, (coefficient, (first, *others)) in enumerate(step.terms):
        product = counts[first]
        for other in others:
            if number == 0 or nest.modular:
                product = nest.product(product, counts[other])
            else:
                product = f"{product} * {counts[other]}"
        if abs(coefficient) != 1:
            product = f"{abs(coefficient)} * ({product})"
        if number == 0:
            assert coefficient > 0
            text.line(f"{total} = np.int64({product})")
        elif nest.modular:
            signed = product if coefficient > 0 else f"(modulus - {product} % modulus)"
            text.line(f"{total} = {nest.sum(total, signed)}")
        else:
            text.line(f"{total} {'+' if coefficient > 0 else '-'}= {product}")
    return total


def _aggregate(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    reduction, text = step.reduction, nest.text
    assert reduction is not None
    if len(step.alternatives) > 1 or reduction.exports or not accumulable(reduction.kind):
        raise Unprintable(f"{reduction.kind} over alternatives or with its witnesses")
    inner = _inside(known)
    inner.found = None
    accumulators = Accumulators(nest, [reduction])
    accumulators.start()
    with text.block(f"for {text.name('once')} in range(1)"):
        nest.run(step.alternatives[0], 0, inner, Gathered(accumulators))
    value = accumulators.value(0)
    if reduction.kind not in ("count", "sum"):
        with text.block(f"if {accumulators.count} == 0"):
            text.line("continue")
    nest.bind(reduction.variable, value, known)
