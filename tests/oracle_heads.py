"""Heads of rules for the oracle: columns by name, aggregates, groups; what bodies read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from gdatalog.errors import Span
from gdatalog.parser.syntax import Atom, Cast, Expr, FunctionCall, Null, Var, Wildcard, Window
from tests.oracle_normal import Gen, Neg, Opt, names

ORDERED = {
    *("row_number", "rank", "dense_rank", "lag", "lead", "running_sum"),
    *("top", "arg_max", "arg_min", "string_agg"),
    *("median", "quantile", "stddev", "var", "mode", "corr"),
}
AGGREGATES = {"count", "sum", "min", "max", "mean", "count_distinct", "any_value"}


def by_place(head: Atom, columns: dict[str, list[str]], other: Expr = Null()) -> Atom:  # noqa: B008
    """A head with its arguments in the order of its relation's columns: those of its first head,
    where no declaration says it. `other`: what stands for those that it leaves out."""
    places = len(head.args) - len(head.columns)
    named = dict(zip([column.name for column in head.columns], head.args[places:], strict=True))
    if head.name not in columns:
        by_place = [arg.name if isinstance(arg, Var) else "" for arg in head.args[:places]]
        columns[head.name] = [*by_place, *named]
    rest = columns[head.name][places:] if named else []
    args = (*head.args[:places], *(named.get(name, other) for name in rest))
    return Atom(head.name, args, head.span)


def all_by_place(node: Any, columns: dict[str, list[str]]) -> Any:
    """The node, whose atoms name no columns."""
    if isinstance(node, tuple):
        return tuple(all_by_place(part, columns) for part in node)
    if not is_dataclass(node) or isinstance(node, type | Span):
        return node
    if isinstance(node, Atom) and node.columns:
        node = by_place(node, columns, Wildcard())
    parts = {part.name: all_by_place(getattr(node, part.name), columns) for part in fields(node)}
    return replace(node, **parts)


def reads(body: Any, strictly: bool) -> set[str]:
    """The relations that a body reads; `strictly`: in negations and aggregates only."""
    found: set[str] = set()
    for branch in body:
        for item in branch:
            if isinstance(item, Atom) and not strictly:
                found.add(item.name)
            elif isinstance(item, (Neg, Opt, Gen)):
                found |= reads(item.body, False)
    return found


def is_aggregate(expr: Expr) -> bool:
    """Whether a head's argument is an aggregate: `min` of two is a function."""
    if isinstance(expr, FunctionCall | Window) and expr.name in ORDERED:
        return True
    if not isinstance(expr, FunctionCall) or expr.name not in AGGREGATES:
        return False
    return expr.name not in ("min", "max") or len(expr.args) == 1


def head_aggregates(expr: Expr) -> list[FunctionCall | Window]:
    if isinstance(expr, Cast):
        return head_aggregates(expr.operand)
    if is_aggregate(expr):
        return [expr]
    if not isinstance(expr, FunctionCall):
        return []
    return [found for arg in expr.args for found in head_aggregates(arg)]


def group_terms(head: Atom) -> Iterator[Expr]:
    """The terms whose values are the group: those without an aggregate, and the variables beside
    one. A term without variables is the same for all, and makes no group."""
    for arg in head.args:
        if head_aggregates(arg):
            yield from map(Var, sorted(_names_outside(arg)))
        elif names(arg):
            yield arg


def _names_outside(expr: Expr) -> set[str]:
    """The variables of a head's argument that are outside of its aggregates."""
    if is_aggregate(expr):
        return set()
    if isinstance(expr, FunctionCall):
        return set().union(*(_names_outside(arg) for arg in expr.args), set())
    return names(expr)
