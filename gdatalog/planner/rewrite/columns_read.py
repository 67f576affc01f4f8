"""Which columns of a program's inputs are read, and the program without the others.

A column is not read if every atom has a variable there that occurs nowhere else. Under set
semantics such a column can be dropped; where rows are counted or summed, it cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from gdatalog.parser.syntax import Aggregate, Atom, Literal, Var
from gdatalog.planner.check.checked import Checked, CheckedRule, Schema
from gdatalog.planner.check.walk import Node, rebuild, walk
from gdatalog.records import replace

Kept = Mapping[str, tuple[int, ...]]  # the columns that are kept, by relation


def columns_read(checked: Checked, names: Collection[str]) -> Kept:
    """The columns that rules read, for those of these relations that also have unread columns. At
    least one column is kept."""
    read: dict[str, set[int]] = {}
    for stratum in checked.strata:
        for rule in stratum.rules:
            if rule.body is None:
                continue
            nodes = (*rule.head.args, rule.body)
            times = Counter(p.name for n in nodes for p in walk(n) if isinstance(p, Var))
            for atom, counted in _atoms(rule.body, rule.aggregated):
                if atom.name in names:
                    read.setdefault(atom.name, set()).update(
                        at
                        for at, arg in enumerate(atom.args)
                        if counted or not isinstance(arg, Var) or times[arg.name] > 1
                    )
    return {
        name: tuple(sorted(found or {0}))
        for name, found in read.items()
        if len(found or {0}) < checked.schemas[name].arity
    }


def _atoms(node: Node, counted: bool) -> Iterator[tuple[Atom, bool]]:
    """The atoms of a body, and whether the multiplicity of each matters."""
    for part in walk(node):
        if isinstance(part, Atom):
            yield part, counted
        elif isinstance(part, Aggregate):
            yield from ((atom, True) for atom in walk(part.body) if isinstance(atom, Atom))


def reading_only(checked: Checked, kept: Kept) -> Checked:
    """The program with inputs restricted to these columns."""
    if not kept:
        return checked
    schemas = {**checked.schemas, **{n: _schema(checked.schemas[n], at) for n, at in kept.items()}}
    strata = tuple(
        replace(stratum, rules=tuple(_rule(rule, kept) for rule in stratum.rules))
        for stratum in checked.strata
    )
    return replace(checked, schemas=schemas, strata=strata)


def _schema(schema: Schema, kept: tuple[int, ...]) -> Schema:
    columns, types = (tuple(part[at] for at in kept) for part in (schema.columns, schema.types))
    return replace(schema, columns=columns, types=types)  # type: ignore[arg-type]  # zip loses the types


def _rule(rule: CheckedRule, kept: Kept) -> CheckedRule:
    if rule.body is None or not any(
        isinstance(part, Atom) and part.name in kept for part in walk(rule.body)
    ):
        return rule
    return replace(rule, body=_literal(rule.body, kept))


def _literal(node: Literal, kept: Kept) -> Literal:
    if isinstance(node, Atom):
        places = kept.get(node.name)
        return node if places is None else replace(node, args=tuple(node.args[p] for p in places))
    return rebuild(node, partial(_literal, kept=kept))
