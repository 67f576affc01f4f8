"""Plans a rule: `PASSES` turn its alternatives into joins, aggregates and the head."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypedDict, Unpack

from gdatalog.parser.syntax import Chain, HeadAggregate, Var
from gdatalog.parser.syntax import Expr as SyntaxExpr
from gdatalog.plan.join_plan import Expr, Gather, GivenRows, JoinPlan, RulePlan, Slot, Term, Version
from gdatalog.plan.labels import ending_labels, format_expr, orbit_label, term_label
from gdatalog.planner import aggregate_items
from gdatalog.planner import items as n
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.optionals import are_apart
from gdatalog.planner.check.walk import all_of, contains_head_aggregate, variables
from gdatalog.planner.items import body_text
from gdatalog.planner.join import plan_join
from gdatalog.planner.normalise import Normaliser
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.scans import given_of, scan_of, scanning
from gdatalog.planner.order.symmetry import one_of_each
from gdatalog.planner.rewrite.algebra import Algebra, signed_sum
from gdatalog.planner.rewrite.body_counts import pays, tabled
from gdatalog.records import dataclass, field, replace
from gdatalog.values import TypeName

# Aggregates of a set of bindings, without multiplicity.
SET_KINDS = frozenset({"min", "max", "any_value", "count_distinct"})


class RuleOptions(TypedDict, total=False):
    """How a rule is planned.

    In the first round of a fixpoint (`first`) only alternatives without a recursive atom derive
    rows. Later rounds read the new rows of recursive atoms, and the `old` rows.

    `scans`: an alternative of one atom scans its relation if that has at least so many rows.
    `algebra`: how a count may become a signed sum of simpler counts; None: not at all.
    """

    first: bool
    old: Version
    scans: int | None
    algebra: Algebra | None


def plan_rule(
    rule: CheckedRule,
    param_types: Mapping[str, TypeName],
    inputs: PlanInputs,
    recursive: Collection[str] = (),
    **options: Unpack[RuleOptions],
) -> RulePlan:
    """The plan of a rule; `recursive` are the relations of its stratum."""
    normal = Normaliser(dict(rule.types), param_types, rule.uses)
    draft = RuleDraft(rule, param_types, inputs, recursive, normal, **options)
    for each in PASSES:
        each(draft)
        if inputs.notes is not None:
            inputs.notes.note(each, draft.lines())
        if draft.plan is not None:
            return draft.plan
    raise AssertionError("the last pass makes a plan")


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
    return replace(over, joins=tuple([scanning(join, shared) for join in over.joins]))


# Items, and the rows that they run for; None: they run once.
Variant = tuple[n.Conjunction, GivenRows | None]


@dataclass(slots=True, eq=False)
class Group:
    """Variants whose bindings are one set; each binding is `outputs`, if there are several.

    `restricted`: a single variant restricted to one binding of each orbit of `orbit` bindings.
    """

    variants: list[Variant]
    restricted: n.Conjunction | None = None
    orbit: int = 1
    outputs: tuple[Slot, ...] = ()
    joins: list[JoinPlan] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class RuleDraft:
    """A rule that is being planned."""

    rule: CheckedRule
    param_types: Mapping[str, TypeName]
    inputs: PlanInputs
    recursive: Collection[str]
    normal: Normaliser
    first: bool = True
    old: Version = "old"
    scans: int | None = None
    algebra: Algebra | None = None
    alternatives: list[n.Conjunction] = field(default_factory=list)
    head: tuple[Expr, ...] = ()
    gathers: tuple[Gather, ...] = ()
    variants: list[Variant] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    terms: tuple[Term, ...] = ()
    otherwise: RulePlan | None = None
    plan: RulePlan | None = None

    @property
    def plain(self) -> bool:
        """Whether it runs once, has one alternative, and its head aggregates nothing."""
        return self.first and not self.gathers and len(self.alternatives) == 1

    @property
    def keys(self) -> tuple[Slot, ...]:
        """The variables of the head that group its aggregates."""
        gathered = {gather.variable for gather in self.gathers}
        names = sorted(n.variables_of_exprs(self.head) - gathered)
        return tuple([Slot(name, self.normal.types[name]) for name in names])

    @property
    def live(self) -> tuple[str, ...]:
        """The variables that the aggregates of the head read."""
        targets = frozenset().union(*(n.variables_of_exprs(g.targets) for g in self.gathers))
        return tuple(dict.fromkeys((*(key.name for key in self.keys), *targets)))

    def read_by_head(self) -> frozenset[str]:
        return n.variables_of_exprs(self.head).union(self.live)

    @property
    def bag(self) -> bool:
        """Whether an aggregate of the head depends on how often a binding occurs."""
        return not {gather.kind for gather in self.gathers} <= SET_KINDS

    def lines(self) -> tuple[str, ...]:
        head = f"{self.rule.head.name}({', '.join(map(format_expr, self.head))})"
        own = RulePlan(self.rule.head.name, (), self.head, self.keys, self.gathers)
        *gathered, _ = ending_labels(own)
        return tuple([f"{head} <- {'; '.join((body, *gathered))}." for body in self._bodies()])

    def _bodies(self) -> Iterator[str]:
        if self.terms:
            yield from map(term_label, self.terms)
        elif self.groups:
            for group in self.groups:
                for items, given in group.variants:
                    body = items if group.restricted is None else group.restricted
                    each = f"; {orbit_label(group.orbit)}" if group.orbit > 1 else ""
                    yield body_text(body, given) + each
        elif self.variants:
            yield from (body_text(*variant) for variant in self.variants)
        else:
            yield from map(body_text, self.alternatives)


def normalise(draft: RuleDraft) -> None:
    """The body becomes alternatives, and chains and expressions become items of their own."""
    rule, normal = draft.rule, draft.normal
    alternatives = normal.body(rule.body)
    items: list[n.Item] = []
    computed = _computed_per_group(rule)
    draft.head = tuple(
        [
            normal.expression(arg, items) if arg in computed else normal.head(arg, items)
            for arg in rule.head.args
        ]
    )
    draft.gathers = tuple(normal.gathers)
    draft.alternatives = [(*alternative, *items) for alternative in alternatives]


def count_in_head(draft: RuleDraft) -> None:
    """A body that is one count or sum becomes an aggregate of the head."""
    closed = aggregate_items.as_gather(draft.alternatives[0], draft.head) if draft.plain else None
    if closed is not None:
        draft.alternatives, draft.gathers, draft.head = closed


def count_in_tables(draft: RuleDraft) -> None:
    """Counts by one variable become tables, which are computed first, if that pays."""
    rule, inputs, algebra = draft.rule, draft.inputs, draft.algebra
    if not draft.plain or draft.recursive or algebra is None or not algebra.tables:
        return

    inputs = replace(inputs, notes=None)

    def grouped(body: n.Conjunction, live: frozenset[str]) -> JoinPlan:
        return plan_join(inputs, body, (), live, True)

    tables = tabled(draft.alternatives[0], grouped, inputs, algebra)
    if tables is None:
        return
    other = plan_rule(rule, draft.param_types, inputs)
    reads = n.variables_of_exprs(draft.head)
    join = plan_join(replace(inputs, sizes=tables.sizes), tables.items, draft.head, reads, False)
    plan = RulePlan(rule.head.name, (join,), draft.head, span=rule.span)
    plan = replace(plan, within=tables.rules, otherwise=other)
    if algebra.mode != "auto" or pays(plan, other, tables):
        draft.alternatives, draft.plan = [tables.items], plan


def read_new_rows(draft: RuleDraft) -> None:
    """In later rounds an alternative runs for the new rows of each of its recursive atoms."""
    for items in draft.alternatives:
        deltas = list(_deltas(items, draft.recursive, draft.old))
        if not draft.first:
            draft.variants += deltas
        elif not deltas:
            draft.variants.append((items, None))


def scan_relations(draft: RuleDraft) -> None:
    """An alternative of one atom scans the rows of a large relation, without an index."""
    if draft.first and draft.scans is not None:
        sizes, least = draft.inputs.sizes, draft.scans
        draft.variants = [
            scan_of(items, sizes, least, draft.read_by_head) or (items, None)
            for items, _ in draft.variants
        ]


def share_bindings(draft: RuleDraft) -> None:
    """Alternatives whose bindings are counted, and that bind the same, share a set of bindings."""
    groups: dict[object, list[Variant]] = {}
    for at, variant in enumerate(draft.variants):
        counted = bool(draft.gathers) and draft.bag
        groups.setdefault(_own(*variant) if counted else at, []).append(variant)
    draft.groups = list(map(Group, groups.values()))


def restrict_to_orbits(draft: RuleDraft) -> None:
    """A count of all bindings finds one binding of each orbit of the body's symmetries."""
    if draft.keys or {gather.kind for gather in draft.gathers} != {"count"}:
        return
    for group in draft.groups:
        ((items, given), *others) = group.variants
        if not others and given is None:
            found = one_of_each(items, draft.inputs.sizes, draft.inputs.thresholds)
            group.restricted, group.orbit = found


