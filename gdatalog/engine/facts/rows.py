"""Facts as rows of keys, and the rows that a stratum starts with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.decimals import scale_of
from gdatalog.engine.catalog.fact_list import Piece, number_of
from gdatalog.engine.derived import Derived, DistinctBlocks, Rows
from gdatalog.errors import Span, TypeMismatchError
from gdatalog.parser.syntax import Atom, Const, FactColumns, Null, Param
from gdatalog.storage.keys import encode_values
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.sorting import sort_rows
from gdatalog.values import NULL, TypeName, Value, constant_text, meant_as


def fact_rows(
    facts: Collection[Piece], types: Sequence[TypeName], nullable: Sequence[bool], scope: Scope
) -> Rows:
    """The rows of facts, in their order. `nullable`: which columns are; empty: none."""
    columns = []
    for at, kind in enumerate(types):
        null = bool(nullable) and nullable[at]
        parts = [
            encode_values(values, kind, scope.symbols)
            for values in _values(facts, at, kind, null, scope.params)
        ]
        columns.append(np.concatenate(parts))
    return tuple(columns), number_of(facts)


def _values(
    facts: Iterable[Piece], at: int, kind: TypeName, null: bool, params: Mapping[str, Value]
) -> Iterator[Sequence[Value | None]]:
    """The values of a column of facts, in their order."""
    flexible = kind == "date" or bool(scale_of(kind))
    for many, pieces in groupby(facts, lambda piece: isinstance(piece, FactColumns)):
        if many:
            for each in pieces:
                assert isinstance(each, FactColumns)
                column = each.columns[at]
                found = [_meant(kind, value) for value in column] if flexible else column
                if null and NULL in found:
                    raise _taken(kind, None)
                yield found
        else:
            args: list[Any] = [atom.args[at] for atom in pieces if isinstance(atom, Atom)]
            values = [_value(arg, params) for arg in args]
            if flexible:
                pairs = zip(args, values, strict=True)
                values = [
                    _meant(kind, value, arg.span) if getattr(arg, "type", kind) != kind else value
                    for arg, value in pairs
                ]
            if null and NULL in values:
                raise _taken(kind, args[values.index(NULL)].span)
            yield values


def _taken(kind: TypeName, span: Span | None) -> TypeMismatchError:
    """The error for a value of a column with nulls that has the key of one."""
    message = f"{constant_text(kind, NULL)} is the key of a null: no value that may be null "
    return TypeMismatchError(f"{message}can be that great", span)


def _meant(kind: TypeName, value: Value | None, span: Span | None = None) -> Value | None:
    found: Value | None = None if value is None else meant_as(kind, value)
    if found is None and value is not None:
        message = f"{getattr(value, 'text', value)} has other digits than {kind}"
        hint = f"round it to {scale_of(kind)} digits after the point, or declare more"
        raise TypeMismatchError(message, span, hint=hint)
    return found


def _value(arg: Const | Null | Param, params: Mapping[str, Value]) -> Value | None:
    if isinstance(arg, Null):
        return None
    return arg.value if isinstance(arg, Const) else params[arg.name]


def in_rows(seeds: Sequence[Derived]) -> list[Derived]:
    """Sorts each set of rows and drops duplicates; rows on a cluster's workers stay unsorted."""
    found: list[Derived] = []
    for part in seeds:
        if isinstance(part, DistinctBlocks):
            found.append(part)
            continue
        keys, count = part
        here = all(map(is_on_host, keys))  # on a device they are sorted
        rows = sort_rows(keys) if keys and here else keys
        found.append((rows, len(rows[0]) if rows else min(1, count)))
    return found
