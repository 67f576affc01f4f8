"""Cells: parts of the space of a join's bindings, which can be looked through one by one.

A cell says of some variables that their keys lie in a stretch of numbers. The cells of a join that
share no binding and leave none out give its rows, each once, wherever each is looked through:
a join within a cell is a join like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from gdatalog.plan.effects import all_steps, binds, participants
from gdatalog.plan.nodes import (
    Apply,
    Constant,
    Cut,
    Expr,
    Filter,
    Join,
    JoinPlan,
    Parameter,
    Seek,
    Slot,
    Step,
)
from gdatalog.records import dataclass, field, replace

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1  # keys

# Comparisons of a variable's key with what is known before a join runs.
Tests = Sequence[tuple[str, Expr]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The keys from `low` on, below `high`; None: there is no such end."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Where the keys of some variables lie; of all others nothing is said."""

    stretches: Mapping[str, Stretch] = field(default_factory=lambda: MappingProxyType({}))

    def __reduce__(self) -> tuple[object, ...]:
        return Cell, (dict(self.stretches),)


EVERYTHING = Cell()
UNBOUNDED = Stretch()


def cuttable(join: JoinPlan) -> tuple[Slot, ...]:
    """The variables that cells may tell apart, in the order in which they are bound: each binding
    has one value of each, and is given once."""
    given = () if join.given is None else join.given.slots
    joined = [Slot(step.variable, step.type) for step in join.steps if isinstance(step, Join)]
    return (*given, *joined)


def roles(join: JoinPlan) -> tuple[tuple[str | None, ...], ...]:
    """For each trie of a join the variable that is bound to each of its levels; None for a
    constant."""
    found: list[list[str | None]] = [[None] * len(ref.columns) for ref in join.tries]
    for step in all_steps(join.steps):
        name = next(iter(binds(step)), None)
        if isinstance(step, Seek):
            name = step.value.name if isinstance(step.value, Slot) else None
        for part in participants(step):
            found[part.trie][part.depth] = name
    return tuple(map(tuple, found))


def within(join: JoinPlan, cell: Cell) -> JoinPlan:
    """The join of the bindings that lie in a cell."""
    tests: dict[str, Tests] = {}
    for name, stretch in cell.stretches.items():
        ends = ((">=", stretch.low), ("<", stretch.high))
        tests[name] = [(op, Constant(end, "int")) for op, end in ends if end is not None]
    return _tested(join, tests)


def bounded(join: JoinPlan, variables: Collection[str]) -> JoinPlan:
    """The join within any cell that tells these variables apart, whose ends are parameters: one
    plan, printed once, for all of them."""
    tests: dict[str, Tests] = {}
    for name in variables:
        low, high = _parameters(name)
        tests[name] = [(">=", Parameter(low, "int")), ("<=", Parameter(high, "int"))]
    return _tested(join, tests)


def ends(cell: Cell, variables: Collection[str]) -> dict[str, int]:
    """A cell's ends, as the parameters of the join that is `bounded` by these variables."""
    found: dict[str, int] = {}
    for name in variables:
        stretch = cell.stretches.get(name, UNBOUNDED)
        low, high = _parameters(name)
        found[low] = LEAST if stretch.low is None else stretch.low
        found[high] = GREATEST if stretch.high is None else stretch.high - 1
    return found


def _parameters(variable: str) -> tuple[str, str]:
    return f"{variable}~from", f"{variable}~to"


def _tested(join: JoinPlan, tests: Mapping[str, Tests]) -> JoinPlan:
    """The join of the bindings whose variables pass tests by constants."""
    if not any(tests.values()):
        return join
    reused = {
        step.reuse.variable
        for step in all_steps(join.steps)
        if isinstance(step, Join) and step.reuse is not None
    }
    last = max((at for at, step in enumerate(join.steps) if isinstance(step, Join)), default=-1)
    steps: list[Step] = []
    for slot in () if join.given is None else join.given.slots:
        steps += _filters(slot.name, tests.get(slot.name, ()))
    for at, step in enumerate(join.steps):
        own = tests.get(step.variable, ()) if isinstance(step, Join) else ()
        if not isinstance(step, Join) or not own:
            steps.append(step)
        elif step.variable not in reused and (at == last or _at_roots(step)):
            steps.append(replace(step, cuts=(*step.cuts, *(Cut(op, end) for op, end in own))))
        else:
            # Of a list that others read as it is, or whose places are numbers of bits.
            steps += [step, *_filters(step.variable, own)]
    return replace(join, steps=tuple(steps))


def _at_roots(step: Join) -> bool:
    return all(part.depth == 0 for part in step.participants)


def _filters(variable: str, tests: Tests) -> list[Step]:
    """Keys are compared as the numbers that they are, whatever they stand for."""
    key = Slot(variable, "int")
    return [Filter(Apply(op, (key, end), "bool")) for op, end in tests]