def plan_joins(draft: RuleDraft) -> None:
    """Each alternative becomes a join plan."""
    for group in draft.groups:
        if not draft.gathers:
            outputs, reads = draft.head, n.variables_of_exprs(draft.head)
        elif len(group.variants) > 1:
            names = _own(*group.variants[0]).union(draft.live)
            slots = tuple([Slot(name, draft.normal.types[name]) for name in sorted(names)])
            group.outputs = outputs = slots
            reads = names
        else:
            ((items, given),) = group.variants
            body = items if group.restricted is None else group.restricted
            inputs, live = draft.inputs, frozenset(draft.live)
            join = plan_join(inputs, body, (), live, draft.bag, given, draft.recursive)
            group.joins = [replace(join, orbit=group.orbit)]
            continue
        for items, given in group.variants:  # a set of rows
            join = plan_join(draft.inputs, items, outputs, reads, False, given, draft.recursive)
            group.joins.append(join)


def count_by_algebra(draft: RuleDraft) -> None:
    """A count or sum becomes a signed sum of simpler counts, if that pays."""
    if draft.algebra is None or len(draft.groups) != 1 or not draft.gathers:
        return
    (group,) = draft.groups
    ((items, given), *others) = group.variants
    if others or given is not None or not all(map(_adds_up, draft.gathers)):
        return
    (join,) = group.joins
    found = signed_sum(items, replace(join, orbit=1), draft.inputs, draft.algebra, draft.live)
    if found is not None:
        draft.otherwise = _finished(draft)
        group.joins, draft.terms = list(found[0]), found[1]


