"""Explains syntax errors by example.

The parser reports the token at which it stopped. `explain` looks at that token and its neighbours
and recognises common mistakes; each family of mistakes has a function, the most specific first.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gdatalog.errors import ParseError, Span
from gdatalog.parser.directive_mistakes import directive_mistake
from gdatalog.parser.failure import (
    ENDS,
    Explained,
    Failure,
    brackets,
    missing_dot,
    mistake,
    new_line,
)
from gdatalog.parser.sql_mistakes import sql, sql_star, sql_word
from gdatalog.parser.tokens import VALUES, Token
from gdatalog.parser.words import AGGREGATES, TEST_NULL


def capital_aggregate(word: str) -> bool:
    return word.lower() in AGGREGATES and word not in AGGREGATES


def lower_case(token: Token) -> ParseError:
    return mistake(
        f"`{token.value}` is no word of the language", token.span, f"write `{token.value.lower()}`"
    )


def misplaced_colon(failure: Failure) -> ParseError | None:
    token, before = failure.token, failure.before
    earlier = failure.tokens[failure.at - 2] if failure.at > 1 else None
    value = before and before.type in VALUES and earlier and earlier.type == "COLON"
    if value or (before and before.type == "COLON"):
        message = "an aggregate's colon is followed by an atom, or a body in braces"
        return mistake(message, failure.span, "as in n = count : { R(x), x > 3 }")
    if token is None or token.type != "COLON":
        return None
    if before and before.type == "NAME":
        if capital_aggregate(before.value):
            return lower_case(before)
        if before.value in AGGREGATES:
            hint = f"as in {before.value} x : {{ R(x) }}"
            return mistake(f"{before.value} needs an expression before its colon", token.span, hint)
    call = failure.tokens[failure.at - 3] if failure.at > 2 else None
    if call is not None and call.value in AGGREGATES and earlier and earlier.type == "LPAR":
        kind, what = call.value, before.text if before else "x"
        hint = f"an aggregate has no parentheses in a body: {kind} {what} : {{ R({what}) }}"
        return mistake("a colon does not belong here", token.span, hint)
    hint = "the arrow of a rule is `:-` or `<-`; declare types with .decl R(x: int)"
    return mistake("a colon does not belong here", token.span, hint)


def second_arrow(failure: Failure) -> Explained | ParseError | None:
    token = failure.token
    if token is None or token.type != "ARROW":
        return None
    if failure.at == 0:
        hint = "a rule is head <- body; a question begins with `?-`"
        return mistake("the head of the rule is missing before the arrow", token.span, hint)
    if failure.innermost is not None:
        return None
    arrows = [t for t in failure.tokens[: failure.at] if t.type in ("ARROW", "QUERY")]
    if not arrows:
        return None
    start = _head_before(failure)
    if start is None:
        return mistake("a statement has one arrow", token.span, "is a dot missing before it?")
    head = Span(token.source, start, failure.tokens[failure.at - 1].end)
    hint = f"is a dot missing before `{head.text}`?"
    return mistake("a statement has one arrow, and this is the second", token.span, hint), start


def _head_before(failure: Failure) -> int | None:
    """The start of the atom directly before the failure."""
    depth = 0
    for at in range(failure.at - 1, -1, -1):
        token = failure.tokens[at]
        if token.type == "RPAR":
            depth += 1
        elif token.type == "LPAR":
            depth -= 1
        elif depth == 0:
            return token.start if token.type == "NAME" else None
    return None


def side_by_side(failure: Failure) -> Explained | ParseError | None:
    """The error for two operands without a comma, an operator or a dot between them."""
    token, before = failure.token, failure.before
    if token is None or before is None or before.type not in ENDS:
        return None
    if token.type == "NOT" and failure.after and failure.after.text == "in":
        return mistake("`not in` is written with `!` before", token.span, "write `!x in {1, 2}`")
    if token.type not in VALUES | {"NOT", "QUERY", "AGGREGATE", "LPAR", "LBRACE", "SIGN"}:
        return None
    word = token.value if token.type == "NAME" else ""
    lower = word.lower()
    if before.type == "NAME" and before.value.lower() == "not":
        return mistake(
            f"`{before.value}` is no word of the language", before.span, "write `!` or `not`"
        )
    if lower == "is" and failure.after and failure.after.text.lower() in ("not", "null"):
        return mistake("`is` is no operator", token.span, TEST_NULL)
    if lower in _WORDS:
        return mistake(f"`{word}` is no operator", token.span, _WORDS[lower])
    if token.start == before.end and '"' in (before.text[-1:], token.text[:1]):
        hint = 'a comma is missing between them, or: a quote inside a string is written `\\"`'
        return mistake(f"`{token.text}` cannot follow `{before.text}` here", token.span, hint)
    if lower != word and lower in _LOWER:
        return lower_case(token)
    foreign = sql_word(before, token)
    if foreign is not None:
        return foreign
    if before.type == "NAME" and before.value in AGGREGATES and token.type in VALUES:
        message = f"the aggregate `{before.value}` needs a colon and a body after its expression"
        hint = f"as in {before.value} {token.text} : {{ R({token.text}) }}"
        return mistake(message, before.span.to(token.span), hint)
    if before.type == "NAME" and capital_aggregate(before.value):
        rest = failure.tokens[failure.at :]
        if any(t.type == "COLON" for t in rest):
            return lower_case(before)
    if token.type == "LPAR":
        if before.type in ("WILDCARD", "BOOL", "NULL") or before.text == "inf":
            hint = "true, false, not, inf, null, nil and _ are reserved"
            return mistake(f"`{before.text}` cannot name a relation", before.span, hint)
        if not new_line(before, token):
            hint = "a comma or an operator is missing before it"
            return mistake(f"`(` cannot follow `{before.text}` here", token.span, hint)
    if token.type == "LBRACE" and not new_line(before, token):
        return mistake(
            "braces do not belong here",
            token.span,
            "they follow `in`, as in x in {1, 2}, and after an aggregate's colon, "
            "as in n = count : { R(x) }",
        )
    if token.type == "QUERY" or new_line(before, token):
        hint = f"`{token.text}` cannot go on with the statement; put a dot before it, or a comma"
        return missing_dot(Span(before.source, before.end, before.end), hint), token.start
    hint = "a comma, an operator or a dot is missing between them"
    return mistake(f"`{token.text}` cannot follow `{before.text}` here", token.span, hint)


_CLAUSES = ("ORDER", "PARTITION", "BY", "LIMIT", "OFFSET", "DIRECTION")
_LOWER = ("in", "order", "by", "desc", "asc", "limit", "offset")  # often written in capitals


def misplaced_clause(failure: Failure) -> ParseError | None:
    token = failure.token
    if token is None or token.type not in _CLAUSES:
        return None
    what = f"{token.value} by" if token.type in ("ORDER", "PARTITION") else token.value
    hint = "only answers are ordered: write it behind the body of a query, ?- p(x) order by x."
    if failure.at > 1 and failure.tokens[failure.at - 2].type in ("LIMIT", "OFFSET"):
        hint = "`order by` comes first, then `limit` and `offset`"
    if token.type == "PARTITION":
        hint = "it comes first in a function of a head: rank(partition by g order by x)"
    return mistake(f"`{what}` does not belong here", token.span, hint)


_WORDS = {
    "and": "and is `,`",
    "or": "or is `;`",
    "is": "write `=`: x = y + 1",
    "mod": "write `%`",
    "div": "write `/`",
    "xor": "write `bxor` for bits, `lxor` for truth",
    "where": "write conditions in the body, after commas",
    "if": "the arrow of a rule is `<-`",
}


_OPERATORS = frozenset({"OPERATOR", "SIGN", "COMPARE", "EQUAL", "NOT", "IN"})


def missing_operand(failure: Failure) -> ParseError | None:
    """The error for a missing operand before the token at which parsing failed."""
    token, before = failure.token, failure.before
    if before is None:
        return _beginning(failure.tokens[0])
    if before.type in ENDS:
        return None
    kind, text = before.type, before.text
    if kind == "OPTIONAL" and token and token.type != "LBRACE":
        hint = "as in optional p(x, y), or optional { p(x, y), !q(y) }"
        return mistake("`optional` is followed by an atom, or a body in braces", token.span, hint)
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
    if failure.tokens[0].type == "RETRACT" and failure.innermost is None:
        place = failure.span if token is None else token.span
        hint = "as in retract E(1, 2), or retract E(x, _) where x > 9, F(x)"
        message = "`retract` is followed by one atom, and perhaps `where` with conditions"
        return mistake(message, place, hint)
    if token is None:
        return None
    where = failure.innermost
    if token.type in ("COMPARE", "EQUAL", "IN") and where == "call":
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
    misplaced_clause,
    second_arrow,
    misplaced_colon,
    side_by_side,
    _misplaced,
    sql_star,
    missing_operand,
)
