"""Prints the recursive rules of a min or max as one function that improves values in place.

The function takes a group whose value improved, runs the rules' bodies with the group's columns and
value bound, and compares each derived value with the best of its group at once, without rounds. Any
order of improvements ends at the same values (`planner/check/lattice.py` makes sure of that);
`codegen/helpers/lattice.py` chooses one.

A group's code is `base + (k0 - least0) * stride0 + (k1 - least1) * ...` over its columns' keys;
each relation has its own base. A lower cost is better; for a max the cost is the complement of the
key.

If every rule passes a column on, that column splits the fixpoint: each of its values, a unit, is
evaluated by itself, and the groups of a unit are emitted as rows when its worklist is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.codegen.helpers.lattice import BEGUN, DONE, SEED, SEEDS, TOUCHED, UNIT, WATCHED
from gdatalog.plan import Expr, Generate, Join, JoinPlan, Slot, Step
from gdatalog.plan.effects import all_steps, merged
from gdatalog.plan.format import format_join
from gdatalog.printer import Argument, TrieLayout
from gdatalog.printer.module import ROWS, PrintedPlan, StepPrinter, module_of
from gdatalog.printer.nest import Counting, Leaf, NestPrinter
from gdatalog.printer.nest_state import FULL, STOPPED, KnownPositions
from gdatalog.records import dataclass

# Statuses: a group improves itself; there is no room for another group.
ROUND, GROW = 7, 8

GIVEN = ("int32", "int32", "int64")  # an output row: unit, group code, cost

# The first arguments of all functions of `codegen/helpers/lattice.py`.
KEPT = "best, where, touched, origin, heads, link, item, queue"

_TYPES = {
    "best": "i64[]",
    "where": "i8[]",
    "touched": "i32[]",
    "origin": "i32[]",
    "stamps": "i32[]",
    "heads": "i64[]",
    "link": "i32[]",
    "item": "i32[]",
    "queue": "i64[]",
    "seeds": "i32[]",
    "costs": "i64[]",
}
_SPLIT = {"units": "i64[]", "starts": "i64[]"}
_NUMBERED = {"table": "i32[]", "codes": "i64[]", "wanted": "i64[]"}


@dataclass(frozen=True, slots=True)
class BestRelation:
    """A relation with a lattice aggregate. `kind` is the aggregate, of column `optimum`; the other
    columns, without the `split` column, are the group."""

    name: str
    arity: int
    optimum: int
    kind: str
    split: int | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(at for at in range(self.arity) if at not in (self.optimum, self.split))


@dataclass(frozen=True, slots=True)
class Follow:
    """One body of a recursive rule, and the `head` that it derives.

    The given rows of `join` are those of a lattice relation. `onwards`: if the starting value
    improves, the derived value improves by as much. So a cycle of such rules that improves a value
    improves it for ever.
    """

    join: JoinPlan
    target: str
    head: tuple[Expr, ...]
    onwards: bool


def print_lattice(
    kept: Sequence[BestRelation],
    follows: Sequence[Follow],
    tries: Sequence[TrieLayout],
    numbered: bool,
    counted: bool = False,
) -> PrintedPlan:
    """Prints the function of these rules; `tries`: those of all plans, concatenated.

    `counted`: it counts bindings for a profile; so the steps of all rules are numbered in a row.
    """
    whole, joins = merged([follow.join for follow in follows])
    nest = _Nest(whole, tries)
    if counted:
        nest.counting = Counting([step for part in joins for step in all_steps(part)])
    split = kept[0].split is not None
    if split:
        _print_units(nest, kept, follows, joins)
    else:
        _print_whole(nest, kept, follows, joins, numbered)
    types = {"places": "i64[]", **_TYPES}
    types |= _SPLIT if split else _NUMBERED if numbered else {}
    own = [Argument(name, type_, "given") for name, type_ in types.items()]
    prologue = [*_prologue(kept), *(ROWS if split else ())]
    if nest.counting is not None:
        prologue += nest.counting.finish(nest)
    found = list(nest.arguments.found.values())
    outputs = [argument for argument in found if argument.kind == "output"]
    arguments = [*(a for a in found if a.kind != "output"), *own, *outputs]
    comments = [line for follow in follows for line in format_join(follow.join)]
    return PrintedPlan(
        f"improves {' '.join(each.kind for each in kept)} by {len(follows)} rules",
        module_of(nest, arguments, comments, prologue),
        tuple(arguments),
        tuple(nest.arguments.scalars),
        nest.expressions,
        tuple(nest.which),
        len(outputs),
        split,
        1,
        counters=() if nest.counting is None else nest.counting.counters,
    )


class _Nest(StepPrinter):
    """Bodies of rules that are walked for one group at a time."""

    def __init__(self, join: JoinPlan, tries: Sequence[TrieLayout]) -> None:
        super().__init__(join, tries, "plain")
        self.split = self.tasks = True  # loops are not split into tasks
        self.direct = False  # positions in loose tries are those of their keys

    def may_stop(self, known: KnownPositions) -> None:
        """Does nothing: a group's rules always run to the end."""

    def run(self, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf) -> None:
        """In a loose trie the third and later columns have the position of the second."""
        while at < len(steps):
            step = steps[at]
            if not isinstance(step, Join) or not self._stands_beside(step):
                if isinstance(step, (Join, Generate)):
                    break
                self.narrow(step, known)
                self.bound(step, known)
                at += 1
                continue
            (part,) = step.participants
            node = self.paths.node(part)
            place = known.positions[node]
            name = self.bind(step.variable, self.call("at", self.values(node), place), known)
            self.seek(Slot(step.variable, step.type), name, (part,), known, {node: place})
            self.bound(step, known)
            at += 1
        super().run(steps, at, known, leaf)

    def _stands_beside(self, step: Join) -> bool:
        if len(step.participants) > 1:
            return False
        node = self.paths.node(step.participants[0])
        return node.depth > 1 and self.tries[node.trie].loose


