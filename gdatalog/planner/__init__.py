"""The planner: a join for each alternative of a checked rule, then aggregates and the head."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from gdatalog.parser.syntax import Chain, HeadAggregate, Var
from gdatalog.parser.syntax import Expr as SyntaxExpr
from gdatalog.plan import Expr, Gather, GivenRows, JoinPlan, Restore, RulePlan, Slot, Term, Version
from gdatalog.planner import items as n
from gdatalog.planner.atoms import given_of, scan_of, scanning
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import contains_head_aggregate, count_variables, variables, walk
from gdatalog.planner.compaction import compact_rows
from gdatalog.planner.normalise import Normaliser
from gdatalog.planner.order.search import PlanInputs
from gdatalog.planner.order.symmetry import one_of_each
from gdatalog.planner.rewrite.algebra import Algebra, pays, signed_sum, tabled
from gdatalog.records import replace
from gdatalog.values import TypeName

# Aggregates of a set of bindings, without multiplicity.
SET_KINDS = frozenset({"min", "max", "any_value", "count_distinct"})


def plan_rule(
    rule: CheckedRule,
    param_types: Mapping[str, TypeName],
    inputs: PlanInputs,
    recursive: Collection[str] = (),
    *,
    first: bool = True,
    old: Version = "old",
    scans: int | None = None,
    algebra: Algebra | None = None,
) -> RulePlan:
    """The plan of a rule; `recursive` are the relations of its stratum.

    In the first round of a fixpoint only alternatives without a recursive atom derive rows. Later
    rounds have one join for each recursive atom, which reads the delta; earlier atoms read all
    rows, later ones only the `old` rows, so that no pair is joined twice. Earlier and later are by
    the stratum's order of relations, in which a round evaluates them.

    `scans`: an alternative of one atom scans its relation if that has at least so many rows.
    `algebra`: how a count may become a signed sum of simpler counts; None: not at all.
    """
    sizes, tuning = inputs.sizes, inputs.tuning
    plan_join = partial(_plan_join, inputs, recursive)
    uses = count_variables((*rule.head.args, rule.body))
    normal = Normaliser(rule.types, param_types, uses)
    alternatives = normal.body(rule.body)
    head_items: list[n.Item] = []
    computed = _computed_per_group(rule)
    head: tuple[Expr, ...] = tuple(
        normal.expression(arg, head_items) if arg in computed else normal.head(arg, head_items)
        for arg in rule.head.args
    )
    gathers = tuple(normal.gathers)
    alternatives = [(*items, *head_items) for items in alternatives]
    plain = first and not gathers and len(alternatives) == 1
    closed = n.as_gather(alternatives[0], head) if plain else None
    if closed is not None:
        alternatives, gathers, head = closed
    if plain and closed is None and algebra is not None and algebra.tables and not recursive:
        tables = tabled(
            alternatives[0], lambda body, live: plan_join(body, (), live, True), inputs, algebra
        )
        if tables is not None:
            other = plan_rule(rule, param_types, inputs)
            reads = n.variables_of_exprs(head)
            with_tables = replace(inputs, sizes=tables.sizes)
            join = _plan_join(with_tables, recursive, tables.items, head, reads, False)
            plan = RulePlan(rule.head.name, (join,), head, span=rule.span)
            plan = replace(plan, within=tables.rules, otherwise=other)
            if algebra.mode != "auto" or pays(plan, other, tables):
                return plan
    variants: list[tuple[n.Conjunction, GivenRows | None]] = []
    for items in alternatives:
        deltas = list(_deltas(items, recursive, old))
        if not first:
            variants += deltas
        elif not deltas:
            scan = None if scans is None else scan_of(items, sizes, scans)
            variants.append((items, None) if scan is None else scan)
    if not gathers:
        reads = n.variables_of_exprs(head)
        joins = tuple(plan_join(items, head, reads, False, given) for items, given in variants)
        return RulePlan(rule.head.name, joins, head, span=rule.span)

    gathered = {gather.variable for gather in gathers}
    keys = tuple(
        Slot(name, normal.type_of(name)) for name in sorted(n.variables_of_exprs(head) - gathered)
    )
    targets = frozenset().union(*(n.variables_of_exprs(g.targets) for g in gathers))
    live = tuple(dict.fromkeys((*(key.name for key in keys), *targets)))
    kinds = {gather.kind for gather in gathers}
    bag = not kinds <= SET_KINDS
    # Alternatives that bind the same variables share a set of bindings.
    groups: dict[object, list[tuple[n.Conjunction, GivenRows | None]]] = {}
    for at, variant in enumerate(variants):
        groups.setdefault(_own(*variant) if bag else at, []).append(variant)
    every: list[JoinPlan] = []
    numbers: list[tuple[int, ...]] = []
    bindings: list[tuple[Slot, ...]] = []
    terms: tuple[Term, ...] = ()
    otherwise: RulePlan | None = None
    for group in groups.values():
        (items, given), *others = group
        outputs: tuple[Slot, ...] = ()
        if others:
            names = _own(items, given).union(live)
            outputs = tuple(Slot(name, normal.type_of(name)) for name in sorted(names))
            plans = [plan_join(items, outputs, names, False, given) for items, given in group]
        else:
            body, orbit = items, 1
            if given is None and not keys and kinds == {"count"}:
                body, orbit = one_of_each(items, sizes, tuning)
            join = plan_join(body, (), frozenset(live), bag, given)
            plans = [replace(join, orbit=orbit)]
            alone = len(groups) == 1 and given is None and all(map(_adds_up, gathers))
            if alone and algebra is not None:
                found = signed_sum(items, join, inputs, algebra, live)
                if found is not None:
                    counted = head, keys, gathers, ((0,),), ((),)
                    otherwise = RulePlan(rule.head.name, (plans[0],), *counted, span=rule.span)
                    plans, terms = list(found[0]), found[1]
        numbers.append(tuple(range(len(every), len(every) + len(plans))))
        bindings.append(outputs)
        every += plans
    grouped = head, keys, gathers, tuple(numbers), tuple(bindings)
    return RulePlan(rule.head.name, tuple(every), *grouped, terms, otherwise, rule.span)


def _adds_up(gather: Gather) -> bool:
    """Whether the aggregate of a signed sum is exactly the signed sum of the aggregates."""
    return gather.kind == "count" or (gather.kind == "sum" and gather.type == "int")


def _computed_per_group(rule: CheckedRule) -> list[SyntaxExpr]:
    """The arguments of an aggregated head that are computed once for each group: those with an
    aggregate, and those whose variables are keys. Others are keys, computed for each binding; so is
    a Chain, which defines fresh variables."""
    if not rule.aggregated:
        return []
    args = rule.head.args
    whole = [arg for arg in args if contains_head_aggregate(arg)]
    keys = {arg.name for arg in args if isinstance(arg, Var)}
    for arg in whole:
        keys |= variables(arg, HeadAggregate).keys()
    return [
        *whole,
        *(
            arg
            for arg in args
            if variables(arg).keys() <= keys and not any(isinstance(p, Chain) for p in walk(arg))
        ),
    ]


def plan_over(
    rule: CheckedRule,
    param_types: Mapping[str, TypeName],
    inputs: PlanInputs,
    name: str,
    plan: RulePlan,
) -> RulePlan | None:
    """The plan of a rule for some rows of relation `name` at a time, in any order: the results of
    disjoint parts add up.

    `plan`: the ordinary plan of the rule. None if an alternative does not read the relation exactly
    once, or cannot be planned so.
    """
    over = plan_rule(rule, param_types, inputs, (name,), first=False)
    others = {ref.relation for join in over.joins for ref in join.tries}
    if len(over.joins) != len(plan.joins) or name in others:
        return None
    shared = {key.name for key in over.keys}
    shared.update(name for gather in over.gathers for name in n.variables_of_exprs(gather.targets))
    return replace(over, joins=tuple(scanning(join, shared) for join in over.joins))


def _plan_join(
    inputs: PlanInputs,
    recursive: Collection[str],
    items: n.Conjunction,
    outputs: Sequence[Expr],
    live: frozenset[str],
    bag: bool,
    given: GivenRows | None = None,
) -> JoinPlan:
    names: tuple[str, ...] = ()
    rows = 1.0
    if given is not None:
        names = tuple(slot.name for slot in given.slots)
        rows = inputs.sizes(given.relation, "full" if given.columns else "delta").rows
    asked = [output.name for output in outputs if isinstance(output, Slot)]
    builder = PlanBuilder(inputs, asked, restores=True)
    steps = builder.whole(items, live, bag, frozenset(names), rows)
    if any(isinstance(step, Restore) for step in steps):
        other = PlanBuilder(inputs, asked)
        others = other.whole(items, live, bag, frozenset(names), rows)
        if other.cost <= builder.cost:
            builder, steps = other, others
    tries = builder.tries()
    if not bag:
        steps = compact_rows(steps, tries, live, recursive, names)
    given = None if given is None else replace(given, rows=rows)
    join = JoinPlan(tries, steps, tuple(outputs), bag, cost=builder.cost, given=given)
    return join if join.scan is None else replace(scanning(join, live), cost=rows + join.cost)


def _deltas(
    items: n.Conjunction, recursive: Collection[str], old: Version
) -> Iterator[tuple[n.Conjunction, GivenRows]]:
    """A conjunction once for each recursive atom, with the given rows that replace the atom.

    Atoms of relations that come earlier in the stratum's order read all rows.
    """
    names = list(recursive)
    order = {
        at: (names.index(item.relation), at)
        for at, item in enumerate(items)
        if isinstance(item, n.AtomItem) and item.relation in recursive
    }
    for delta, place in order.items():
        changed: list[n.Item] = []
        for at, item in enumerate(items):
            if isinstance(item, n.AtomItem) and at in order:
                if at == delta:
                    given, tests = given_of(item)
                    continue
                item = replace(item, version="full" if order[at] < place else old)
            changed.append(item)
        yield (*tests, *changed), given


def _own(items: n.Conjunction, given: GivenRows | None) -> frozenset[str]:
    """The program's variables that a conjunction binds, without fresh ones."""
    found = {slot.name for slot in given.slots} if given is not None else set()
    return frozenset(name for name in n.variables_of(items) | found if not name.startswith("~"))
