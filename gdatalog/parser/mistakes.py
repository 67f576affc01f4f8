"""Explains syntax errors by example.

The parser reports the token at which it stopped. `explain` looks at that token and its neighbours
and recognises common mistakes; each family of mistakes has a function, the most specific first.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.errors import ParseError
from gdatalog.parser.aggregate_mistakes import misplaced_colon
from gdatalog.parser.directive_mistakes import directive_mistake
from gdatalog.parser.failure import Explained, Failure, brackets, mistake
from gdatalog.parser.missing_dots import second_arrow, side_by_side
from gdatalog.parser.missing_operands import missing_operand
from gdatalog.parser.sql_mistakes import sql, sql_star


def explain(failure: Failure) -> Explained:
    """The error for a statement that failed to parse."""
    for family in _FAMILIES:
        found = family(failure)
        if found is not None:
            return found if isinstance(found, tuple) else (found, None)
    token = failure.token
    if token is None:
        return mistake("the statement is not complete", failure.span), None
    return mistake(f"`{token.text}` does not belong here", token.span), None


def _misplaced(failure: Failure) -> ParseError | None:
    token = failure.token
    if token is None:
        return None
    where = failure.innermost
    if token.type in ("COMPARE", "EQUAL", "IN", "NOT") and where == "call":
        hint = "compare beside the atom: R(x, y), x < y"
        return mistake("an argument is a value, not a condition", token.span, hint)
    if token.type == "SEMICOLON" and where == "call":
        return mistake("arguments are separated by commas", token.span)
    if token.type == "VBAR":
        return mistake("`|` is only allowed in .type", token.span, "or is `;`")
    if token.type == "SUBTYPE":
        return mistake("`<:` is only allowed in .type", token.span)
    if token.type in ("ARROW", "QUERY"):
        message = f"`{token.text}` does not belong inside parentheses" if where else (
            f"`{token.text}` does not belong here")  # fmt: skip
        return mistake(message, token.span)
    return None


_FAMILIES: tuple[Callable[[Failure], Explained | ParseError | None], ...] = (
    lambda failure: sql(failure.tokens),
    directive_mistake,
    brackets,
    second_arrow,
    misplaced_colon,
    side_by_side,
    _misplaced,
    sql_star,
    missing_operand,
)
