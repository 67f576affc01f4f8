"""The columns of each relation, and errors for columns whose types nothing settles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdatalog.errors import TypeMismatchError
from gdatalog.planner.check import Schema
from gdatalog.planner.check.catalog import show_schema
from gdatalog.planner.check.reach import with_rows
from gdatalog.planner.check.types import TypeInference
from gdatalog.planner.check.wording import either


def schemas_of(
    types: TypeInference, named: Mapping[str, tuple[str, ...]], facts: Iterable[str]
) -> dict[str, Schema]:
    """The columns of every relation; `named` gives their names where no declaration does. An error
    for each column whose type nothing settles; if its relation can have no row, it is int.

    `facts`: the relations that have facts.
    """
    schemas: dict[str, Schema] = {}
    for name in types.columns:
        relation = types.catalog.relations.get(name)
        if relation is not None and relation.schema is not None:
            schemas[name] = relation.schema
            continue
        kinds = types.column_types(name)
        columns = named.get(name) or tuple([f"c{at}" for at in range(len(kinds))])
        schemas[name] = Schema(name, columns, kinds, relation.span if relation else None)
    if not types.errors:
        _open_columns(types, schemas, facts)
    return schemas


def _open_columns(
    types: TypeInference, schemas: Mapping[str, Schema], facts: Iterable[str]
) -> None:
    """One error for all columns that one declaration would settle."""
    relations = types.catalog.relations.values()
    unsettled = [
        each
        for each in relations
        if each.schema is None
        and not each.broken
        and (each.arity is None or types.open_columns(each.name))
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
