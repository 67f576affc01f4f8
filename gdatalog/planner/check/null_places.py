"""Errors for a `null` where only a value makes sense."""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.errors import NameResolutionError
from gdatalog.parser import syntax as s
from gdatalog.parser.words import TEST_NULL
from gdatalog.planner.check import Schema
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.walk import Node, children, walk

# Functions that are not null where an argument is, and comparisons in conditions.
_TAKE_NULLS = frozenset({"coalesce", "if", "case", "=", "!="})
_COALESCE = "`coalesce(x, 0)` is x, or 0 where x is null"


def misplaced_nulls(node: Node, catalog: Declarations) -> Iterator[NameResolutionError]:
    """The errors of a literal or an expression, whose names are not resolved yet."""
    for part in walk(node):
        if isinstance(part, s.Atom) and part.name in catalog.relations:
            schema = catalog.relations[part.name].schema
            if schema is not None:
                yield from _of_columns(part, schema)
        else:
            for places, message, hint in _closed_to_nulls(part):
                for each in places:
                    if isinstance(each, s.Null):
                        yield NameResolutionError(message, each.span, hint=hint)


def _of_columns(atom: s.Atom, schema: Schema) -> Iterator[NameResolutionError]:
    for at, arg in enumerate(atom.args[: schema.arity] if not atom.columns else ()):
        if isinstance(arg, s.Null) and not (schema.nullable and schema.nullable[at]):
            column = schema.columns[at]
            message = f"the column `{column}` of `{atom.name}` has no nulls"
            hint = f"`{column}: {schema.types[at]}?` in a `.decl` lets it have some"
            yield NameResolutionError(message, arg.span, hint=hint)


def _closed_to_nulls(part: Node) -> Iterator[tuple[list[Node], str, str]]:
    """Places below a node that must not be null, and what to say there."""
    match part:
        case s.Atom(("distinct" | "match" | "contains" | "starts_with") as name):
            yield children(part), f"`{name}` does not hold for a null", TEST_NULL
        case s.FunctionCall(name) if name not in _TAKE_NULLS:
            yield children(part), f"`{name}` of a null is null", _COALESCE
        case s.Chain():
            yield children(part), "an operation on a null is null", _COALESCE
        case s.Member():
            yield children(part), "`in` does not hold for a null", TEST_NULL
        case s.Compare():
            for left, op, right in neighbours(part):
                if op not in ("=", "!="):
                    yield [left, right], f"`{op}` does not hold for a null", TEST_NULL
