"""From a checked rule to its plan: one join for each alternative, then aggregates and the head."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gdatalog.plan.nodes import Expr, JoinPlan, Restore, RulePlan, Slot
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.checked import CheckedRule, Schema
from gdatalog.planner.compact import compact_rows
from gdatalog.planner.items import (
    AtomItem,
    Conjunction,
    Item,
    variables_of,
    variables_of_exprs,
)
from gdatalog.planner.normalise import Normaliser, count_variables
from gdatalog.planner.sizes import Statistics
from gdatalog.planner.symmetry import one_of_each
from gdatalog.values import TypeName

# These ask for which bindings there are, not for how many.
SET_KINDS = frozenset({"min", "max", "any_value", "count_distinct"})


def plan_rule(
    rule: CheckedRule,
    schemas: Mapping[str, Schema],
    param_types: Mapping[str, TypeName],
    sizes: Statistics,
    recursive: Collection[str] = (),
    *,
    first: bool = True,
) -> RulePlan:
    """The plan of a rule whose relations of the same stratum are `recursive`.

    In the first round of a fixpoint only alternatives without a recursive atom give anything.
    Later there is one join for each recursive atom, which reads the delta; atoms before it read
    all rows, atoms after it only the old ones, so that no pair is joined twice.
    """
    nodes = [*rule.head.args, *([] if rule.body is None else [rule.body])]
    normal = Normaliser(
        rule.types,
        {name: schema.types for name, schema in schemas.items()},
        param_types,
        count_variables(nodes),
    )
    alternatives = normal.body(rule.body)
    head_items: list[Item] = []
    aggregated = rule.aggregated
    head = tuple(
        normal.expression(arg, head_items) if aggregated else normal.head(arg, head_items)
        for arg in rule.head.args
    )
    gathers = tuple(normal.gathers)
    alternatives = [(*items, *head_items) for items in alternatives]
    if first:
        alternatives = [items for items in alternatives if not any(_deltas(items, recursive))]
    else:
        alternatives = [variant for items in alternatives for variant in _deltas(items, recursive)]
    if not gathers:
        joins = tuple(
            _plan_join(items, head, variables_of_exprs(head), False, sizes, recursive)
            for items in alternatives
        )
        return RulePlan(rule.head.name, joins, head, span=rule.span)

    gathered = {gather.variable for gather in gathers}
    keys = tuple(
        Slot(name, normal.type_of(name)) for name in sorted(variables_of_exprs(head) - gathered)
    )
    targets = frozenset().union(*(variables_of_exprs(g.targets) for g in gathers))
    live = frozenset(key.name for key in keys) | targets
    bag = not all(gather.kind in SET_KINDS for gather in gathers)
    groups = _groups(alternatives) if bag else [[at] for at in range(len(alternatives))]
    joins_list: list[JoinPlan] = []
    numbers: list[tuple[int, ...]] = []
    bindings: list[tuple[Slot, ...]] = []
    for group in groups:
        if len(group) == 1:
            outputs: tuple[Slot, ...] = ()
            items, orbit = alternatives[group[0]], 1
            if not keys and all(gather.kind == "count" for gather in gathers):
                items, orbit = one_of_each(items, sizes)
            plans = [replace(_plan_join(items, (), live, bag, sizes, recursive), orbit=orbit)]
        else:
            # Several alternatives bind the same variables: their bindings are one set.
            names = sorted(_own(alternatives[group[0]]) | targets)
            outputs = tuple(Slot(name, normal.type_of(name)) for name in names)
            plans = [
                _plan_join(alternatives[at], outputs, frozenset(names), False, sizes, recursive)
                for at in group
            ]
        numbers.append(tuple(range(len(joins_list), len(joins_list) + len(plans))))
        bindings.append(outputs)
        joins_list += plans
    return RulePlan(
        rule.head.name,
        tuple(joins_list),
        head,
        keys,
        gathers,
        tuple(numbers),
        tuple(bindings),
        rule.span,
    )


def _plan_join(
    items: Conjunction,
    outputs: Sequence[Expr],
    live: frozenset[str],
    bag: bool,
    sizes: Statistics,
    recursive: Collection[str],
) -> JoinPlan:
    asked = [output.name for output in outputs if isinstance(output, Slot)]
    builder = PlanBuilder(sizes, asked)
    steps = builder.whole(items, live, bag)
    if any(isinstance(step, Restore) for step in steps):
        other = PlanBuilder(sizes, asked, restores=False)
        others = other.whole(items, live, bag)
        if other.cost <= builder.cost:
            builder, steps = other, others
    tries = builder.tries()
    if not bag:
        steps = compact_rows(steps, tries, live, recursive)
    return JoinPlan(tries, steps, tuple(outputs), bag, cost=builder.cost)


def _deltas(items: Conjunction, recursive: Collection[str]) -> Iterator[Conjunction]:
    places = [
        at
        for at, item in enumerate(items)
        if isinstance(item, AtomItem) and item.relation in recursive
    ]
    for delta in places:
        changed = list(items)
        for at in places:
            item = items[at]
            assert isinstance(item, AtomItem)
            version = "delta" if at == delta else "full" if at < delta else "old"
            changed[at] = replace(item, version=version)  # type: ignore[arg-type]
        yield tuple(changed)


def _own(items: Conjunction) -> frozenset[str]:
    """The variables of the program that a conjunction binds, not those made for it."""
    return frozenset(name for name in variables_of(items) if not name.startswith("~"))


def _groups(alternatives: Sequence[Conjunction]) -> list[list[int]]:
    """Alternatives that bind the same variables, by their numbers."""
    groups: dict[frozenset[str], list[int]] = {}
    for at, items in enumerate(alternatives):
        groups.setdefault(_own(items), []).append(at)
    return list(groups.values())
