"""Prints the recursive rules of a min or max as one function that improves values in place.

The function takes a group whose value improved, binds the group's columns and value, and runs the
rules' bodies. It compares each derived value with the best of its group at once, without rounds.
Any order of improvements ends at the same values (`planner/check/lattice.py` checks that);
`codegen/helpers/lattice.py` chooses the order.

A group's code is `base + (k0 - least0) * stride0 + (k1 - least1) * ...` over its columns' keys;
each relation has its own base. A lower cost is better; for a max the cost is the complement of the
key.

If every rule passes a column on, that column splits the fixpoint: each of its values is a unit,
which is evaluated by itself. When a unit's worklist is empty, its groups are emitted as rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.codegen.helpers.lattice import BEGUN, DONE, SEED, SEEDS, TOUCHED, UNIT, WATCHED
from gdatalog.plan.effects import Steps, all_steps, merged
from gdatalog.plan.join_plan import Expr, Generate, Join, JoinPlan, Slot
from gdatalog.printer.arguments import Argument
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.lookups import seek
from gdatalog.printer.module import ROWS, PrintedPlan, StepPrinter, finished
from gdatalog.printer.nest import Leaf, NestPrinter, Point
from gdatalog.printer.nest_state import FULL, STOPPED, Counting
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

    The given rows of `join` are those of a lattice relation. `onwards`: if the given value
    improves, the derived value improves by as much. A cycle of such rules that improves a value
    once improves it for ever.
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

    `counted`: the function counts bindings for a profile, which numbers the steps of all rules
    consecutively.
    """
    plans = [follow.join for follow in follows]
    whole, joins = merged(plans)
    nest = _Nest(whole, tries)
    if counted:
        nest.counting = Counting([step for part in joins for step in all_steps(part)])
    rules = _Rules(nest, kept, list(zip(follows, joins, strict=True)), numbered)
    split = kept[0].split is not None
    if split:
        rules.print_units()
    else:
        rules.print_whole()
    types = {"places": "i64[]", **_TYPES}
    types |= _SPLIT if split else _NUMBERED if numbered else {}
    own = [Argument(name, type_, "given") for name, type_ in types.items()]
    nest.tasks = split  # several workers share units
    prologue = [*_prologue(kept), *(ROWS if split else ())]
    shape = f"improves {' '.join(each.kind for each in kept)} by {len(follows)} rules"
    return finished(nest, shape, plans, prologue, own)


class _Nest(StepPrinter):
    """Prints bodies of rules, which run for one group at a time."""

    def __init__(self, join: JoinPlan, tries: Sequence[TrieLayout]) -> None:
        super().__init__(join, tries, "plain")
        self.split = self.tasks = True  # loops are not split into tasks
        self.direct = False  # positions in loose tries are those of their keys

    def may_stop(self) -> None:
        """Does nothing: a group's rules always run to the end."""

    def run(self, here: Point) -> None:
        """Prints steps. In a loose trie the third and later columns have the second's position."""
        while here.at < len(here.steps):
            step = here.steps[here.at]
            if isinstance(step, Join) and self._stands_beside(step):
                (part,) = step.participants
                node = self.paths.node(part)
                place = here.positions[node]
                name = here.bind(step.variable, self.call("at", self.values(node), place))
                seek(here, Slot(step.variable, step.type), name, (part,), {node: place})
            elif isinstance(step, (Join, Generate)):
                break
            else:
                self.narrow(here, step)
            here.bound(step)
            here.at += 1
        super().run(here)

    def _stands_beside(self, step: Join) -> bool:
        node = self.paths.node(step.participants[0])  # a loose trie's levels have no others
        return node.depth > 1 and self.tries[node.trie].loose


@dataclass(frozen=True, slots=True)
class _Rules:
    """Prints the loops that follow groups. `follows`: bodies of rules, with their merged steps."""

    nest: NestPrinter
    kept: Sequence[BestRelation]
    follows: Sequence[tuple[Follow, Steps]]
    numbered: bool

    def print_whole(self) -> None:
        """Evaluates all groups as one unit; the best values stay in the arrays."""
        nest, text = self.nest, self.nest.text
        if self.numbered:
            text.line(nest.call("enter_codes", "table", "codes", "queue"))
        with text.block(f"if queue[{BEGUN}] == 0"):
            text.line(f"queue[{BEGUN}] = 1")
            if self.numbered:
                text.line(nest.call("number_all", "table", "codes", "queue", "wanted", "seeds"))
            text.line(nest.call("begin", KEPT, "seeds", "costs"))
        self._loop()

    def print_units(self) -> None:
        """Evaluates one unit after the other. If the block has no room for a unit's rows, the
        function returns, and emits them into the next block."""
        nest, text = self.nest, self.nest.text
        out = [nest.arguments.plain("output", f"out{at}", kind) for at, kind in enumerate(GIVEN)]
        with text.block("while True"):
            with text.block(f"if queue[{DONE}] == 0"):
                text.line(f"unit = {nest.call('add', 'control', '0', '1')}")
                with text.block("if unit >= len(units)"):
                    text.line("break")
                text.line(f"queue[{UNIT}] = unit")
                text.line(f"queue[{SEED}], queue[{SEEDS}] = starts[unit], starts[unit + 1]")
                text.line(nest.call("begin", KEPT, "seeds", "costs"))
                text.line("passed = units[unit]")
                self._loop()
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

    def _loop(self) -> None:
        """Runs the rules of waiting groups until the worklist is empty."""
        nest, text = self.nest, self.nest.text
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
            text.line(f"code = {nest.call('at', 'codes', 'group') if self.numbered else 'group'}")
            for at in range(len(self.kept)):
                if self._reading(at):
                    with text.block(f"if base{at} <= code < base{at + 1}"):
                        self._source(at)

    def _reading(self, at: int) -> list[tuple[Follow, Steps]]:
        """The rules that read a relation."""
        name = self.kept[at].name
        givens = ((follow.join.given, follow, steps) for follow, steps in self.follows)
        return [
            (follow, steps) for given, follow, steps in givens if given and given.relation == name
        ]

    def _source(self, at: int) -> None:
        """The rules of one relation, for one of its groups."""
        text, source = self.nest.text, self.kept[at]
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
        for follow, steps in self._reading(at):
            assert follow.join.given is not None
            here = Point(self.nest, steps, ImproveLeaf(self.kept, follow, self.numbered))
            with text.block(f"for {text.name('once')} in range(1)"):
                for column, slot in enumerate(follow.join.given.slots):
                    here.bind(slot.name, names[column])
                self.nest.run(here)


class ImproveLeaf(Leaf):
    """Keeps a derived value and queues its group, if the value is better than the group's."""

    def __init__(self, kept: Sequence[BestRelation], follow: Follow, numbered: bool) -> None:
        self.at = next(at for at, each in enumerate(kept) if each.name == follow.target)
        self.target = kept[self.at]
        self.follow = follow
        self.numbered = numbered

    def emit(self, here: Point) -> None:
        nest, text, at = here.nest, here.text, self.at
        cost = text.name("cost")
        value = here.key(self.follow.head[self.target.optimum])
        text.line(f"{cost} = np.int64({value if self.target.kind == 'min' else f'~{value}'})")
        terms = [f"base{at}"]
        for column in self.target.columns:
            key = here.key(self.follow.head[column])
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