def _print_whole(
    nest: NestPrinter,
    kept: Sequence[BestRelation],
    follows: Sequence[Follow],
    joins: Sequence[tuple[Step, ...]],
    numbered: bool,
) -> None:
    """All groups as one unit, whose best values stay in the arrays."""
    text = nest.text
    if numbered:
        text.line(nest.call("enter_codes", "table", "codes", "queue"))
    with text.block(f"if queue[{BEGUN}] == 0"):
        text.line(f"queue[{BEGUN}] = 1")
        if numbered:
            text.line(nest.call("number_all", "table", "codes", "queue", "wanted", "seeds"))
        text.line(nest.call("begin", KEPT, "seeds", "costs"))
    _print_loop(nest, kept, follows, joins, numbered)


def _print_units(
    nest: NestPrinter,
    kept: Sequence[BestRelation],
    follows: Sequence[Follow],
    joins: Sequence[tuple[Step, ...]],
) -> None:
    """One unit after the other; a unit without room in this block is emitted into the next."""
    text = nest.text
    out = [nest.arguments.output(f"out{at}", dtype) for at, dtype in enumerate(GIVEN)]
    with text.block("while True"):
        with text.block(f"if queue[{DONE}] == 0"):
            text.line(f"unit = {nest.call('add', 'control', '0', '1')}")
            with text.block("if unit >= len(units)"):
                text.line("break")
            text.line(f"queue[{UNIT}] = unit")
            text.line(f"queue[{SEED}], queue[{SEEDS}] = starts[unit], starts[unit + 1]")
            text.line(nest.call("begin", KEPT, "seeds", "costs"))
            text.line("passed = units[unit]")
            _print_loop(nest, kept, follows, joins, False)
            text.line(f"queue[{DONE}] = 1")
        text.line(f"count = queue[{TOUCHED}]")
        with text.block("if n + count > room"):
            text.line("state[4] = n")
            text.line(f"return {FULL}")
        with text.block("for i in range(count)"):
            text.line(f"group = {nest.call('at', 'touched', 'i')}")
            values = (f"queue[{UNIT}]", "group", nest.call("at", "best", "group"))
            for name, value in zip(out, values, strict=True):
                text.line(f"{name}[n] = {value}")
            text.line("n += 1")
        text.line(nest.call("clear", "best, where, touched, origin, queue"))
        text.line(f"queue[{DONE}] = 0")
    text.line("state[4] = n")


