"""Predicts the space of rows of recursive relations from the rules that derive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.fixpoint.spans import ANY, Known, span_of_column, widen_by_rules
from gdatalog.plan import join_plan as p
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Span


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
    heads = [(name, dict(enumerate(join.outputs)), join) for name, join in joins]

    def data(ref: p.TrieRef, depth: int) -> Span | None:
        at = ref.columns[depth]
        if ref.relation in before:
            return known.get((ref.relation, at), ANY)
        return span_of_column(relation(ref.relation), at)

    widen_by_rules(known, heads, data, scope, lambda: None)
    spaces = {}
    for name, arity in {name: len(join.outputs) for name, join in joins}.items():
        spans = [span for at in range(arity) if (span := known.get((name, at))) is not None]
        space = KeySpace.within(spans, parts) if len(spans) == arity else None
        if space is not None:
            spaces[name] = space
    return spaces
