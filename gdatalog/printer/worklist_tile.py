"""Prints a fixpoint that splits, for tiles of a GPU: each takes one value after the other.

    path(x, y) <- E(x, y).
    path(x, z) <- path(x, y), E(y, z).

Column x is passed on as it is, so each of its values is a fixpoint of its own. A tile has a list
of the rows that it has found for its value (kernels/worklist.cuh), without that column: a row is a
key, its other columns as digits. As many rows of the list as the tile has lanes are followed at
once, each by a lane; where that leads into lists, the lanes share what is in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gdatalog.plan.format import format_join
from gdatalog.plan.nodes import (
    Assign,
    Branch,
    Expr,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Participant,
    Restore,
    Seek,
    Step,
)
from gdatalog.printer.arguments import Argument, numba_type
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import Leaf
from gdatalog.printer.module import Printed
from gdatalog.printer.nest import FAILED, STOPPED, Nest
from gdatalog.printer.scope import Known
from gdatalog.storage.trie import Trie


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """What is the same for all values.

    `joins`: of the recursive rules, each given rows of the relation. `kept`: the columns that all
    of them pass on; `rest`: the others. `dtypes`: of the relation's columns. `wide`: whether a
    row's key takes more than 32 bits. `counted`: only how many rows each value has comes out.
    """

    joins: tuple[JoinPlan, ...]
    kept: tuple[int, ...]
    rest: tuple[int, ...]
    dtypes: tuple[str, ...]
    wide: bool
    counted: bool


class Offer(Leaf):
    """A row goes behind the list, if it has not been there yet."""

    def __init__(self, shape: Fixpoint, outputs: Sequence[Expr]) -> None:
        self.shape = shape
        self.outputs = outputs

    def emit(self, nest: Nest, known: Known) -> None:
        columns = [nest.key(self.outputs[column], known) for column in self.shape.rest]
        offer(nest, columns)


def offer(nest: Nest, columns: Sequence[str]) -> None:
    """A row that may be new, by its columns beside those that are kept."""
    text = nest.text
    digits = [text.name("d") for _ in columns]
    for at, (digit, column) in enumerate(zip(digits, columns, strict=True)):
        text.line(f"{digit} = {column} - least{at}")
    # Values that no atom binds may lie anywhere.
    outside = " or ".join(f"{d} < 0 or {d} >= span{at}" for at, d in enumerate(digits))
    with nest.unless(outside, FAILED):
        key = digits[0]
        for at, digit in enumerate(digits[1:], 1):
            key = f"({key}) * span{at} + {digit}"
        text.line(f"offer(found, seen, {key})")


def row_at(nest: Nest, key: str, count: int) -> list[str]:
    """The columns of a row of the list."""
    text = nest.text
    left = text.name("k")
    text.line(f"{left} = np.int64({key})")
    names: list[str] = []
    for at in range(count - 1, 0, -1):
        name, above = text.name("y"), text.name("k")
        text.line(f"{above} = {left} // span{at}")
        text.line(f"{name} = {left} - {above} * span{at} + least{at}")
        names.append(name)
        left = above
    name = text.name("y")
    text.line(f"{name} = {left} + least0")
    return [name, *reversed(names)]


def print_fixpoint(
    shape: Fixpoint, tries: Sequence[Sequence[Trie]], intersect: str, tile: int
) -> Printed:
    """The loops of a tile; `tries` are those of each join."""
    every: list[Trie] = []
    steps: list[tuple[Step, ...]] = []
    for join, own in zip(shape.joins, tries, strict=True):
        steps.append(tuple(moved(step, len(every)) for step in join.steps))
        every += own
    refs = tuple(ref for join in shape.joins for ref in join.tries)
    joined = JoinPlan(refs, tuple(step for part in steps for step in part), ())
    nest = Nest(joined, every, intersect, tile)
    nest.split = nest.tasks = True
    text = nest.text
    starts = [f"kept{at}" for at in range(len(shape.kept))]
    seeds = [f"seed{at}" for at in range(len(shape.rest))]
    for at in range(len(shape.rest)):
        text.line(f"least{at} = bounds[{2 * at}]")
        text.line(f"span{at} = bounds[{2 * at + 1}]")
    text.line("total = len(kept0)")
    with text.block("while next_task(total)"), text.block("for u in turns(start, stop)"):
        with text.block("if not begin_unit(u, u)"):
            text.line("break")
        text.line("mark_task()")
        text.line("open_list()")
        for name in starts:
            text.line(f"{name}_own = np.int64(at({name}, u))")
        text.line("s = np.int64(at(first, u))")
        text.line("e = np.int64(at(first, u + 1))")
        with text.block("for i in lanes(s, e)"):
            offer(nest, [f"np.int64(at({name}, i))" for name in seeds])
        _follow(nest, shape, steps, starts)
        if shape.counted:
            for at, name in enumerate(starts):
                nest.arguments.output(f"out{at}", shape.dtypes[shape.kept[at]])
            nest.arguments.output(f"out{len(starts)}", "int64")
            text.line(f"emit({', '.join(f'{name}_own' for name in starts)}, n)")
        else:
            with text.block("for j in lanes(0, n)"):
                columns = dict(zip(shape.kept, (f"{name}_own" for name in starts), strict=True))
                rest = row_at(nest, "at(found, j)", len(shape.rest))
                columns |= dict(zip(shape.rest, rest, strict=True))
                for at, dtype in enumerate(shape.dtypes):
                    nest.arguments.output(f"out{at}", dtype)
                text.line(f"emit({', '.join(columns[at] for at in sorted(columns))})")
        text.line("wipe(found, seen, n)")
    return _printed(nest, shape, starts, seeds)


def _follow(
    nest: Nest, shape: Fixpoint, steps: Sequence[tuple[Step, ...]], starts: Sequence[str]
) -> None:
    """Follows the rows of the list, those that are put behind it meanwhile included."""
    text = nest.text
    text.line("done = np.int64(0)")
    text.line("n = listed()")
    with text.block("while done < n"):
        with text.block("if ended()"):
            text.line(f"return {STOPPED}")
        for join, own in zip(shape.joins, steps, strict=True):
            assert join.given is not None
            turn = text.name("r")
            with text.block(f"for {turn} in heads(done, n)"):
                known = Known(alone=True, spread=True)
                rest = row_at(nest, f"at(found, {turn})", len(shape.rest))
                values = dict(zip(shape.rest, rest, strict=True))
                values |= dict(zip(shape.kept, (f"{name}_own" for name in starts), strict=True))
                for column, slot in enumerate(join.given.slots):
                    known.names[slot.name] = values[column]
                nest.run(own, 0, known, Offer(shape, join.outputs))
        text.line("done = n")
        text.line("n = listed()")


def _printed(
    nest: Nest, shape: Fixpoint, starts: Sequence[str], seeds: Sequence[str]
) -> Printed:
    found = list(nest.arguments.found.values())
    if any(argument.kind == "buffer" for argument in found):
        raise Unprintable("lists are intersected in a buffer")
    outputs = sorted(
        (argument for argument in found if argument.kind == "output"),
        key=lambda argument: int(argument.name[3:]),
    )
    key = "int64" if shape.wide else "int32"
    own = [
        Argument("bounds", numba_type("int64"), "given"),
        Argument("first", numba_type("int64"), "given"),
        *(
            Argument(name, numba_type(shape.dtypes[column]), "given")
            for names, columns in ((starts, shape.kept), (seeds, shape.rest))
            for name, column in zip(names, columns, strict=True)
        ),
        Argument("found", numba_type(key), "list"),
        Argument("seen", numba_type("uint32"), "seen"),
    ]
    lines = [f"# {line}" for join in shape.joins for line in format_join(join)]
    return Printed(
        f"fixpoint of {len(shape.joins)} rules",
        "\n".join([*lines, "def walk():", *nest.text.lines, ""]),
        tuple([*(a for a in found if a.kind != "output"), *own, *outputs]),
        tuple(nest.arguments.scalars),
        nest.expressions,
        tuple(nest.which),
        len(outputs),
        True,
        1,
        False,
        nest.tile,
    )


def moved(step: Step, by: int) -> Step:
    """A step of a plan whose tries stand behind others."""
    match step:
        case Guard() | Restore():
            return replace(step, trie=step.trie + by)
        case Seek() | Join() | Assign() | Generate():
            parts = tuple(Participant(p.trie + by, p.depth) for p in step.participants)
            return replace(step, participants=parts)
        case Branch():
            inner = tuple(tuple(moved(s, by) for s in steps) for steps in step.alternatives)
            return replace(step, alternatives=inner)
        case _:
            return step
