"""Builds the pattern of a conjunction of opened atoms and other items."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf, prod

from gdatalog.plan.join_plan import Apply, Constant, Expr, Parameter, Slot, slots
from gdatalog.planner import items as n
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import FLIPPED, Comparisons
from gdatalog.planner.order.canonical_order import in_canonical_order
from gdatalog.planner.order.pattern import (
    Aggregated,
    GivenValues,
    PatternAtom,
    QueryPattern,
    ValueRange,
)
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.twins import find_twins
from gdatalog.planner.statistics import PASSES, ColumnTest, Looked, OfEdges

# Selectivity of other tests, and of negations.
OTHERWISE, NEGATED = 0.5, 0.7
# Assumed size of a range with unknown ends.
RANGE = 100.0


def empty_pattern(
    items: Sequence[n.Item], outer: Collection[str], live: Collection[str], outputs: Sequence[str]
) -> QueryPattern:
    """A pattern with the variables of a conjunction, and no literals."""
    names = in_canonical_order(items, outputs, live, outer)
    place = {name: at for at, name in enumerate(names)}
    pattern = QueryPattern(names, place, (1 << len(names)) - 1)
    pattern.outer, pattern.live = pattern.mask(outer), pattern.mask(live)
    pattern.outputs = tuple([pattern.place[name] for name in outputs if name in pattern.place])
    return pattern


def finish(pattern: QueryPattern, comparisons: Comparisons, inputs: PlanInputs) -> None:
    """Computes what depends on several literals, after all of them were added."""
    place = pattern.place
    pattern.below = {
        (place[low], place[high]): strict
        for (low, high), strict in comparisons.below.items()
        if low in place and high in place and low != high
    }
    pattern.unequal = {
        frozenset([place[name] for name in pair])
        for pair in comparisons.unequal
        if len(pair) == 2 and pair <= place.keys()
    }
    for name, at in place.items():
        own, implied = pattern.bounds.get(at, []), comparisons.implied_limits(name, ())
        if own or implied:
            pattern.ranges[at] = _range(pattern, at, own, implied, inputs)
    pattern.finish()
    find_twins(pattern)


def add_atom(pattern: QueryPattern, atom: AtomState) -> None:
    item, size = atom.item, atom.size
    columns: dict[int, int] = {}
    fixed = set()
    for at, arg in enumerate(item.args):
        if not isinstance(arg, Slot):
            fixed.add(at)
        elif arg.name in atom.columns or pattern.mask((arg.name,)) & pattern.outer:
            columns.setdefault(pattern.place[arg.name], at)
    tests: tuple[ColumnTest, ...] = atom.tests
    pairs = [*atom.rises]
    turned = False
    for left, op, right in tests:
        if op in ("<", "<="):
            pairs.append((left, right))
    for left, op, right in tests:
        if op in (">", ">="):
            pairs.append((right, left))
            turned = True
    variables = dict(zip(columns.values(), columns, strict=True))
    ascending: list[tuple[int, int]] = []
    for low, high in pairs:
        if low in variables and high in variables:
            ascending.append((variables[low], variables[high]))
    relation, by_rank = item.relation, item.ranked
    if isinstance(size, OfEdges):  # for estimates it is like the relation's edges
        relation, by_rank = size.relation, size.ranked
    mirrored = by_rank or size.balanced
    if mirrored and turned:
        # The same rows in the other direction: normalise it.
        columns = {variable: 1 - column for variable, column in columns.items()}
        fixed = {1 - column for column in fixed}
        tests = tuple([(left, FLIPPED[op], right) for left, op, right in tests])
    # `!=` between the ends of an edge filters hardly anything.
    ordered = tuple([test for test in tests if test[1] != "!="]) if mirrored and tests else tests
    kept = () if mirrored else tests
    ordered = () if isinstance(size, OfEdges) else ordered
    found = PatternAtom(
        (relation, item.version, by_rank, ordered),
        (relation, item.version, by_rank, kept),
        size,
        columns,
        frozenset(fixed),
        tests,
        pattern.mask_of(columns),
        mirrored,
        by_rank,
        tuple(ascending),
        mirrored and ordered == kept,
    )
    pattern.atoms.append(found)
    pattern.links.append(found.mask)


def add_item(
    pattern: QueryPattern, item: n.Item, given_out: Collection[str], cost: float | None
) -> None:
    """Adds an item other than an atom.

    `given_out`: the variables that aggregates bind, for which equations are not solved. `cost`: the
    cost for each row of an aggregate that can be placed freely.
    """
    whole = pattern.mask(item.variables)
    pattern.links.append(whole)
    if n.item_may_fail(item):
        pattern.risky |= whole
    match item:
        case n.TestItem():
            _add_test(pattern, item.test, whole)
        case n.NotItem():
            pattern.tests.append((whole, NEGATED))
            pattern.filters.append(whole)
        case n.Equation(may_fail=False):
            for slot, value in item.ways():
                if slot.name not in given_out:
                    pattern.equations.append((pattern.place[slot.name], pattern.mask(slots(value))))
            pattern.equal.append(whole)
        case n.Equation(left=Slot(name=name)):
            pattern.computed |= pattern.mask((name,))
            pattern.late.append((pattern.place[name], pattern.mask(slots(item.right))))
        case n.GenerateItem(slot=slot):
            values = item.size()
            values = RANGE if values == inf else float(values)
            pattern.given.append(
                GivenValues(pattern.place[slot.name], pattern.mask(item.sources), values)
            )
        case n.RestoreItem():
            ranks = pattern.mask(item.ranks)
            pattern.equations += [(pattern.place[value.name], ranks) for value in item.values]
        case n.AggregateItem():
            _add_aggregate(pattern, item, cost)


def _add_aggregate(pattern: QueryPattern, item: n.AggregateItem, cost: float | None) -> None:
    at = pattern.place[item.slot.name]
    needs = pattern.mask(item.reads)
    pattern.computed |= pattern.mask([slot.name for slot in (item.slot, *item.exports)])
    pattern.equations += [(pattern.place[slot.name], 1 << at) for slot in item.exports]
    if cost is None:
        pattern.late.append((at, needs))
    else:
        pattern.aggregates[at] = Aggregated(needs, cost)


def _add_test(pattern: QueryPattern, test: Expr, whole: int) -> None:
    if not isinstance(test, Apply) or test.function not in PASSES or len(test.args) != 2:
        pattern.tests.append((whole, OTHERWISE))
        pattern.filters.append(whole)
        return
    (left, right), op = test.args, test.function
    if op == "!=" and isinstance(left, Slot) and isinstance(right, Slot):
        return  # handled by the comparisons
    ordered = [arg for arg in test.args if isinstance(arg, Slot) and arg.type != "symbol"]
    if op in ("=", "!=") or not ordered:
        pattern.filters.append(whole)
    elif len(ordered) == 2:
        return  # handled by the comparisons
    elif whole & (whole - 1) == 0:
        bound = (op, right) if isinstance(left, Slot) else (FLIPPED[op], left)
        pattern.bounds.setdefault(pattern.place[ordered[0].name], []).append(bound)
        return
    else:
        pattern.one_sided.append((whole, pattern.mask((ordered[0].name,))))
    pattern.tests.append((whole, PASSES[op]))


def _range(
    pattern: QueryPattern,
    at: int,
    bounds: Sequence[tuple[str, Expr]],
    implied: Sequence[tuple[str, Expr]],
    inputs: PlanInputs,
) -> ValueRange:
    """The share of a variable's values within its bounds, by the statistics of its relations;
    the relation with the fewest values decides. `implied`: bounds through other variables."""
    value = inputs.value
    known = [(op, bound) for op, bound in (*bounds, *implied) if value(bound) is not None]
    guessed = prod(PASSES[op] for op, bound in bounds if value(bound) is None)
    every = [
        (atom.degrees(at).powers[0], *_within(atom, at, known, inputs), atom)
        for atom in pattern.atoms
        if known and at in atom.columns and not atom.size.assumed
    ]
    if not every:
        return ValueRange(tuple(bounds), prod(PASSES[op] for op, _ in bounds))
    rows = [
        (atom.mask & ~(1 << at), bool(atom.fixed), of_rows / of_values)
        for _, of_values, of_rows, atom in every
    ]
    values = min(every, key=lambda found: found[0])[1]
    ranked = all(atom.ranked for *_, atom in every)
    ranks = _limits(known, inputs) if ranked else None
    return ValueRange(tuple(bounds), guessed * values, tuple(rows), ranks)


def _limits(known: Sequence[tuple[str, Expr]], inputs: PlanInputs) -> tuple[int, int]:
    """The least and the greatest rank that comparisons leave."""
    low, high = 0, 1 << 62
    for op, bound in known:
        rank = inputs.value(bound)
        assert isinstance(rank, int)
        if op in ("<", "<="):
            high = min(high, rank - (op == "<"))
        else:
            low = max(low, rank + (op == ">"))
    return low, high


def _within(
    atom: PatternAtom, at: int, known: Sequence[tuple[str, Expr]], inputs: PlanInputs
) -> tuple[float, float]:
    """The shares of an atom's values for a variable, and of its rows, that are left."""
    # Interchangeable columns share statistics.
    column = 0 if atom.mirrored else atom.columns[at]
    limits = [(op, inputs.value(bound)) for op, bound in known]
    there = [(op, value) for op, value in limits if value is not None]
    shares = atom.size.within(column, there, atom.ranked)
    if any(isinstance(bound, Parameter) for _, bound in known):
        bounds = tuple(
            (op, bound) for op, bound in known if isinstance(bound, Constant | Parameter)
        )
        inputs.looked.append(Looked(str(atom.source[0]), column, bounds, shares))
    return shares
