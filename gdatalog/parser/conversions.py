"""Conversion of parsed heads and terms to values and literals.

The grammar parses literals as expressions. A group `(...)` and a run of signs stay as read
(`Parenthesised`, `Signed`) until the context decides between the two.
"""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Parenthesised:
    """`( ... )`: its content, and its span with the parentheses."""

    inner: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Named:
    """`column = value`, an argument of an atom or a head."""

    column: s.Var
    value: s.Expr


@dataclass(frozen=True, slots=True)
class Signed:
    """Signs before a value: `- - x`, `bnot x`."""

    signs: tuple[Token, ...]
    operand: Any


_SYMBOLS = frozenset("+-*/%^")
_LITERALS = (s.Atom, s.Compare, s.Member, s.Test, s.Not, s.Optional, s.And, s.Or)


def value(read: Any) -> s.Expr:
    """Converts a parsed node to a value; raises if it is a literal."""
    while type(read) is Parenthesised:
        read = read.inner
    kind = type(read)
    if kind is s.Var:
        if "." in read.name or "'" in read.name:
            raise ParseError(
                f"`{read.name}` cannot be a variable",
                read.span,
                hint="only a relation's name may hold a dot or end in a prime; "
                "put a space after a dot that ends a statement",
            )
    elif kind is s.FunctionCall:
        if read.columns:
            hint = "columns are named in atoms and heads: p(x, total = sum(y)) <- R(id = x, n = y)."
            message = "the arguments of a function have no names"
            raise ParseError(message, read.columns[0].span, hint=hint)
        if read.name == "autoinc" and not read.args:
            hint = "number the rows in the data, before they are loaded"
            raise ParseError("autoinc() is not in the language", read.span, hint=hint)
    elif kind in _LITERALS:
        raise ParseError("expected a value, found a condition", read.span)
    return read  # type: ignore[no-any-return]  # what remains is a node


def arguments(read: list[Any]) -> tuple[tuple[s.Expr, ...], tuple[s.Var, ...]]:
    """The arguments of a call, and the column names of the last of them, if any."""
    for part in read:
        if type(part) in (s.Compare, s.Member, s.Not):
            hint = "compare beside the atom: R(x, y), x < y; if(x < y, x, y) takes a condition"
            raise ParseError("an argument is a value, not a condition", part.span, hint=hint)
    if Named not in map(type, read):
        return tuple([value(part) for part in read]), ()
    named = [part for part in read if type(part) is Named]
    for part in read[len(read) - len(named) :]:
        if type(part) is not Named:
            message = "an argument without a name follows one with a name"
            hint = "arguments by their place come first, then those with names"
            raise ParseError(message, part.span, hint=hint)
    places = [value(part) for part in read[: len(read) - len(named)]]
    return (*places, *(part.value for part in named)), tuple([part.column for part in named])


def conditions(read: list[Any]) -> list[Any]:
    """The arguments of a call of `if` or `case`; those that are conditions become values.

    `x = 3` is one, too, before an argument without a name; a relation's names come last.
    """
    last = max((at for at, part in enumerate(read) if type(part) is not Named), default=-1)
    return [
        _condition(part)
        if at % 2 == 0
        and at < last
        and type(part) in (Named, Parenthesised, s.Compare, s.Member, s.Not)
        else part
        for at, part in enumerate(read)
    ]


def _condition(read: Any) -> s.Expr:
    """A condition as a value: comparisons, and `!`, `,` and `;` of conditions."""
    if type(read) is Named:
        span = read.column.span.to(read.value.span)
        left: s.Expr = read.column
        if read.column.span.text.startswith('"'):
            left = s.Const("symbol", read.column.name, read.column.span)
        return s.FunctionCall("=", (left, read.value), span)
    found = read if type(read) is s.FunctionCall else literal(read)
    match found:
        case s.Compare(first, rest) if not isinstance(rest[0][1], s.Values):
            parts: list[s.Expr] = []
            for op, right in rest:
                span = first.span.to(right.span)
                parts.append(s.FunctionCall(op, (first, right), span))
                first = right
            return _together("land", parts)
        case s.Member(item, values) if not isinstance(values[0], s.ListParam):
            listed: list[s.Expr] = []
            for each in values:
                listed += each.constants() if isinstance(each, s.Values) else [each]
            equal = [s.FunctionCall("=", (item, each), item.span.to(each.span)) for each in listed]
            return _together("lor", list(equal))
        case s.And(items):
            return _together("land", list(map(_condition, items)))
        case s.Or(items):
            return _together("lor", list(map(_condition, items)))
        case s.Not(body):
            return s.FunctionCall("lnot", (_condition(body),), found.span)
        case s.Test(expr):
            return expr
        case s.Atom(name, args, span, ()):
            return s.FunctionCall(name, args, span)
    hint = "comparisons and functions, with `!`, and with `,` and `;` in parentheses"
    raise ParseError("this is no condition of `if` or `case`", found.span, hint=hint)


def _together(name: str, parts: list[s.Expr]) -> s.Expr:
    found = parts[0]
    for part in parts[1:]:
        found = s.FunctionCall(name, (found, part), found.span.to(part.span))
    return found


def literal(read: Any) -> s.Literal:
    """Converts a parsed node to a literal; raises if it is a value."""
    while type(read) is Parenthesised:
        read = read.inner
    kind = type(read)
    if kind is s.FunctionCall:
        if read.name in _SYMBOLS:
            return s.Test(read, read.span)
        return s.Atom(read.name, read.args, read.span, read.columns)
    if kind in _LITERALS:
        return read  # type: ignore[no-any-return]  # what remains is a node
    if kind is s.Cast:
        name = s.Var(read.type_name, Span(read.span.source, read.span.end, read.span.end))
        return s.Atom("as", (read.operand, name), read.span)
    return s.Test(read, read.span)
