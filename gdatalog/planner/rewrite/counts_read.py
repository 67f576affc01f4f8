"""Rules that need only the number of rows of a relation for each value of a column.

`deg(x, count()) <- path(x, _).` becomes `deg(x, sum(n)) <- path~counts(x, n).`, where
`path~counts` has the number of rows for each x. Existence tests work too. This is sound if the
other columns are variables that occur nowhere else: each binding of the rest of the body then
stands for as many bindings as there are rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.planner.check import walk as w
from gdatalog.records import replace

COUNTS = "~counts"  # names of users' relations have no ~
_NUMBER = s.Var("rows~n")
# Aggregates that ignore multiplicity.
_OF_SETS = frozenset({"min", "max", "any_value", "count_distinct"})


def counts_of(schema: Schema, split: int) -> Schema:
    """The schema of the relation of counts by column `split`."""
    name, kind = schema.columns[split], schema.types[split]
    return Schema(schema.name + COUNTS, (name, "rows"), (kind, "int"))


def counted_rule(rule: CheckedRule, columns: Mapping[str, int]) -> CheckedRule | None:
    """The rule over counts by these columns in place of these relations; None if it needs the rows.
    Rules that read none of the relations are unchanged."""
    if rule.body is None:
        return rule
    nodes = (*rule.head.args, rule.body)
    read = [atom for atom in w.all_of(s.Atom, *nodes) if atom.name in columns]
    if not read:
        return rule
    items = w.conjuncts(rule.body)
    uses = rule.uses
    changed = tuple([_counted(item, columns, uses) for item in items])
    rewritten = [item for item, before in zip(changed, items, strict=True) if item is not before]
    if None in changed or len(rewritten) != 1 or len(read) != 1:
        return None
    kinds = {part.kind for part in w.all_of(s.HeadAggregate, rule.head)}
    if not kinds <= _OF_SETS | {"count"} or (kinds and isinstance(rewritten[0], s.Not)):
        return None
    body = w.conjunction((item for item in changed if item is not None), rule.body.span)
    head = replace(rule.head, args=tuple(map(_summed, rule.head.args)))
    return replace(rule, head=head, body=body, types={**rule.types, _NUMBER.name: "int"})


def asks_for_counts(rule: CheckedRule, names: Collection[str]) -> bool:
    """Whether, for some column of each relation, counts are enough for the rule."""
    return all(
        bool(atom.args) and counted_rule(rule, {atom.name: _asked(rule, atom)}) is not None
        for atom in rule.atoms
        if atom.name in names
    )


def _asked(rule: CheckedRule, atom: s.Atom) -> int:
    """The first column of an atom that the rest of the rule reads; 0 if there is none."""
    uses = rule.uses
    asked = [at for at, arg in enumerate(atom.args) if not _unused(arg, uses)]
    return asked[0] if asked else 0


def _unused(arg: s.Expr, uses: Mapping[str, int]) -> bool:
    return isinstance(arg, s.Var) and uses[arg.name] == 1


def _counted(
    item: s.Literal, columns: Mapping[str, int], uses: Mapping[str, int]
) -> s.Literal | None:
    """A literal over counts; None if it needs the rows."""
    if isinstance(item, s.Not) and isinstance(item.body, s.Atom):
        inner = _counted(item.body, columns, uses)
        return None if inner is None else item if inner is item.body else replace(item, body=inner)
    if not isinstance(item, s.Atom) or item.name not in columns:
        return item
    split = columns[item.name]
    others = [arg for at, arg in enumerate(item.args) if at != split]
    if not item.args or not all(_unused(arg, uses) for arg in others):
        return None
    return replace(item, name=item.name + COUNTS, args=(item.args[split], _NUMBER))


def _summed(arg: Any) -> Any:
    """An argument of the head with sums of counts in place of counts."""
    if isinstance(arg, s.HeadAggregate) and arg.kind == "count":
        return s.HeadAggregate("sum", (_NUMBER,), arg.span)
    return w.rebuild(arg, _summed)
