"""The columns of each relation, and errors for columns whose types nothing settles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdatalog.errors import TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.planner.check.catalog import show_schema
from gdatalog.planner.check.types import TypeInference
from gdatalog.planner.check.walk import all_of, contains_head_aggregate
from gdatalog.planner.check.wording import either


def with_rows(rules: Sequence[CheckedRule], sources: Iterable[str]) -> set[str]:
    """The relations that can have rows. `sources`: those with rows that no rule derives."""
    found = set(sources)
    left = [rule for rule in rules if rule.head.name not in found]
    while True:
        holding = {rule.head.name for rule in left if _can_hold(rule, found)}
        if not holding:
            return found
        found |= holding
        left = [rule for rule in left if rule.head.name not in found]


def _can_hold(rule: CheckedRule, found: set[str]) -> bool:
    if rule.body is None or _can_be_true(rule.body, found):
        return True
    # counts and sums without a group have a row even over nothing
    args = rule.head.args
    aggregates = all_of(s.HeadAggregate, rule.head)
    return (
        bool(args)
        and all(map(contains_head_aggregate, args))
        and all(each.kind in ("count", "count_distinct", "sum") for each in aggregates)
    )


def _can_be_true(literal: s.Literal, found: set[str]) -> bool:
    match literal:
        case s.Atom(name):
            return name in found
        case s.And(items):
            return all(_can_be_true(item, found) for item in items)
        case s.Or(items):
            return any(_can_be_true(item, found) for item in items)
    return True


def schemas_of(
    types: TypeInference, named: Mapping[str, tuple[str, ...]], facts: Iterable[str]
) -> dict[str, Schema]:
    """The columns of every relation; `named` gives their names where no declaration does. An error
    for each column whose type nothing settles; if its relation can have no row, it is int.

    `facts`: the relations that have facts.
    """
    schemas: dict[str, Schema] = {}
    is_open: set[str] = set()
    for name in types.columns:
        relation = types.catalog.relations.get(name)
        if relation is not None and relation.schema is not None:
            schemas[name] = relation.schema
            continue
        kinds = types.column_types(name)
        if None in kinds:
            is_open.add(name)
        columns = named.get(name) or tuple([f"c{at}" for at in range(len(kinds))])
        settled = tuple([kind or "int" for kind in kinds])
        schemas[name] = Schema(name, columns, settled, relation.span if relation else None)
    if not types.errors:
        _open_columns(types, schemas, facts, is_open)
    return schemas


def _open_columns(
    types: TypeInference, schemas: Mapping[str, Schema], facts: Iterable[str], is_open: set[str]
) -> None:
    """One error for all columns that one declaration would settle; `is_open`: the relations with
    such columns."""
    relations = types.catalog.relations.values()
    unsettled = [
        each
        for each in relations
        if each.schema is None and not each.broken and (each.arity is None or each.name in is_open)
    ]
    if not unsettled:
        return
    reported: set[int] = set()
    rules = [rule for rule, _, _ in types.seen]
    derived = {rule.head.name for rule in rules}
    read = {
        name for each in types.catalog.directives if each.kind == "input" for name in each.names
    }
    given = {each.name for each in relations if each.name not in derived or each.schema}
    reached = with_rows(rules, given.union(read, facts))
    # undefined relations first: declaring them may settle the others
    for relation in sorted(unsettled, key=lambda r: r.said == "is defined with"):
        name, schema = relation.name, schemas[relation.name]
        if name not in reached:
            continue
        if relation.arity is None:
            message = f"nothing says which columns `{name}` has"
            hint = f"declare them, as in `.decl {name}(x: int, y: symbol)`"
            types.errors.append(TypeMismatchError(message, relation.span, hint=hint))
        open_here = []
        for at, same in types.open_columns(name).items():
            if same not in reported:
                reported.add(same)
                open_here.append(f"`{schema.columns[at]}`")
        if open_here:
            columns, have = ("columns", "have") if len(open_here) > 1 else ("column", "has")
            of = f"the {columns} {either(open_here, 'and')} of `{name}` {have}"
            hint = f"declare it, as in `.decl {show_schema(schema)}`"
            message = f"nothing says which type {of}"
            types.errors.append(TypeMismatchError(message, relation.span, hint=hint))