def _print_loop(
    nest: NestPrinter,
    kept: Sequence[BestRelation],
    follows: Sequence[Follow],
    joins: Sequence[tuple[Step, ...]],
    numbered: bool,
) -> None:
    """Runs the rules of waiting groups until the worklist is empty."""
    text = nest.text
    with text.block("while True"):
        with text.block(f"if {nest.call('stopped', 'control')}"):
            text.line(f"return {STOPPED}")
        goes_round = nest.call("goes_round", "touched, origin, stamps, queue")
        with text.block(f"if queue[{WATCHED}] != 0 and {goes_round}"):
            text.line(f"return {ROUND}")
        nest.commit()  # an interrupted group runs again
        text.line(f"group = {nest.call('next_group', KEPT, 'seeds', 'costs')}")
        with text.block("if group < 0"):
            text.line("break")
        text.line(f"cost = {nest.call('at', 'best', 'group')}")
        text.line(f"code = {nest.call('at', 'codes', 'group') if numbered else 'group'}")
        for at, source in enumerate(kept):
            mine = [
                (follow, steps)
                for follow, steps in zip(follows, joins, strict=True)
                if follow.join.given is not None and follow.join.given.relation == source.name
            ]
            if mine:
                with text.block(f"if base{at} <= code < base{at + 1}"):
                    _print_source(nest, kept, at, mine, numbered)


def _print_source(
    nest: NestPrinter,
    kept: Sequence[BestRelation],
    at: int,
    follows: Sequence[tuple[Follow, tuple[Step, ...]]],
    numbered: bool,
) -> None:
    """The rules of one relation, for one of its groups."""
    text, source = nest.text, kept[at]
    names = {source.optimum: "key"}
    if source.split is not None:
        names[source.split] = "passed"
    text.line(f"key = {'cost' if source.kind == 'min' else '~cost'}")
    text.line(f"rest = code - base{at}")
    for column in source.columns:
        names[column] = name = text.name("k")
        if column == source.columns[-1]:
            text.line(f"{name} = rest + least{at}_{column}")
        else:
            text.line(f"{name} = rest // stride{at}_{column}")
            text.line(f"rest -= {name} * stride{at}_{column}")
            text.line(f"{name} += least{at}_{column}")
    for follow, steps in follows:
        assert follow.join.given is not None
        known = KnownPositions()
        with text.block(f"for {text.name('once')} in range(1)"):
            for column, slot in enumerate(follow.join.given.slots):
                nest.bind(slot.name, names[column], known)
            nest.run(steps, 0, known, ImproveLeaf(kept, follow, numbered))


class ImproveLeaf(Leaf):
    """Keeps a derived value, and queues its group, if the group has no better value."""

    def __init__(self, kept: Sequence[BestRelation], follow: Follow, numbered: bool) -> None:
        self.at = next(at for at, each in enumerate(kept) if each.name == follow.target)
        self.target = kept[self.at]
        self.follow = follow
        self.numbered = numbered

    def emit(self, nest: NestPrinter, known: KnownPositions) -> None:
        text, at = nest.text, self.at
        cost = text.name("cost")
        value = nest.key(self.follow.head[self.target.optimum], known)
        text.line(f"{cost} = np.int64({value if self.target.kind == 'min' else f'~{value}'})")
        terms = [f"base{at}"]
        for column in self.target.columns:
            key = nest.key(self.follow.head[column], known)
            last = column == self.target.columns[-1]
            stride = "" if last else f" * stride{at}_{column}"
            terms.append(f"({key} - least{at}_{column}){stride}")
        group = text.name("group")
        text.line(f"{group} = {' + '.join(terms)}")
        if self.numbered:
            text.line(f"{group} = {nest.call('numbered', 'table', 'codes', 'queue', group)}")
            with text.block(f"if {group} < 0"):
                text.line(nest.call("follow_again", KEPT, "group"))
                text.line(f"return {GROW}")
        with text.block(f"if {nest.call('improves', 'best', 'where', group, cost)}"):
            source = "group" if self.follow.onwards else "np.int64(-1)"
            text.line(nest.call("improve", KEPT, group, cost, source))


def _prologue(kept: Sequence[BestRelation]) -> list[str]:
    """Names for the entries of `places`: each relation's base, and each column's least key and
    stride."""
    names = []
    for number, each in enumerate(kept):
        names.append(f"base{number}")
        for column in each.columns:
            names += [f"least{number}_{column}", f"stride{number}_{column}"]
    names.append(f"base{len(kept)}")
    return [f"{name} = places[{at}]" for at, name in enumerate(names)]
