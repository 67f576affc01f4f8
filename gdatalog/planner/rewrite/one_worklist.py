"""Runs a linear recursion as one worklist, by adding a constant key column to its relations.

`n(i + 1) <- n(i)` passes no column on, so it cannot be partitioned. With a key that every rule
passes on, `n(0, i + 1) <- n(0, i)`, it has a single partition: the compiled worklist of
`partitioned.py` follows row after row, without rounds. That is sequential, and pays if rounds are
many and small.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.parser.syntax import And, Atom, Const, Var
from gdatalog.planner.check.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import walk
from gdatalog.records import dataclass, replace

KEY = "~key"  # names of users' columns have no ~


@dataclass(frozen=True, slots=True)
class Keyed:
    """A stratum whose relations have a key as first column, and their schemas."""

    stratum: Stratum
    schemas: Mapping[str, Schema]


def with_key(stratum: Stratum, schemas: Mapping[str, Schema]) -> Keyed | None:
    """The stratum with keys; None if a rule joins rows of the stratum, aggregates, or has
    alternatives that read it."""
    if any(not schemas[name].arity for name in stratum.relations):
        return None
    rules = [_with_key(rule, frozenset(stratum.relations)) for rule in stratum.rules]
    if None in rules:
        return None
    keyed = {
        name: Schema(name, (KEY, *schemas[name].columns), ("int", *schemas[name].types))
        for name in stratum.relations
    }
    return Keyed(replace(stratum, rules=tuple(filter(None, rules))), keyed)


def _with_key(rule: CheckedRule, names: frozenset[str]) -> CheckedRule | None:
    if rule.aggregated:
        return None
    if rule.body is None:
        return replace(rule, head=_keyed(rule.head, Const("int", 0)))
    literals = rule.body.items if isinstance(rule.body, And) else (rule.body,)
    reads = [each for each in literals if isinstance(each, Atom) and each.name in names]
    below = sum(isinstance(part, Atom) and part.name in names for part in walk(rule.body))
    if len(reads) > 1 or len(reads) != below:
        return None
    if not reads:
        return replace(rule, head=_keyed(rule.head, Const("int", 0)))
    (atom,) = reads
    keyed = tuple(_keyed(atom, Var(KEY)) if each is atom else each for each in literals)
    body = And(keyed, rule.body.span) if isinstance(rule.body, And) else keyed[0]
    head = _keyed(rule.head, Var(KEY))
    return replace(rule, head=head, body=body, types={**rule.types, KEY: "int"})


def _keyed(atom: Atom, key: Const | Var) -> Atom:
    return replace(atom, args=(key, *atom.args))
