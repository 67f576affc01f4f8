"""Aggregates in bodies: their branches, their places in the order, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdatalog.plan.nodes import Apply, Branch, Expr, Gather, Reduction, Slot, Step, slots
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

# Makes the steps of a conjunction inside: of its items, the variables that are bound outside, those
# that are asked for, whether bindings count each time, and for how many rows.
StepsOf = Callable[[Sequence[Item], frozenset[str], frozenset[str], bool, float], tuple[Step, ...]]

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
    items: Iterable[Item], bound: set[str], rank: Callable[[str], float], before: float
) -> AggregateItem | None:
    """The aggregate to compute now, if there is one: its variables are bound, and its rank is at
    most `before`, the rank of the next variable."""
    found = [
        (rank(item.slot.name), item_may_fail(item), item)
        for item in items
        if isinstance(item, AggregateItem) and may_be_early(item) and item.reads <= bound
    ]
    if not found:
        return None
    place, _, first = min(found, key=lambda each: each[:2])
    return first if place <= before else None


def as_gather(
    items: Sequence[Item], head: Sequence[Expr]
) -> tuple[list[Conjunction], tuple[Gather, ...], tuple[Expr, ...]] | None:
    """Turns a body that is one uncorrelated count or sum into an aggregate of the head: its
    alternatives, the aggregate, and the head. None for other bodies."""
    whole = [item for item in items if isinstance(item, AggregateItem)]
    if len(whole) != 1 or whole[0].kind not in ("count", "sum") or whole[0].reads:
        return None
    (item,) = whole
    known: dict[str, Expr] = {item.slot.name: item.slot}
    left = [each for each in items if each is not item]
    while left:
        found = [
            (each, slot, value)
            for each in left
            if isinstance(each, Equation) and not each.may_fail
            for slot, value in each.ways()
            if slot.name not in known and slots(value) <= known.keys()
        ]
        if not found:
            return None
        each, slot, value = found[0]
        known[slot.name] = with_values(value, known)
        left.remove(each)
    gather = Gather(item.kind, item.targets, item.slot.name, item.slot.type, item.span)
    return list(item.alternatives), (gather,), tuple(with_values(term, known) for term in head)


def with_values(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """An expression with variables replaced by expressions."""
    if isinstance(expr, Slot):
        return known.get(expr.name, expr)
    if isinstance(expr, Apply):
        args = tuple(with_values(arg, known) for arg in expr.args)
        return Apply(expr.function, args, expr.type, expr.span)
    return expr


def aggregate_branch(steps: StepsOf, item: AggregateItem, result: Slot, rows: float) -> Branch:
    """The branch that computes an aggregate for `rows` rows."""
    reads = item.reads
    targets = variables_of_exprs(item.targets)
    exports = tuple((export.name, export.type) for export in item.exports)
    live = targets | {name for name, _ in exports}
    if len(item.alternatives) > 1:
        # The bindings of several alternatives are a set over all their variables.
        bindings = tuple(
            tuple(sorted({n for n in names if n not in reads} | targets)) for names in item.bindings
        )
        inner = tuple(
            steps(part, reads, frozenset(names), False, rows)
            for part, names in zip(item.alternatives, bindings, strict=True)
        )
    else:
        bindings = (tuple(sorted(live)),)
        bag = item.kind in ("count", "sum", "mean")
        part = item.alternatives[0]
        inner = (steps(part, reads, live - reads, bag, rows),)
    reduction = Reduction(
        item.kind, item.targets, result.name, result.type, bindings, exports, item.span
    )
    return Branch("aggregate", tuple(sorted(reads)), inner, reduction)
