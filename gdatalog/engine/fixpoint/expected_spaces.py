"""Predicts the space of rows of recursive relations from the rules that derive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.fixpoint.spans import Head, Known, spans_read, widen_by_rules
from gdatalog.plan import join_plan as p
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.relation import Relation


def expected_spaces(
    plans: Iterable[p.RulePlan],
    before: Mapping[str, KeySpace | None],
    relation: Callable[[str], Relation],
    scope: Scope,
    parts: int = 1,
) -> dict[str, KeySpace]:
    """A space for each relation whose columns can all be predicted. `before`: growing relations,
    with the space of their current rows; `relation` returns the others. `parts`: in how many parts
    columns may be numbered."""
    known: Known = {}
    for name, space in before.items():
        for at, (low, count) in enumerate(space.box if space else ()):
            known[name, at] = low, low + count - 1
    joins = [(plan.relation, join) for plan in plans for join in plan.joins]
    heads: list[Head] = []
    for name, join in joins:
        spans = spans_read(join.outputs, join, relation, before)
        heads.append((name, dict(enumerate(join.outputs)), join, spans))
    widen_by_rules(known, heads, scope, unknown=None)
    spaces = {}
    for name, arity in {name: len(join.outputs) for name, join in joins}.items():
        held = [span for at in range(arity) if (span := known.get((name, at))) is not None]
        space = KeySpace.within(held, parts) if len(held) == arity else None
        if space is not None:
            spaces[name] = space
    return spaces
