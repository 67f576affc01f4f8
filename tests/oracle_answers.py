"""Orders and limits of answers for the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdatalog.parser.syntax import Const, Param, Query, Var
from tests.oracle_values import nulls_last


def in_order(
    query: Query, columns: Sequence[str], rows: Iterable[tuple[Any, ...]], params: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """The rows that a query asks for. Relations without names of columns have c0, c1, ..."""
    # ties are broken by the columns from the left
    found = sorted(rows, key=lambda row: tuple(map(nulls_last, row)))
    ordering = query.ordering
    if ordering is None:
        return found
    for word, key in reversed(ordering.rest):
        name = key.name if isinstance(key, Var) else key.value
        at = columns.index(name) if columns else int(name[1:])
        there = [row for row in found if row[at] is not None]
        there.sort(key=lambda row: row[at], reverse=word == "desc")
        found = there + [row for row in found if row[at] is None]
    start, count = (_number(bound, params) for bound in (ordering.offset, ordering.limit))
    return found[start or 0 :][:count]


def _number(bound: Const | Param | None, params: Mapping[str, Any]) -> Any:
    if bound is None:
        return None
    return params[bound.name] if isinstance(bound, Param) else bound.value
