"""The base type of each named type, and the errors of `.type`."""

from __future__ import annotations

from gdatalog.errors import Error, NameResolutionError, Note, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.planner.check.catalog import BASE_TYPES, Declarations, no_such_type
from gdatalog.planner.check.walk import reached
from gdatalog.values import TYPE_SYNONYMS


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