def finish(draft: RuleDraft) -> None:
    """The plan: the joins of all alternatives, then the aggregates and the head."""
    draft.plan = _finished(draft)


def _finished(draft: RuleDraft) -> RulePlan:
    rule, head = draft.rule, draft.head
    joins = tuple([join for group in draft.groups for join in group.joins])
    if not draft.gathers:
        apart = draft.first and len(joins) > 1 and are_apart(rule)
        return RulePlan(rule.head.name, joins, head, span=rule.span, apart=apart)
    numbers: list[tuple[int, ...]] = []
    for group in draft.groups:
        begin = sum(map(len, numbers))
        numbers.append(tuple(range(begin, begin + len(group.joins))))
    outputs = tuple([group.outputs for group in draft.groups])
    grouped = head, draft.keys, draft.gathers, tuple(numbers), outputs
    return RulePlan(rule.head.name, joins, *grouped, draft.terms, draft.otherwise, rule.span)


PASSES = (
    normalise,
    count_in_head,
    count_in_tables,
    read_new_rows,
    scan_relations,
    share_bindings,
    restrict_to_orbits,
    plan_joins,
    count_by_algebra,
    finish,
)


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
        *(arg for arg in args if variables(arg).keys() <= keys and not all_of(Chain, arg)),
    ]


def _deltas(
    items: n.Conjunction, recursive: Collection[str], old: Version
) -> Iterator[tuple[n.Conjunction, GivenRows]]:
    """A conjunction once for each recursive atom, with the given rows that replace the atom.

    Earlier atoms read all rows, later ones only the `old` rows, so that no pair is joined twice.
    Earlier and later are by the stratum's order of relations, in which a round evaluates them.
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
    return frozenset([name for name in n.variables_of(items) | found if not name.startswith("~")])
