"""The errors of aggregates: a capital letter, or a colon out of its place."""

from __future__ import annotations

from gdatalog.errors import ParseError
from gdatalog.parser.failure import Failure, mistake
from gdatalog.parser.tokens import VALUES, Token
from gdatalog.parser.words import AGGREGATES


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
