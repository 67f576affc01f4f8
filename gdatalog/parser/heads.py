"""Statements: whether one without an arrow is a fact or a query, and what may be a head."""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser.sorting import literal
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Chain,
    Compare,
    Expr,
    FunctionCall,
    Literal,
    Not,
    Or,
    Query,
    Rule,
    Statement,
    Test,
    Var,
    Wildcard,
)
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Lone:
    """A statement without an arrow: facts, or a bare body."""

    body: Any
    span: Span


def statement(read: Lone | Statement, bare: bool) -> Statement:
    """A statement as read; one without an arrow is a fact or, where `bare`, a query."""
    if not isinstance(read, Lone):
        return read
    if not bare:
        return Rule(_facts(heads(read.body, None)), None, read.span)
    body = literal(read.body)
    items = body.items if isinstance(body, And) else (body,)
    if all(isinstance(item, Atom) and all(map(_ground, item.args)) for item in items):
        facts = tuple(item for item in items if isinstance(item, Atom))
        return Rule(_facts(facts), None, read.span)
    return Query(body, read.span, bare=True)


def _facts(atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    for atom in atoms:
        if atom.columns:
            raise ParseError(
                "a fact names no columns",
                atom.columns[0].span,
                hint="give the values in the order of the columns: e(1, 2)",
            )
    return atoms


def heads(read: Any, arrow: Token | None) -> tuple[Atom, ...]:
    """The atoms before an arrow, or the facts where there is none."""
    found = literal(read)
    items = found.items if isinstance(found, And) else (found,)
    atoms = []
    for item in items:
        if not isinstance(item, Atom):
            raise _no_head(item, arrow)
        atoms.append(item)
    return tuple(atoms)


def _no_head(item: Literal, arrow: Token | None) -> ParseError:
    span = item.span
    ahead = span.source.text[max(0, span.start - 2) : span.start]
    if len(ahead) == 2 and ahead[0].isdigit() and ahead[1] == ".":
        hint = f"`{ahead}` is {ahead[0]} and the end of a statement: write {ahead}0"
        return ParseError("a statement cannot begin like this", span, hint=hint)
    if isinstance(item, Test) and isinstance(item.expr, Var):
        name = item.expr.name
        hint = f"a proposition is written with parentheses: `{name}()`"
        if arrow is None:
            hint += f"; to see a relation, ask `?- {name}.`"
        elif span.source.text[arrow.end : arrow.end + 1].isalnum():
            hint += f"; for a comparison write `{name} < -...`, with a space after the `<`"
        return ParseError(f"`{name}` has no arguments", span, hint=hint)
    if isinstance(item, Compare) and len(item.rest) == 1 and item.rest[0][0] == "<=":
        calls = isinstance(item.first, FunctionCall) and isinstance(item.rest[0][1], FunctionCall)
        if calls and arrow is not None:
            hint = "keep the best value per group with min(...) or max(...) in the head"
            return ParseError("subsumption is not in the language", span, hint=hint)
        if calls:
            hint = "the arrow of a rule is `<-`"
            return ParseError("a comparison cannot be a fact", span, hint=hint)
    if isinstance(item, Or):
        hint = "several heads are separated by commas"
    elif isinstance(item, Not):
        hint = "neither a head nor a fact can be negated"
    elif arrow is None:
        hint = "to ask whether it holds, begin with `?-`"
    else:
        hint = "conditions stand after the arrow"
    if arrow is None:
        return ParseError("a fact must be an atom, as in e(1, 2)", span, hint=hint)
    return ParseError("a head must be an atom, as in p(x, y)", span, hint=hint)


def _ground(node: Expr) -> bool:
    """Whether no variable, `_` or aggregate is in it."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, (Var, Wildcard, Aggregate)):
            return False
        if isinstance(part, FunctionCall):
            todo.extend(part.args)
        elif isinstance(part, Chain):
            todo += (part.first, *(operand for _, operand in part.rest))
        elif isinstance(part, Cast):
            todo.append(part.operand)
    return True
