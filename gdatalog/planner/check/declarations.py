"""Collects the declarations of a program: its relations, types and directives, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdatalog.errors import Error, NameResolutionError, Note, TypeMismatchError, UsageError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import DECIMAL
from gdatalog.planner.check import Schema
from gdatalog.planner.check.catalog import (
    BASE_TYPES,
    CatalogRelation,
    Declarations,
    no_such_relation,
    no_such_type,
    show_schema,
)
from gdatalog.planner.check.invalid import NOTHING_BROKEN, Cause
from gdatalog.planner.check.walk import reached
from gdatalog.records import replace
from gdatalog.storage.kinds import either
from gdatalog.values import TYPE_SYNONYMS


def collect(
    program: s.Program,
    known: Mapping[str, Schema],
    errors: list[Error],
    broken: Mapping[str, Cause] = NOTHING_BROKEN,
) -> Declarations:
    """Collects the relations and types of a program, and the errors of its declarations."""
    catalog = Declarations(types=BASE_TYPES | TYPE_SYNONYMS, broken=broken)
    name_types(
        [each for each in program.statements if isinstance(each, s.TypeDecl)], catalog, errors
    )
    for name, schema in known.items():
        catalog.decimals |= not DECIMAL.isdisjoint(schema.types)
        said = "is declared with" if schema.declared else "has data with"
        catalog.relations[name] = CatalogRelation(
            name, schema.arity, said, schema.span, schema, has_data=True, declared=schema.declared
        )
    for statement in program.statements:
        if isinstance(statement, s.Decl):
            for name in statement.names:
                _declare(name, statement, catalog, errors)
    for statement in program.statements:
        if isinstance(statement, s.Rule):
            for head in statement.heads:
                found = CatalogRelation(head.name, len(head.args), "is defined with", head.span)
                catalog.relations.setdefault(head.name, found)
    _directives(program, catalog, errors)
    return catalog


def _declare(name: str, decl: s.Decl, catalog: Declarations, errors: list[Error]) -> None:
    for column in decl.columns:
        if column.type_name not in catalog.types:
            errors.append(no_such_type(column.type_name, column.span, catalog))
    types = tuple([catalog.types.get(column.type_name) for column in decl.columns])
    columns = tuple([column.name for column in decl.columns])
    for at, column in enumerate(decl.columns):
        if column.name in columns[:at]:
            message = f"`{name}` has two columns of the name `{column.name}`"
            notes = [Note("the first is here", decl.columns[columns.index(column.name)].span)]
            hint = "give each column a name of its own"
            errors.append(NameResolutionError(message, column.span, hint=hint, notes=notes))
    before = catalog.relations.get(name)
    said = "is declared with"
    if None in types:
        if before is None or not before.declared:
            catalog.relations[name] = CatalogRelation(
                name, len(types), said, decl.span, broken=True, declared=True
            )
        return
    given = tuple([column.nullable for column in decl.columns])
    schema = Schema(
        name, columns, tuple([t for t in types if t]), decl.span, declared=True,
        nullable=given if any(given) else (),
    )  # fmt: skip
    catalog.decimals |= not DECIMAL.isdisjoint(types)
    if before is not None and (before.declared or before.schema is not None):
        known = before.schema
        if known is not None and known.shown < known.arity:
            schema = schema.with_row_ids()
        same = known is None or (
            known.types == schema.types
            and not known.nulls_beyond(schema)
            and not (before.declared and schema.nulls_beyond(known))
        )
        if before.declared and not (same and (known is None or known.columns == schema.columns)):
            assert known is not None
            message = f"`{name}` is declared again, and differently"
            notes = [Note(f"it is `{show_schema(known)}` here", before.span)]
            hint = "one of the two should go, or be the same as the other"
            errors.append(TypeMismatchError(message, decl.span, hint=hint, notes=notes))
        elif not same:
            assert known is not None
            message = f"`{name}` is declared as `{show_schema(schema)}`, "
            message += f"but its data is `{show_schema(known)}`"
            notes = [Note("the data came from here", before.span)] if before.span else []
            hint = "change the declaration, or load the data with these types"
            errors.append(TypeMismatchError(message, decl.span, hint=hint, notes=notes))
        if before.declared or not same:
            return
    has_data = before is not None and before.has_data
    if before is not None and before.schema is not None:
        nullable = either(schema.nullable, before.schema.nullable)
        schema = replace(schema, kinds=before.schema.kinds, nullable=nullable)
    catalog.relations[name] = CatalogRelation(
        name, schema.arity, said, decl.span, schema, False, True, has_data
    )


def _directives(program: s.Program, catalog: Declarations, errors: list[Error]) -> None:
    """Collects all directives, including qualifiers of a `.decl`; `.input` adds a relation."""
    found = [each for each in program.statements if isinstance(each, s.Directive)]
    said = {(d.kind, name) for d in found for name in d.names}
    for statement in program.statements:
        if isinstance(statement, s.Decl):
            for kind in statement.qualifiers:
                names = tuple([n for n in statement.names if (kind, n) not in said])
                if kind in ("input", "output", "printsize") and names:
                    found.append(s.Directive(kind, names, span=statement.span))
    for directive in found:
        if directive.kind == "input":
            for name in directive.names:
                found_here = CatalogRelation(name, None, "is read with", directive.span)
                relation = catalog.relations.setdefault(name, found_here)
                hidden = dict(directive.options).get("row_id", "").lower() == "true"
                if relation.schema is not None and hidden:
                    relation.schema = relation.schema.with_row_ids()
                    relation.arity = relation.schema.arity
    for directive in found:
        if directive.kind == "output":
            errors += _impossible(directive)
        for name in directive.names:
            if name in catalog.broken:
                if (directive.kind, name) in said:
                    errors.append(catalog.broken[name].error_for(name, directive.span))
            elif name not in catalog.relations:
                errors.append(no_such_relation(name, directive.span, catalog))
    catalog.directives = found


def _impossible(output: s.Directive) -> Iterator[Error]:
    """Errors for options of an `.output` that would change what is written, and cannot."""
    for name, value in output.options:
        if name in ("order_by", "limit"):
            message = f".output writes all rows, unordered: it has no `{name}`"
            hint = f"a query has: `?- {output.names[0]} order by x limit 5.`"
            yield UsageError(message, output.span, hint=hint)
        if (name, value) == ("IO", "stdout") and output.path is not None:
            message = "an output goes to a path or to stdout, not to both"
            yield UsageError(message, output.span, hint="leave the path or IO=stdout out")


def name_types(decls: list[s.TypeDecl], catalog: Declarations, errors: list[Error]) -> None:
    """The base type of each named type. A type may be used before it is defined."""
    said: dict[str, s.TypeDecl] = {}
    for decl in decls:
        first = said.setdefault(decl.name, decl)
        if decl.name in BASE_TYPES:
            message = f"`{decl.name}` is a built-in type and cannot be redefined"
            errors.append(NameResolutionError(message, decl.span, hint="take another name"))
        elif (first.op, first.targets) != (decl.op, decl.targets):
            message = f"the type `{decl.name}` has two different definitions"
            hint = "take another name for one of the two"
            notes = [Note("the other is here", first.span)]
            errors.append(TypeMismatchError(message, decl.span, hint=hint, notes=notes))
    for name in said.keys() & TYPE_SYNONYMS:
        del catalog.types[name]
    waiting = [decl for name, decl in said.items() if name not in BASE_TYPES]
    while waiting:
        ready = [d for d in waiting if all(t in catalog.types for t in d.targets)]
        if not ready:
            break
        for decl in ready:
            _make_type(decl, catalog, errors)
        waiting = [decl for decl in waiting if decl.name not in catalog.types]
    for decl in waiting:
        unknown = [t for t in decl.targets if t not in catalog.types and t not in said]
        for target in unknown:
            errors.append(no_such_type(target, decl.span, catalog))
        made_of = reached(decl.name, lambda name: said[name].targets if name in said else ())
        if not unknown and decl.name in made_of:
            message = f"the type `{decl.name}` is defined by itself"
            hint = f"say what it is: `.type {decl.name} = int`"
            errors.append(NameResolutionError(message, decl.span, hint=hint))
    for decl in waiting:
        catalog.types.setdefault(decl.name, "int")  # reported above; no more errors about it


def _make_type(decl: s.TypeDecl, catalog: Declarations, errors: list[Error]) -> None:
    # a bare `.type T`, as older programs have it, is a symbol
    bases = [catalog.types[target] for target in decl.targets] or ["symbol"]
    catalog.types[decl.name] = bases[0]
    for target, base in zip(decl.targets, bases, strict=False):
        if base != bases[0]:
            mixes = f"`{decl.targets[0]}` is {bases[0]} but `{target}` is {base}"
            message = f"the type `{decl.name}` mixes base types: {mixes}"
            hint = "a union is of types over one base type"
            errors.append(TypeMismatchError(message, decl.span, hint=hint))
            return
