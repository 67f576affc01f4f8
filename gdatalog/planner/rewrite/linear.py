"""Makes transitive closures linear.

`p(x, z) <- p(x, y), p(y, z)` composes rows of p: (x, y) and (y, z) derive (x, z). Let B be the rows
of p from other rules, facts and data, none of which reads p. Then p is the least relation that
contains B and is closed under composition: all compositions of one or more rows of B, in any
bracketing, because composition is associative. Bracketed from the left, each chain is a shorter
chain followed by one row of B. So p is also the least relation that contains B and is closed under
`p(x, z) <- p(x, y), B(y, z)`. That rule has one recursive atom, where the other has two; it needs
no second growing index, and it partitions.

x, y and z may be several columns each. Columns with the same variable in all three atoms separate
independent closures. The body may contain nothing else: a test would have to hold for every
bracketing.
"""

from __future__ import annotations

from gdatalog.parser.syntax import And, Atom, Or, Var
from gdatalog.planner.check.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import walk
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
    """The stratum with a linear rule in place of its only recursive one, which composes rows of its
    relation; None if it has no such rule."""
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
    if not isinstance(rule.body, And) or len(rule.body.items) != 2:
        return None
    for left, right in (rule.body.items, rule.body.items[::-1]):
        if isinstance(left, Atom) and isinstance(right, Atom) and _composes(rule.head, left, right):
            base = replace(right, name=name + FIRST)
            step = replace(rule, body=And((left, base), rule.body.span))
            others = tuple(other for other in rules if other is not rule)
            return LinearStratum(
                Stratum(stratum.relations, others, False),
                Stratum(stratum.relations, (_copy(schema, rule), step), True),
                rule,
            )
    return None


def _copy(schema: Schema, rule: CheckedRule) -> CheckedRule:
    """`p(x, y) <- p~first(x, y).`"""
    args = tuple(Var(f"c{at}") for at in range(schema.arity))
    types = {arg.name: kind for arg, kind in zip(args, schema.types, strict=True)}
    return CheckedRule(Atom(schema.name, args), Atom(schema.name + FIRST, args), types, rule.span)


def _alternatives(rule: CheckedRule, name: str) -> list[CheckedRule]:
    """A rule for each alternative of a recursive rule, with variables of their own."""
    if not isinstance(rule.body, Or) or not _reads(rule, name):
        return [rule]
    return [replace(rule, body=item) for item in rule.body.items]


def _reads(rule: CheckedRule, name: str) -> bool:
    return rule.body is not None and any(
        isinstance(part, Atom) and part.name == name for part in walk(rule.body)
    )


def _composes(head: Atom, left: Atom, right: Atom) -> bool:
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


def _variables(atom: Atom) -> list[str] | None:
    """An atom's arguments, if they are distinct variables."""
    names = [arg.name for arg in atom.args if isinstance(arg, Var)]
    return names if len(names) == len(set(names)) == len(atom.args) else None
