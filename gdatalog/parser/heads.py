"""Decides what parsed nodes are: a fact or a query, a value or a literal; and checks heads."""

from __future__ import annotations

from typing import Any

from gdatalog.errors import ParseError, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass


def statement(read: Any, bare: bool) -> s.Statement:
    """Converts a parsed statement. A body alone is a fact or, if `bare`, a query."""
    if isinstance(read, s.Statement):
        return read
    span = read.span
    if not bare:
        return s.Rule(_facts(heads(read, None)), None, span)
    body = literal(read)
    items = body.items if isinstance(body, s.And) else (body,)
    if all(isinstance(item, s.Atom) and all(map(_ground, item.args)) for item in items):
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
        if isinstance(part, (s.Var, s.Wildcard, s.Aggregate)):
            return False
        if isinstance(part, s.FunctionCall):
            todo.extend(part.args)
        elif isinstance(part, s.Chain):
            todo += (part.first, *(operand for _, operand in part.rest))
        elif isinstance(part, s.Cast):
            todo.append(part.operand)
    return True


# Conversion to values and literals.
#
# The grammar parses literals as expressions. A group `(...)` and a run of signs stay as read
# (`Parenthesised`, `Signed`) until the context decides between the two.


@dataclass(frozen=True, slots=True)
class Parenthesised:
    """`( ... )`: its content, and its span with the parentheses."""

    inner: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Named:
    """`column = value`, an argument of a head."""

    column: s.Var
    value: s.Expr


@dataclass(frozen=True, slots=True)
class Signed:
    """Signs before a value: `- - x`, `bnot x`."""

    signs: tuple[Token, ...]
    operand: Any


_SYMBOLS = frozenset("+-*/%^")
_LITERALS = (s.Atom, s.Compare, s.Member, s.Test, s.Not, s.And, s.Or)


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
            message = "the arguments of a function have no names"
            hint = "columns are named in the head of a rule: p(x, total = sum(y)) <- ..."
            raise ParseError(message, read.columns[0].span, hint=hint)
        if read.name == "autoinc" and not read.args:
            hint = "number the rows in the data, before they are loaded"
            raise ParseError("autoinc() is not in the language", read.span, hint=hint)
    elif kind in _LITERALS:
        raise ParseError("expected a value, found a condition", read.span)
    return read  # type: ignore[no-any-return]  # what remains is a node


def arguments(read: list[Any]) -> tuple[tuple[s.Expr, ...], tuple[s.Var, ...]]:
    """The arguments of a call, and the column names of the last of them, if any."""
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
