"""The errors for SQL: its statements, keywords and comments."""

from __future__ import annotations

from itertools import pairwise

from gdatalog.errors import ParseError, Span
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.parser.failure import Explained, Failure, mistake, new_line
from gdatalog.parser.tokens import VALUES, Token

_SQL = {
    "select": "a query is a rule or a `?-`: answer(x) <- t(x, y), y > 3.",
    "with": "name a part of a query by a rule of its own: part(x) <- t(x, y), y > 3.",
    "create": "declare a relation: .decl t(id: int, name: symbol)",
    "insert": 'write facts: t(1, "a"). t(2, "b").',
    "update": "facts do not change: derive the new relation by a rule",
    "delete": "facts do not change: derive what remains: rest(x) <- t(x), !gone(x).",
    "drop": "leave the relation's rules and facts out",
}


def sql(tokens: list[Token]) -> Explained | None:
    """The error for a statement that looks like SQL."""
    if len(tokens) < 2 or tokens[0].type != "NAME" or tokens[0].value.lower() not in _SQL:
        return None
    word = tokens[0].value.lower()
    if tokens[1].type not in VALUES and tokens[1].text not in ("*", "("):
        return None
    words = [token.value.lower() for token in tokens[1:] if token.type == "NAME"]
    shows = {
        "select": "from" in words or tokens[1].type in VALUES,
        "with": "as" in words,
        "create": bool(words) and words[0] in ("table", "view", "or", "temp", "index"),
        "insert": bool(words) and words[0] == "into",
        "update": "set" in words,
        "delete": bool(words) and words[0] == "from",
        "drop": bool(words) and words[0] in ("table", "view", "index"),
    }
    if not shows[word]:
        return None
    error = mistake("this looks like SQL", tokens[0].span, _SQL[word])
    # An SQL statement ends with a semicolon at the end of a line.
    for at, token in enumerate(tokens):
        if token.type == "SEMICOLON" and at + 1 < len(tokens) and new_line(token, tokens[at + 1]):
            return error, token.end
    return error, None


def is_sql(tokens: list[Token]) -> bool:
    """Whether unfinished text is certainly SQL: it ends with a semicolon, and has what no statement
    has, a value or a name beside a name."""
    if not tokens or tokens[-1].type != "SEMICOLON" or sql(tokens) is None:
        return False
    return any(a.type == "NAME" and b.type in VALUES for a, b in pairwise(tokens))


_SORT = "answers are sorted by `order by`: ?- p(x) order by x desc."
_LIMIT = "a number or a parameter follows, as in ?- p(x) order by x limit 10."
# Hints for keywords between two operands.
_BETWEEN = {
    "like": 'write contains("part", x), or match("regular expression", x)',
    "ilike": 'write contains("part", lower(x))',
    "between": "comparisons chain: 1 <= x <= 3",
    "limit": _LIMIT,
    "offset": _LIMIT.replace("limit", "offset"),
    "fetch": "the first rows are asked for by `limit`: ?- p(x) order by x limit 10.",
    "order": "`by` and columns follow, as in ?- p(x) order by x desc.",
    **dict.fromkeys(("orderby", "sort", "sorted", "ascending", "descending"), _SORT),
    "group": "the other columns of the head are the group: n(x, count()) <- e(x, _).",
    "having": "test it in another rule: big(x) <- n(x, c), c > 3.",
    "as": "name a value by `=`: z = y + 1",
}
# Hints for keywords before an operand.
_BEFORE = {
    "exists": "an atom tests that a row exists; with `!` before it, that none does",
    "case": "write one rule for each case",
    "if": "write one rule for each case, or a `;`",
    "forall": "say that there is no counterexample: !(p(y), !q(y))",
    "all": "say that there is no counterexample: !(p(y), !q(y))",
    "for": "a variable takes every value for which the body holds",
    "let": "name a value by `=`: z = y + 1",
    "limit": "it is the end of a query: ?- p(x) order by x limit 10.",
    "distinct": "a relation has no duplicates; `count_distinct(x)` counts different values",
}


def sql_word(before: Token, token: Token) -> ParseError | None:
    """The error for an SQL keyword between two operands on one line."""
    if new_line(before, token):
        return None
    if token.type == "NAME" and token.value.lower() in _BETWEEN:
        word, hint = token, _BETWEEN[token.value.lower()]
    elif before.type == "NAME" and before.value.lower() in _BEFORE:
        word, hint = before, _BEFORE[before.value.lower()]
    elif before.type == "NAME" and before.value in DIRECTIVES and token.type == "NAME":
        hint = f"a directive begins with a dot: `.{before.value} {token.text}`"
        return mistake(f"`{before.value}` is no operator", before.span, hint)
    else:
        return None
    return mistake(f"`{word.value}` is no operator", word.span, hint)


def sql_star(failure: Failure) -> ParseError | None:
    """The error for SQL's `*`."""
    token, before = failure.token, failure.before
    if token is None or token.text != "*" or before is None or failure.innermost != "call":
        return None
    if before.type not in ("LPAR", "COMMA"):
        return None
    hint = "write `_` for a column of any value"
    if before.type == "LPAR" and failure.tokens[failure.at - 2].text == "count":
        hint = "`count()` counts matches"
    return mistake("`*` is no argument", token.span, hint)


def sql_comment(tokens: list[Token]) -> Explained | None:
    """The error for `-- text`: a comment in SQL, two signs in Datalog."""
    first = tokens[0]
    text = first.source.text
    if not text.startswith("--", first.start):
        return None
    end = text.find("\n", first.start)
    message = "a statement cannot begin with `--`"
    hint = "a comment begins with `//`"
    error = mistake(message, Span(first.source, first.start, first.start + 2), hint)
    return error, end if end >= 0 else len(text)
