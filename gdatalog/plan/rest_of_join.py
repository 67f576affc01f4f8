"""The rest of a join, as a plan that starts from the bindings of its first steps.

Tries that later steps read are sought again by the bound values, and those whose weights count:
the given rows have values only.
"""

from __future__ import annotations

from collections.abc import Collection

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, binds, participants, reads
from gdatalog.records import replace
from gdatalog.values import TypeName

ROWS = "rows at hand"  # what the plan starts from, in place of a relation


def rest_of(join: p.JoinPlan, at: int, wanted: Collection[str]) -> p.JoinPlan | None:
    """The plan of the steps from `at` on. `wanted`: the variables that are read after them. None:
    rows alone do not say what the steps before have done."""
    before, later = join.steps[:at], join.steps[at:]
    known = {name: kind for step in before for name, kind in _types(step)}
    inner = all_steps(later)
    compacted = join.bag and any(isinstance(step, p.Compact) for step in before)
    if join.given is not None or compacted or any(isinstance(step, p.Tally) for step in inner):
        return None
    steps = [_alone(step, known) for step in later]
    if any(isinstance(s, p.Join) and s.reuse and s.reuse.variable in known for s in _all(steps)):
        return None  # a branch reuses an outer list
    depths: dict[int, int] = {}  # of the first level that is read, by trie
    for part in (part for step in inner for part in participants(step)):
        depths[part.trie] = min(part.depth, depths.get(part.trie, part.depth))
    first: list[p.Step] = []
    for step in before:
        parts = tuple(
            part
            for part in participants(step)
            if part.depth < depths.get(part.trie, 0) or _weighs(join, part.trie)
        )
        if parts:
            first.append(p.Seek(_value(step), parts))
        elif join.bag and _multiplies(step):
            first.append(step)
    names = set(wanted).union(*map(reads, (*first, *steps)), *map(p.slots, join.outputs))
    given = tuple(p.Slot(name, kind) for name, kind in known.items() if name in names)
    given = given or tuple(p.Slot(name, kind) for name, kind in known.items())[:1]
    if not given:
        return None
    return replace(join, steps=(*first, *steps), given=p.GivenRows(ROWS, given))


def _weighs(join: p.JoinPlan, trie: int) -> bool:
    return join.bag and join.tries[trie].weighted


def _multiplies(step: p.Step) -> bool:
    """Whether a step only counts in the weights of rows."""
    if isinstance(step, p.Branch):
        return step.mode == "count"
    return isinstance(step, p.Guard) and step.weighted


def _value(step: p.Step) -> p.Expr:
    """The value that a step's participants contain."""
    if isinstance(step, p.Seek):
        return step.value
    assert isinstance(step, p.Join | p.Assign | p.Generate)
    return p.Slot(step.variable, step.type)


def _types(step: p.Step) -> list[tuple[str, TypeName]]:
    """The variables that a step binds, with their types."""
    if isinstance(step, p.Branch) and step.reduction is not None:
        return [(step.reduction.variable, step.reduction.type), *step.reduction.exports]
    if isinstance(step, p.Join | p.Assign | p.Generate | p.Restore):
        return [(name, step.type) for name in binds(step)]
    return []


def _alone(step: p.Step, known: Collection[str]) -> p.Step:
    """A step that starts from its own lists if the one that it would reuse is an earlier one's."""
    if isinstance(step, p.Join) and step.reuse is not None and step.reuse.variable in known:
        return replace(step, reuse=None)
    return step


def _all(steps: Collection[p.Step]) -> list[p.Step]:
    return all_steps(tuple(steps))
