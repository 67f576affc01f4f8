"""Aggregates in bodies: their branches, their places in the order, and their costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from gdatalog.plan import join_plan as p
from gdatalog.planner.items import (
    AggregateItem,
    AtomItem,
    Conjunction,
    Equation,
    GenerateItem,
    Item,
    fails_inside,
    item_may_fail,
    variables_of_exprs,
)
from gdatalog.records import dataclass, fields, is_dataclass, replace

# The overhead of an aggregate for each row, in values tried.
ASKED = 1.0


def given_out(items: Iterable[Item]) -> frozenset[str]:
    """The variables that aggregates bind."""
    return frozenset(
        slot.name
        for item in items
        if isinstance(item, AggregateItem)
        for slot in (item.slot, *item.exports)
    )


def widens(part: Sequence[Item]) -> bool:
    """Whether a part of a body can bind variables to several values; otherwise it only computes and
    tests."""
    return any(isinstance(item, (AtomItem, GenerateItem)) for item in part)


def may_be_early(item: Item) -> bool:
    """Whether an item is an aggregate that can run wherever it is cheapest. Aggregates with
    computations that can fail run last; an overflow of a sum is too rare to matter."""
    return isinstance(item, AggregateItem) and not fails_inside(item)


def next_due(
    items: Iterable[Item], bound: set[str], rank: Mapping[str, float], before: float
) -> AggregateItem | None:
    """The aggregate to compute now, if there is one: its variables are bound, and its rank is at
    most `before`, the rank of the next variable."""
    found = []
    for at, item in enumerate(items):
        if isinstance(item, AggregateItem) and may_be_early(item) and item.reads <= bound:
            place = rank.get(item.slot.name, inf)
            if place <= before:
                found.append((place, item_may_fail(item), at, item))
    return min(found)[3] if found else None


def as_gather(
    items: Sequence[Item], head: Sequence[p.Expr]
) -> tuple[list[Conjunction], tuple[p.Gather, ...], tuple[p.Expr, ...]] | None:
    """Turns a body that is one uncorrelated count or sum into an aggregate of the head: its
    alternatives, the aggregate, and the head. None for other bodies."""
    whole = [item for item in items if isinstance(item, AggregateItem)]
    if len(whole) != 1 or whole[0].kind not in ("count", "sum") or whole[0].reads:
        return None
    (item,) = whole
    known: dict[str, p.Expr] = {item.slot.name: item.slot}
    left = [each for each in items if each is not item]
    while left:
        found = [
            (each, slot, value)
            for each in left
            if isinstance(each, Equation) and not each.may_fail
            for slot, value in each.ways()
            if slot.name not in known and p.slots(value) <= known.keys()
        ]
        if not found:
            return None
        each, slot, value = found[0]
        known[slot.name] = with_values(value, known)
        left.remove(each)
    gather = p.Gather(item.kind, item.targets, item.slot.name, item.slot.type, item.span)
    return list(item.alternatives), (gather,), tuple([with_values(term, known) for term in head])


def with_values(expr: p.Expr, known: Mapping[str, p.Expr]) -> p.Expr:
    """An expression with variables replaced by expressions."""
    if isinstance(expr, p.Slot):
        return known.get(expr.name, expr)
    if isinstance(expr, p.Apply):
        args = tuple([with_values(arg, known) for arg in expr.args])
        return p.Apply(expr.function, args, expr.type, expr.span)
    return expr


@dataclass(frozen=True, slots=True)
class NestedParts:
    """What an aggregate aggregates: `parts` are planned with their bindings `live` as a set, or all
    of them (`bag`). `bindings`: for each part, the variables of the rows."""

    parts: Sequence[Conjunction]
    live: tuple[frozenset[str], ...]
    bag: bool
    bindings: tuple[tuple[str, ...], ...]


def nested_parts(item: AggregateItem) -> NestedParts:
    reads, targets = item.reads, variables_of_exprs(item.targets)
    if len(item.alternatives) > 1:
        # The bindings of several alternatives are a set over all their variables.
        bindings = tuple(
            tuple(sorted({n for n in names if n not in reads} | targets)) for names in item.bindings
        )
        return NestedParts(item.alternatives, tuple(map(frozenset, bindings)), False, bindings)
    live = targets | {export.name for export in item.exports}
    bag = item.kind in ("count", "sum", "mean")
    return NestedParts(item.alternatives, (live - reads,), bag, (tuple(sorted(live)),))


def aggregate_branch(
    item: AggregateItem, result: p.Slot, nested: NestedParts, inner: tuple[tuple[p.Step, ...], ...]
) -> p.Branch:
    """The branch that computes an aggregate by the steps of its parts."""
    exports = tuple([(export.name, export.type) for export in item.exports])
    reduction = p.Reduction(
        item.kind, item.targets, result.name, result.type, nested.bindings, exports, item.span
    )
    return p.Branch("aggregate", tuple(sorted(item.reads)), inner, reduction)


def renamed(node: Any, names: Mapping[str, str]) -> Any:
    """An item, or a part of one, with renamed variables."""
    if isinstance(node, p.Slot):
        return replace(node, name=names[node.name]) if node.name in names else node
    if isinstance(node, frozenset):
        return frozenset([names.get(name, name) for name in node])
    if isinstance(node, tuple):
        return tuple([renamed(part, names) for part in node])
    if is_dataclass(node):
        parts = {field.name: getattr(node, field.name) for field in fields(node) if field.init}
        changed = {
            name: renamed(part, names)
            for name, part in parts.items()
            if isinstance(part, tuple | frozenset) or is_dataclass(part)
        }
        whole: Any = node
        return replace(whole, **changed) if changed else whole
    return node
