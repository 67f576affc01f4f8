"""Values and literals: which of the two it is that was read.

The grammar reads literals as expressions. A group `(...)` and a run of signs are kept as they
were read (`Parenthesised`, `Signed`) until it is known which of the two stands there.
"""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser.syntax import (
    And,
    Atom,
    Cast,
    Compare,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Or,
    Test,
    Var,
)
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Parenthesised:
    """`( ... )`: its content, and the place with the parentheses."""

    inner: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Named:
    """`column = value`, among the arguments of a head."""

    column: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Signed:
    """Signs before a value: `- - x`, `bnot x`."""

    signs: tuple[Token, ...]
    operand: Any


_SYMBOLS = frozenset("+-*/%^")
_LITERALS = (Atom, Compare, Member, Test, Not, And, Or)


def value(read: Any) -> Expr:
    """What was read, where a value must stand."""
    while type(read) is Parenthesised:
        read = read.inner
    kind = type(read)
    if kind is Var:
        if "." in read.name or "'" in read.name:
            raise ParseError(
                f"`{read.name}` cannot be a variable",
                read.span,
                hint="only a relation's name may hold a dot or end in a prime; "
                "put a space after a dot that ends a statement",
            )
    elif kind is FunctionCall:
        if read.columns:
            raise ParseError(
                "the arguments of a function have no names",
                read.columns[0].span,
                hint="columns are named in the head of a rule: p(x, total = sum(y)) <- ...",
            )
        if read.name == "autoinc" and not read.args:
            raise ParseError(
                "autoinc() is not in the language",
                read.span,
                hint="number the rows in the data, before they are loaded",
            )
    elif kind in _LITERALS:
        raise ParseError("a condition stands where a value is expected", read.span)
    return read  # type: ignore[no-any-return]


def arguments(read: list[Any]) -> tuple[tuple[Expr, ...], tuple[Var, ...]]:
    """The arguments of a call, and the names of the last of them, if they have names."""
    if Named not in map(type, read):
        return tuple([value(part) for part in read]), ()
    named = [part for part in read if type(part) is Named]
    for part in read[len(read) - len(named) :]:
        if type(part) is not Named:
            raise ParseError(
                "an argument without a name stands behind one that has a name",
                part.span,
                hint="arguments by their place come first, then those with names",
            )
    places = [value(part) for part in read[: len(read) - len(named)]]
    return (*places, *(part.value for part in named)), tuple(part.column for part in named)


def literal(read: Any) -> Literal:
    """What was read, where a literal must stand."""
    while type(read) is Parenthesised:
        read = read.inner
    kind = type(read)
    if kind is FunctionCall:
        if read.name in _SYMBOLS:
            return Test(read, read.span)
        return Atom(read.name, read.args, read.span, read.columns)
    if kind in _LITERALS:
        return read  # type: ignore[no-any-return]
    if kind is Cast:
        name = Var(read.type_name, Span(read.span.source, read.span.end, read.span.end))
        return Atom("as", (read.operand, name), read.span)
    return Test(read, read.span)
