"""Cells: parts of the space of a join's bindings, which can be looked through one by one.

A cell says of some variables that their keys lie in a stretch of numbers. The cells of a join that
share no binding and leave none out give its rows, each once, wherever each is looked through:
a join within a cell is a join like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gdatalog.plan.effects import all_steps, binds, participants
from gdatalog.plan.nodes import Apply, Constant, Cut, Filter, Join, JoinPlan, Seek, Slot, Step


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
    """The join of the bindings that lie in a cell.

    Its constants are all that differs between cells that tell the same variables apart: loops are
    compiled once for all of them.
    """
    if not cell.stretches:
        return join
    reused = {
        step.reuse.variable
        for step in all_steps(join.steps)
        if isinstance(step, Join) and step.reuse is not None
    }
    steps: list[Step] = []
    for slot in () if join.given is None else join.given.slots:
        steps += _tests(slot.name, cell)
    for step in join.steps:
        stretch = cell.stretches.get(step.variable) if isinstance(step, Join) else None
        if not isinstance(step, Join) or stretch is None:
            steps.append(step)
        elif step.variable in reused:  # whose list others read as it is
            steps += [step, *_tests(step.variable, cell)]
        else:
            cuts = (Cut(op, bound) for op, bound in _ends(stretch))
            steps.append(replace(step, cuts=(*step.cuts, *cuts)))
    return replace(join, steps=tuple(steps))


def _ends(stretch: Stretch) -> list[tuple[str, Constant]]:
    ends = ((">=", stretch.low), ("<", stretch.high))
    return [(op, Constant(end, "int")) for op, end in ends if end is not None]


def _tests(variable: str, cell: Cell) -> list[Step]:
    """Keys are compared as the numbers that they are, whatever they stand for."""
    stretch = cell.stretches.get(variable)
    if stretch is None:
        return []
    key = Slot(variable, "int")
    return [Filter(Apply(op, (key, end), "bool")) for op, end in _ends(stretch)]
