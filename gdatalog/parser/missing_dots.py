"""The errors of a missing dot, comma or operator: a second arrow, and operands side by side."""

from __future__ import annotations

from gdatalog.errors import ParseError, Span
from gdatalog.parser.aggregate_mistakes import capital_aggregate, lower_case
from gdatalog.parser.failure import ENDS, Explained, Failure, missing_dot, mistake, new_line
from gdatalog.parser.sql_mistakes import sql_word
from gdatalog.parser.tokens import VALUES
from gdatalog.parser.words import AGGREGATES, NO_NULL


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
        return mistake("there is no null yet", token.span, NO_NULL)
    if lower in _WORDS:
        return mistake(f"`{word}` is no operator", token.span, _WORDS[lower])
    if token.start == before.end and '"' in (before.text[-1:], token.text[:1]):
        hint = 'a comma is missing between them, or: a quote inside a string is written `\\"`'
        return mistake(f"`{token.text}` cannot follow `{before.text}` here", token.span, hint)
    foreign = sql_word(before, token)
    if foreign is not None:
        return foreign
    if lower == "in":
        return mistake(f"`{word}` is no word of the language", token.span, "write `in`")
    if before.type == "NAME" and before.value in AGGREGATES and token.type in VALUES:
        message = f"the aggregate `{before.value}` needs a colon and a body after its expression"
        hint = f"as in {before.value} {token.text} : {{ R({token.text}) }}"
        return mistake(message, before.span.to(token.span), hint)
    if before.type == "NAME" and capital_aggregate(before.value):
        rest = failure.tokens[failure.at :]
        if any(t.type == "COLON" for t in rest):
            return lower_case(before)
    if token.type == "LPAR":
        if before.type == "WILDCARD" or before.type == "BOOL" or before.text == "inf":
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
