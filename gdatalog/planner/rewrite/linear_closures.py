"""Makes transitive closures linear.

`p(x, z) <- p(x, y), p(y, z)` composes rows of p: (x, y) and (y, z) derive (x, z). Let B be the rows
of p from other rules, facts and data, none of which reads p. Then p is the least relation that
contains B and is closed under composition: all compositions of one or more rows of B, in any
bracketing, because composition is associative. Bracketed from the left, each chain is a shorter
chain followed by one row of B. So p is also the least relation that contains B and is closed under
`p(x, z) <- p(x, y), B(y, z)`. That rule has one recursive atom, where the other has two; it needs
no second growing index, and it partitions. x, y and z may be several columns each. Columns with the
same variable in all three atoms separate independent closures. The body may contain nothing else: a
test would have to hold for every bracketing.
"""

from __future__ import annotations

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import conjuncts
from gdatalog.records import dataclass, replace

FIRST = "~first"  # names of users' relations have no ~


def first_of(schema: Schema) -> Schema:
    """The relation of the rows that a relation has without recursion."""
    return Schema(schema.name + FIRST, schema.columns, schema.types)


@dataclass(frozen=True, slots=True)
class LinearStratum:
    """A stratum made linear: the stratum that derives `p~first`, and the one that reads it.
    `composed`: the rule that was not linear."""

    first: Stratum
    later: Stratum
    composed: CheckedRule


def made_linear(stratum: Stratum, schema: Schema) -> LinearStratum | None:
    """Replaces the only recursive rule, which composes rows of its relation, by a linear rule; None
    if there is no such rule."""
    if not stratum.recursive or len(stratum.relations) != 1:
        return None
    if any(rule.aggregated for rule in stratum.rules):
        return None
    name = schema.name
    rules = [part for rule in stratum.rules for part in _alternatives(rule, name)]
    recursive = [rule for rule in rules if _reads(rule, name)]
    if len(recursive) != 1:
        return None
    (rule,) = recursive
    composed = composition(rule)
    if composed is None:
        return None
    left, right = composed
    step = replace(rule, body=s.And((left, replace(right, name=name + FIRST)), rule.span))
    others = tuple([other for other in rules if other is not rule])
    return LinearStratum(
        Stratum(stratum.relations, others, False),
        Stratum(stratum.relations, (_copy(schema, rule), step), True),
        rule,
    )


def composition(rule: CheckedRule) -> tuple[s.Atom, s.Atom] | None:
    """The two atoms of a rule's body, if the rule composes rows of its own relation."""
    items = conjuncts(rule.body)
    for left, right in (items, items[::-1]) if len(items) == 2 else ():
        if not isinstance(left, s.Atom) or not isinstance(right, s.Atom):
            return None
        if _composes(rule.head, left, right):
            return left, right
    return None


def _copy(schema: Schema, rule: CheckedRule) -> CheckedRule:
    """`p(x, y) <- p~first(x, y).`"""
    args = tuple([s.Var(f"c{at}") for at in range(schema.arity)])
    types = {arg.name: kind for arg, kind in zip(args, schema.types, strict=True)}
    return CheckedRule(
        s.Atom(schema.name, args), s.Atom(schema.name + FIRST, args), types, rule.span
    )


def _alternatives(rule: CheckedRule, name: str) -> list[CheckedRule]:
    """A rule for each alternative of a recursive rule, with variables of their own."""
    if not isinstance(rule.body, s.Or) or not _reads(rule, name):
        return [rule]
    return [replace(rule, body=item) for item in rule.body.items]


def _reads(rule: CheckedRule, name: str) -> bool:
    return any(atom.name == name for atom in rule.atoms)


def _composes(head: s.Atom, left: s.Atom, right: s.Atom) -> bool:
    """Whether the head is the composition of two atoms of its relation."""
    if not left.name == right.name == head.name:
        return False
    heads, lefts, rights = map(_variables, (head, left, right))
    if heads is None or lefts is None or rights is None:
        return False
    sources, targets = [], []
    for column, (x, y, z) in enumerate(zip(heads, lefts, rights, strict=True)):
        if x == y == z:
            continue
        if x == y:
            sources.append(column)
        elif x == z:
            targets.append(column)
        else:
            return False
    # The left row's targets are the right row's sources, in one order.
    links = [lefts[column] for column in targets]
    starts = [rights[column] for column in sources]
    return len(links) == len(starts) > 0 and sorted(links) == sorted(starts)


def _variables(atom: s.Atom) -> list[str] | None:
    """An atom's arguments, if they are distinct variables."""
    names = [arg.name for arg in atom.args if isinstance(arg, s.Var)]
    return names if len(names) == len(set(names)) == len(atom.args) else None
