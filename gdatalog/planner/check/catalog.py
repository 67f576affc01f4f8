"""The catalog of a program: its types and relations, and where each relation's arity comes from.

A relation exists if it has data (`known`), a `.decl`, a rule, a fact or an `.input`; the first of
these, in this order, fixes the number of its columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.decimals import DIGITS, WRITTEN_DECIMALS
from gdatalog.errors import NameResolutionError, Note, Span, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.parser.words import column_name
from gdatalog.planner.check import Schema
from gdatalog.planner.check.invalid import Cause
from gdatalog.planner.check.wording import count, did_you_mean
from gdatalog.records import dataclass, field
from gdatalog.values import TYPE_NAMES, TYPE_SYNONYMS, TypeName, type_texts

BASE_TYPES: dict[str, TypeName] = {
    **{name: name for name in TYPE_NAMES if name not in TYPE_SYNONYMS},
    "number": "int",
    "unsigned": "int",
    **WRITTEN_DECIMALS,
}
# Types that other languages have, and the nearest one here.
NEAREST: dict[str, TypeName] = {
    "object": "symbol",
    "time": "duration",
}


@dataclass(slots=True)
class CatalogRelation:
    name: str
    arity: int | None  # None: only a `.input` names the relation
    said: str  # what gave the arity: "is declared with", "has data with", "is defined with"
    span: Span | None
    schema: Schema | None = None  # of a declared or known relation
    broken: bool = False  # its declaration has an error, already reported
    declared: bool = False
    has_data: bool = False


@dataclass(slots=True)
class Declarations:
    relations: dict[str, CatalogRelation] = field(default_factory=dict)
    types: dict[str, TypeName] = field(default_factory=dict)
    directives: list[s.Directive] = field(default_factory=list)
    broken: Mapping[str, Cause] = field(default_factory=dict)
    decimals: bool = False  # whether there are decimals: in columns, or made by expressions


def show_schema(schema: Schema) -> str:
    """`E(src: int, dst: int)`."""
    types = type_texts(schema.types, schema.nullable)
    pairs = zip(schema.columns, types, strict=True)
    columns = (f"{column_name(name)}: {kind}" for name, kind in pairs)
    return f"{schema.name}({', '.join(columns)})"


def no_such_type(name: str, span: Span, catalog: Declarations) -> NameResolutionError:
    hidden = {*TYPE_SYNONYMS, *WRITTEN_DECIMALS}
    declared = (each for each in catalog.types if each not in hidden)
    hint = did_you_mean(name, declared) or did_you_mean(name, TYPE_SYNONYMS)
    if name in NEAREST:
        hint = f"the nearest type here is `{NEAREST[name]}`"
    if name.startswith(("decimal", "numeric")):
        hint = f"write decimal(p, s), with p digits, at most {DIGITS}, and s of them after the "
        hint += "point: decimal(12, 2)"
    types = ", ".join(TYPE_NAMES)
    return NameResolutionError(
        f"there is no type `{name}`",
        span,
        hint=hint or f"types are {types}, decimal(p, s), and those that you declare with `.type`",
    )


def no_such_relation(name: str, span: Span, catalog: Declarations) -> NameResolutionError:
    hint = did_you_mean(name, catalog.relations)
    stem, dot, ending = name.partition(".")
    if dot and ending in ("csv", "tsv", "facts", "parquet", "arrow", "json", "jsonl"):
        hint = f'this is the name of a file: `.input {stem}("{name}")`'
    if dot and ending == "dl":
        hint = f'this is the name of a file: `gdatalog {name}`, or `db.run_file("{name}")`'
    return NameResolutionError(
        f"there is no relation `{name}`",
        span,
        hint=hint or f"define `{name}` by a rule or facts, load it, or declare it with `.decl`",
    )


def arity_error(name: str, used: int, span: Span, relation: CatalogRelation) -> TypeMismatchError:
    """The error for a use whose number of arguments differs from the relation's columns; shows both
    places."""
    arity, schema = relation.arity or 0, relation.schema
    hint = "write `_` for a column that does not matter" if used < arity else None
    if schema is not None and used != schema.shown:
        schema, arity = schema.as_shown(), schema.shown
    elif schema is not None:
        hint = "rows have ids here, and rules and facts give none: `db.insert` adds rows with ids"
    said = f"`{name}` {relation.said} {count(arity, 'column')}"
    if schema is not None:
        said += f", `{show_schema(schema)}`"
    return TypeMismatchError(
        f"`{name}` has {count(used, 'argument')} here, but {count(arity, 'column')} there",
        span,
        hint=hint,
        notes=[Note(said, relation.span)],
    )
