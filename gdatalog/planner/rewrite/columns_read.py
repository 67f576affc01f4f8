"""What is read of a relation: which columns of a program's inputs, and where only numbers of rows.

A column is not read if every atom has a variable there that occurs nowhere else. Under set
semantics such a column can be dropped; where rows are counted or summed, it cannot.

Then the number of rows may be enough: `deg(x, count()) <- path(x, _).` becomes
`deg(x, sum(n)) <- path~counts(x, n).`, where `path~counts` has the number of rows for each x.
Existence tests work too. This is sound if the other columns are variables that occur nowhere else:
each binding of the rest of the body then stands for as many bindings as there are rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

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
            times = w.count_variables((*rule.head.args, rule.body))
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
    return replace(schema, columns=columns, types=types)  # type: ignore[arg-type]  # zip loses the types


def _rule(rule: CheckedRule, kept: Kept) -> CheckedRule:
    if rule.body is None or not any(atom.name in kept for atom in w.all_of(s.Atom, rule.body)):
        return rule
    return replace(rule, body=_literal(rule.body, kept))


def _literal(node: s.Literal, kept: Kept) -> s.Literal:
    if isinstance(node, s.Atom):
        places = kept.get(node.name)
        return node if places is None else replace(node, args=tuple([node.args[p] for p in places]))
    return w.rebuild(node, partial(_literal, kept=kept))


# Rules that need only the number of rows of a relation for each value of a column.


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
    uses = w.count_variables(nodes)
    items = w.conjuncts(rule.body)
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
        for atom in w.all_of(s.Atom, rule.body)
        if atom.name in names
    )


def _asked(rule: CheckedRule, atom: s.Atom) -> int:
    """The first column of an atom that the rest of the rule reads; 0 if there is none."""
    uses = w.count_variables((*rule.head.args, rule.body))
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
