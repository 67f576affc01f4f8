"""The errors of a missing operand."""

from __future__ import annotations

import re

from gdatalog.errors import ParseError
from gdatalog.parser.failure import ENDS, Failure, mistake
from gdatalog.parser.tokens import Token

_OPERATORS = frozenset({"OPERATOR", "SIGN", "COMPARE", "EQUAL", "NOT", "IN"})


def missing_operand(failure: Failure) -> ParseError | None:
    """The error for a missing operand before the token at which parsing failed."""
    token, before = failure.token, failure.before
    if before is None:
        return _beginning(failure.tokens[0])
    if before.type in ENDS:
        return None
    kind, text = before.type, before.text
    if kind == "IN":
        hint = "as in x in {1, 2, 3}"
        if token and token.text == "range":
            hint = "write x = range(0, 10)"
        elif token and token.type == "NAME":
            hint += f"; membership in a relation is an atom: {token.text}(x)"
        return mistake("`in` is followed by a set in braces", failure.span, hint)
    if kind == "LPAR" and token and token.type == "RPAR":
        span = before.span.to(token.span)
        return mistake("there is nothing between these parentheses", span)
    if kind == "LBRACE" and token and token.type == "RBRACE":
        return mistake("there is nothing between these braces", before.span.to(token.span))
    if token and token.type == "COMMA":
        what = "an argument" if failure.innermost == "call" else "something"
        return mistake(f"{what} is missing before this comma", token.span)
    if kind == "COMMA":
        closes = token is None or token.type in ("RPAR", "RBRACE")
        advice = "take the comma out, or go on after it" if closes else None
        return mistake("something is missing after this comma", before.span, advice)
    if kind == "ARROW":
        advice = "a fact has no arrow: p(1)." if token is None else None
        return mistake("the body is missing after the arrow", before.span, advice)
    if kind == "QUERY":
        return mistake("a question needs a body", before.span, "as in ?- tr(1, y), y < 3.")
    if kind == "SEMICOLON":
        hint = "`;` is or; a statement ends with a dot" if token is None else "`;` is or"
        return mistake("an alternative is missing after `;`", before.span, hint)
    if kind in _OPERATORS:
        what = "a literal" if kind == "NOT" else "a value"
        return mistake(f"{what} is missing after `{text}`", before.span)
    return None


def _beginning(token: Token) -> ParseError:
    """The error for an invalid first token of a statement."""
    hint = "a statement is a fact p(1), a rule p(x) <- q(x), a question ?- p(x), or a .directive"
    ahead = re.search(
        r"([0-9]+)\.[ \t]*$", token.source.text[max(0, token.start - 30) : token.start]
    )
    if ahead is not None:
        hint = f"`{ahead[1]}.` is {ahead[1]} and the end of a statement: write {ahead[1]}.0"
    return mistake(f"a statement cannot begin with `{token.text}`", token.span, hint)
