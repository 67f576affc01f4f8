"""Predicts the space of rows of recursive relations from the rules that derive them.

A head variable that occurs in a finished relation takes at most that column's values; one that
occurs only in recursive atoms, the values of their columns. Computed values are not predicted: rows
outside the space widen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdatalog.engine.fixpoint.keyspace import KeySpace
from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.nodes import Assign, Generate, Join, JoinPlan, RulePlan, Seek, Slot
from gdatalog.storage.relation import Relation

Bounds = tuple[int, int]  # least and greatest
Column = tuple[str, int]  # of a relation


def expected_spaces(
    plans: Iterable[RulePlan],
    known: Mapping[str, KeySpace | None],
    finished: Mapping[str, Relation],
) -> dict[str, KeySpace]:
    """A space for each relation whose columns can all be predicted.

    `known`: growing relations, with the space of their current rows.
    """
    bounds: dict[Column, Bounds] = {}
    for name, space in known.items():
        for at, (low, span) in enumerate(
            zip(space.least, space.spans, strict=True) if space else ()
        ):
            bounds[name, at] = low, low + span - 1
    flows = [flow for plan in plans for join in plan.joins for flow in _flows(plan, join)]
    memory: dict[Column, Bounds | None] = {}
    changed = True
    while changed:
        changed = False
        for column, sources in flows:
            found = _narrowest(sources, bounds, finished, memory)
            if found is None:
                continue
            low, high = bounds.get(column, found)
            joined = min(low, found[0]), max(high, found[1])
            if bounds.get(column) != joined:
                bounds[column] = joined
                changed = True
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
    bounds: Mapping[Column, Bounds],
    finished: Mapping[str, Relation],
    memory: dict[Column, Bounds | None],
) -> Bounds | None:
    """The bounds of values that occur in all of these columns."""
    found: Bounds | None = None
    for column in sources:
        name, at = column
        relation = finished.get(name)
        if relation is None:
            more = bounds.get(column)
        else:
            if column not in memory:
                keys = relation.column(at)
                memory[column] = (int(keys.min()), int(keys.max())) if len(keys) else None
            more = memory[column]
        if more is not None and (found is None or more[1] - more[0] < found[1] - found[0]):
            found = more
    return found
