"""Which columns of a program's inputs are read.

A column is not read if every atom has a variable there that occurs nowhere else. Under set
semantics such a column can be dropped; where rows are counted or summed, it cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, CheckedRule, Schema
from gdatalog.planner.check import walk as w
from gdatalog.records import replace

Kept = Mapping[str, tuple[int, ...]]  # the columns that are kept, by relation


def columns_read(checked: Checked, names: Collection[str]) -> Kept:
    """The columns that rules read, for those of these relations that also have unread columns. At
    least one column is kept."""
    read: dict[str, set[int]] = {}
    for stratum in checked.strata:
        for rule in stratum.rules:
            times = rule.uses
            for atom, counted in _atoms(rule.body, rule.aggregated):
                if atom.name in names:
                    read.setdefault(atom.name, set()).update(
                        at
                        for at, arg in enumerate(atom.args)
                        if counted or not isinstance(arg, s.Var) or times[arg.name] > 1
                    )
    return {
        name: tuple(sorted(found or {0}))
        for name, found in read.items()
        if len(found or {0}) < checked.schemas[name].arity
    }


def _atoms(node: w.Node | None, counted: bool) -> Iterator[tuple[s.Atom, bool]]:
    """The atoms of a body, and whether the multiplicity of each matters."""
    for part in w.walk(node):
        if isinstance(part, s.Atom):
            yield part, counted
        elif isinstance(part, s.Aggregate):
            yield from ((atom, True) for atom in w.all_of(s.Atom, part.body))


def reading_only(checked: Checked, kept: Kept) -> Checked:
    """The program with inputs restricted to these columns."""
    if not kept:
        return checked
    schemas = {**checked.schemas, **{n: _schema(checked.schemas[n], at) for n, at in kept.items()}}
    strata = tuple(
        replace(stratum, rules=tuple([_rule(rule, kept) for rule in stratum.rules]))
        for stratum in checked.strata
    )
    return replace(checked, schemas=schemas, strata=strata)


def _schema(schema: Schema, kept: tuple[int, ...]) -> Schema:
    columns, types = (tuple([part[at] for at in kept]) for part in (schema.columns, schema.types))
    return replace(schema, columns=columns, types=types)


def _rule(rule: CheckedRule, kept: Kept) -> CheckedRule:
    if rule.body is None or not any(atom.name in kept for atom in rule.atoms):
        return rule
    return replace(rule, body=_literal(rule.body, kept))


def _literal(node: s.Literal, kept: Kept) -> s.Literal:
    if isinstance(node, s.Atom):
        places = kept.get(node.name)
        return node if places is None else replace(node, args=tuple([node.args[p] for p in places]))
    return w.rebuild(node, partial(_literal, kept=kept))
