"""Predicts the space of rows of recursive relations from the rules that derive them.

A head variable that occurs in a finished relation takes at most that column's values; one that
occurs only in recursive atoms, the values of their columns. Computed values are not predicted: rows
outside the space widen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from gdatalog.engine.fixpoint.keyspace import Column, Flow, KeySpace, Span, span_of, widen
from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.nodes import Assign, Generate, Join, JoinPlan, RulePlan, Seek, Slot
from gdatalog.storage.relation import Relation


def expected_spaces(
    plans: Iterable[RulePlan],
    known: Mapping[str, KeySpace | None],
    finished: Mapping[str, Relation],
) -> dict[str, KeySpace]:
    """A space for each relation whose columns can all be predicted.

    `known`: growing relations, with the space of their current rows.
    """
    bounds: dict[Column, Span | None] = {}
    for name, space in known.items():
        for at, (low, span) in enumerate(space.box if space else ()):
            bounds[name, at] = low, low + span - 1
    memory: dict[Column, Span | None] = {}
    flows: list[Flow] = [
        (column, partial(_narrowest, sources, bounds, finished, memory))
        for plan in plans
        for join in plan.joins
        for column, sources in _flows(plan, join)
    ]
    widen(bounds, flows)
    arities: dict[str, int] = {}
    for (name, _), _ in flows:
        arities[name] = 1 + max(at for (other, at), _ in flows if other == name)
    spaces = {}
    for name, arity in arities.items():
        found_all = [bounds.get((name, at)) for at in range(arity)]
        if None not in found_all:
            space = KeySpace.within([each for each in found_all if each is not None])
            if space is not None:
                spaces[name] = space
    return spaces


def _flows(plan: RulePlan, join: JoinPlan) -> Iterator[tuple[Column, list[Column]]]:
    """For each column of a head, the columns that its values come from."""
    stands: dict[str, list[Column]] = {}
    if join.given is not None:
        for at, slot in enumerate(join.given.slots):
            stands.setdefault(slot.name, []).append((join.given.relation, at))
    for step in all_steps(join.steps):
        name = ""
        if isinstance(step, (Join, Assign, Generate)):
            name = step.variable
        elif isinstance(step, Seek) and isinstance(step.value, Slot):
            name = step.value.name
        for part in participants(step) if name else ():
            ref = join.tries[part.trie]
            if not ref.ranked:
                stands.setdefault(name, []).append((ref.relation, ref.columns[part.depth]))
    for at, output in enumerate(join.outputs):
        sources = stands.get(output.name, []) if isinstance(output, Slot) else []
        yield (plan.relation, at), sources


def _narrowest(
    sources: list[Column],
    bounds: Mapping[Column, Span | None],
    finished: Mapping[str, Relation],
    memory: dict[Column, Span | None],
) -> Span | None:
    """The bounds of values that occur in all of these columns."""
    found: Span | None = None
    for column in sources:
        name, at = column
        relation = finished.get(name)
        if relation is None:
            more = bounds.get(column)
        else:
            if column not in memory:
                memory[column] = span_of(relation.column(at))
            more = memory[column]
        if more is not None and (found is None or more[1] - more[0] < found[1] - found[0]):
            found = more
    return found
