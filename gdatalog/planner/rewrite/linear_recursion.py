"""Linear recursion, partitioned by the values of a column.

`path(x, z) <- path(x, y), E(y, z)` passes the first column on unchanged: rows of one x derive rows
of the same x, so each x is a fixpoint of its own. A stratum can be partitioned if a column of each
of its relations can be chosen such that every rule passes the chosen column of its one recursive
atom to the chosen column of its head. This depends on the rules alone. It is read off their plans,
where alternatives are separate and the recursive atom's columns are variables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdatalog.parser import syntax as s
from gdatalog.plan.join_plan import JoinPlan, RulePlan, Slot
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import conjunction, conjuncts
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`columns`: the column by which each relation of the stratum is partitioned."""

    columns: Mapping[str, int]


Pairs = frozenset[tuple[int, int]]


def two_atoms_of(rule: CheckedRule, names: Collection[str]) -> bool:
    """Whether a rule joins two atoms of these relations. Then no column partitions them, which is
    known before planning."""
    literals = conjuncts(rule.body)
    return sum([isinstance(each, s.Atom) and each.name in names for each in literals]) > 1


def partitioning_of(plans: Sequence[RulePlan], arities: Mapping[str, int]) -> Partitioning | None:
    """The partitioning of a stratum, by the plans of its recursive rules; None if there is none.

    `arities`: those of the stratum's relations.
    """
    edges: list[tuple[str, str, Pairs]] = []
    for plan in plans:
        if plan.gathers:
            return None
        for join in plan.joins:
            if join.given is None or any(ref.relation in arities for ref in join.tries):
                return None  # it reads other rows of the stratum than its given ones
            edges.append((join.given.relation, plan.relation, _passed_on(join)))
    chosen: dict[str, int] = {}
    for relations in _connected(edges, arities):
        if not _choose(relations, edges, arities, chosen):
            return None
    return Partitioning(chosen)


def _passed_on(join: JoinPlan) -> Pairs:
    """Pairs of a column of the recursive atom and a column of the head with the same variable."""
    assert join.given is not None
    return frozenset(
        (at, place)
        for at, slot in enumerate(join.given.slots)
        for place, output in enumerate(join.outputs)
        if isinstance(output, Slot) and output.name == slot.name
    )


def _connected(
    edges: Sequence[tuple[str, str, Pairs]], arities: Mapping[str, int]
) -> list[list[str]]:
    """The connected components of relations, each relation after a neighbour."""
    beside: dict[str, list[str]] = {name: [] for name in sorted(arities)}
    for body, head, _ in edges:
        beside[body].append(head)
        beside[head].append(body)
    found: list[list[str]] = []
    seen: set[str] = set()
    for first in beside:
        if first in seen:
            continue
        relations = {first: None}
        waiting = [first]
        while waiting:
            more = [name for name in beside[waiting.pop()] if name not in relations]
            relations.update(dict.fromkeys(more))
            waiting += dict.fromkeys(more)
        seen |= relations.keys()
        found.append(list(relations))
    return found


def _choose(
    relations: Sequence[str],
    edges: Sequence[tuple[str, str, Pairs]],
    arities: Mapping[str, int],
    chosen: dict[str, int],
) -> bool:
    """Chooses a column of each relation so that all edges agree, by backtracking; returns whether
    that is possible."""
    place = {name: at for at, name in enumerate(relations)}
    # The edges to check when a relation's column is chosen.
    checks: list[list[tuple[str, str, Pairs]]] = [[] for _ in relations]
    for body, head, pairs in edges:
        if body in place:
            checks[max(place[body], place[head])].append((body, head, pairs))
    at = column = 0
    while at < len(relations):
        name = relations[at]
        for column in range(column, arities[name]):  # noqa: B020  resumes after the last one
            chosen[name] = column
            if all((chosen[body], chosen[head]) in pairs for body, head, pairs in checks[at]):
                at, column = at + 1, 0
                break
        else:
            if at == 0:
                return False
            at -= 1
            column = chosen[relations[at]] + 1
    return True


KEY = "~key"  # names of users' columns have no ~


def with_key(
    stratum: Stratum, schemas: Mapping[str, Schema]
) -> tuple[Stratum, dict[str, Schema]] | None:
    """The stratum with a constant key as first column of its relations, and their schemas; None if
    a rule joins rows of the stratum, aggregates, or has alternatives that read it.

    `n(i + 1) <- n(i)` passes no column on. With a key that every rule passes on,
    `n(0, i + 1) <- n(0, i)`, it has a single partition: the compiled worklist follows row after
    row, without rounds. That is sequential, and pays if rounds are many and small.
    """
    if any(not schemas[name].arity for name in stratum.relations):
        return None
    rules = [_with_key(rule, frozenset(stratum.relations)) for rule in stratum.rules]
    if None in rules:
        return None
    keyed = {
        name: Schema(name, (KEY, *schemas[name].columns), ("int", *schemas[name].types))
        for name in stratum.relations
    }
    return replace(stratum, rules=tuple(filter(None, rules))), keyed


def _with_key(rule: CheckedRule, names: frozenset[str]) -> CheckedRule | None:
    if rule.aggregated:
        return None
    if rule.body is None:
        return replace(rule, head=_keyed(rule.head, s.Const("int", 0)))
    literals = conjuncts(rule.body)
    reads = [each for each in literals if isinstance(each, s.Atom) and each.name in names]
    if len(reads) > 1 or len(reads) != sum(atom.name in names for atom in rule.atoms):
        return None
    if not reads:
        return replace(rule, head=_keyed(rule.head, s.Const("int", 0)))
    (atom,) = reads
    keyed = tuple([_keyed(atom, s.Var(KEY)) if each is atom else each for each in literals])
    body = conjunction(keyed, rule.body.span)
    head = _keyed(rule.head, s.Var(KEY))
    return replace(rule, head=head, body=body, types={**rule.types, KEY: "int"})


def _keyed(atom: s.Atom, key: s.Const | s.Var) -> s.Atom:
    return replace(atom, args=(key, *atom.args))
