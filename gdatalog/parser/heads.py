"""Decides what parsed nodes are: a fact or a query, a value or a literal; and checks heads."""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError
from gdatalog.parser import syntax as s
from gdatalog.parser.conversions import literal
from gdatalog.parser.tokens import Token


def statement(read: Any, bare: bool) -> s.Statement:
    """Converts a parsed statement. A body alone is a fact or, if `bare`, a query; a fact names no
    columns, so an atom that does asks."""
    if isinstance(read, s.Query) and read.bare and not bare:
        hint = "begin with `?-`: only the answer of a query has an order"
        raise ParseError("this is not a query", read.span, hint=hint)
    if isinstance(read, s.Statement):
        return read
    span = read.span
    if not bare:
        return s.Rule(_facts(heads(read, None)), None, span)
    body = literal(read)
    items = body.items if isinstance(body, s.And) else (body,)
    if all(
        isinstance(item, s.Atom) and not item.columns and all(map(_ground, item.args))
        for item in items
    ):
        facts = tuple([item for item in items if isinstance(item, s.Atom)])
        return s.Rule(_facts(facts), None, span)
    return s.Query(body, span, bare=True)


def _facts(atoms: tuple[s.Atom, ...]) -> tuple[s.Atom, ...]:
    for atom in atoms:
        if atom.columns:
            hint = "give the values in the order of the columns: e(1, 2)"
            raise ParseError("a fact names no columns", atom.columns[0].span, hint=hint)
    return atoms


def heads(read: Any, arrow: Token | None) -> tuple[s.Atom, ...]:
    """The atoms before an arrow, or of facts."""
    found = literal(read)
    items = found.items if isinstance(found, s.And) else (found,)
    atoms = []
    for item in items:
        if not isinstance(item, s.Atom):
            raise _no_head(item, arrow)
        atoms.append(item)
    return tuple(atoms)


def _no_head(item: s.Literal, arrow: Token | None) -> ParseError:
    span = item.span
    ahead = span.source.text[max(0, span.start - 2) : span.start]
    if len(ahead) == 2 and ahead[0].isdigit() and ahead[1] == ".":
        hint = f"`{ahead}` is {ahead[0]} and the end of a statement: write {ahead}0"
        return ParseError("a statement cannot begin like this", span, hint=hint)
    if isinstance(item, s.Test) and isinstance(item.expr, s.Var):
        name = item.expr.name
        hint = f"a proposition is written with parentheses: `{name}()`"
        if arrow is None:
            hint += f"; to see a relation, ask `?- {name}.`"
        elif span.source.text[arrow.end : arrow.end + 1].isalnum():
            hint += f"; for a comparison write `{name} < -...`, with a space after the `<`"
        return ParseError(f"`{name}` has no arguments", span, hint=hint)
    match item:
        case s.Compare(s.FunctionCall(), (("<=", s.FunctionCall()),)) if arrow is not None:
            hint = "keep the best value per group with min(...) or max(...) in the head"
            return ParseError("subsumption is not in the language", span, hint=hint)
        case s.Compare(s.FunctionCall(), (("<=", s.FunctionCall()),)):
            hint = "the arrow of a rule is `<-`"
            return ParseError("a comparison cannot be a fact", span, hint=hint)
    if isinstance(item, s.Or):
        hint = "several heads are separated by commas"
    elif isinstance(item, s.Not):
        hint = "neither a head nor a fact can be negated"
    elif arrow is None:
        hint = "to ask whether it holds, begin with `?-`"
    else:
        hint = "write conditions after the arrow"
    if arrow is None:
        return ParseError("a fact must be an atom, as in e(1, 2)", span, hint=hint)
    return ParseError("a head must be an atom, as in p(x, y)", span, hint=hint)


def _ground(node: s.Expr) -> bool:
    """Whether the expression contains no variable, `_` or aggregate."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, (s.Var, s.Wildcard, s.Aggregate, s.Window)):
            return False
        if isinstance(part, s.FunctionCall):
            todo.extend(part.args)
        elif isinstance(part, s.Chain):
            todo += (part.first, *(operand for _, operand in part.rest))
        elif isinstance(part, s.Cast):
            todo.append(part.operand)
    return True
