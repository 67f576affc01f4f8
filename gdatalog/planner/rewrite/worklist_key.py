"""Runs a linear recursion as one worklist, by adding a constant key column to its relations.

`n(i + 1) <- n(i)` passes no column on. With a constant key that every rule passes on,
`n(0, i + 1) <- n(0, i)`, it has a single partition: the compiled worklist follows row after row,
without rounds. That is sequential, and pays if rounds are many and small.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import conjunction, conjuncts
from gdatalog.records import replace

KEY = "~key"  # names of users' columns have no ~


def with_key(
    stratum: Stratum, schemas: Mapping[str, Schema]
) -> tuple[Stratum, dict[str, Schema]] | None:
    """The stratum with a key as first column of its relations, and their schemas; None if a rule
    joins rows of the stratum, aggregates, or has alternatives that read it."""
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
