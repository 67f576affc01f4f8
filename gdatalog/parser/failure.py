"""Statements that the grammar rejects, and error messages for brackets, directives and SQL."""

from __future__ import annotations

import re
from itertools import pairwise

from gdatalog.errors import ParseError, Span, meant
from gdatalog.parser.tokens import VALUES, Token
from gdatalog.parser.words import DIRECTIVES
from gdatalog.records import dataclass
from gdatalog.values import TYPE_NAMES, TYPE_SYNONYMS

_CLOSES = {"(": ")", "{": "}"}
CLOSING = {"LPAR": "RPAR", "LBRACE": "RBRACE"}
Explained = tuple[ParseError, int | None]  # the error, and where to resume within the statement


@dataclass(slots=True)
class Failure:
    """A statement, and the index of the token at which parsing failed (the number of tokens: at its
    end)."""

    tokens: list[Token]
    at: int

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def before(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at else None

    @property
    def after(self) -> Token | None:
        return self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None

    @property
    def span(self) -> Span:
        """The place of the failure."""
        if self.token is not None:
            return self.token.span
        last = self.tokens[-1]
        return Span(last.source, last.end, last.end)

    @property
    def innermost(self) -> str | None:
        """The kind of bracket around the failure: "call", "group" or "braces"."""
        open_: list[str] = []
        for at, token in enumerate(self.tokens[: self.at]):
            if token.type == "LPAR":
                call = at and self.tokens[at - 1].type == "NAME"
                open_.append("call" if call else "group")
            elif token.type == "LBRACE":
                open_.append("braces")
            elif token.type in ("RPAR", "RBRACE") and open_:
                open_.pop()
        return open_[-1] if open_ else None


def mistake(message: str, span: Span, hint: str | None = None) -> ParseError:
    return ParseError(message, span, hint=hint)


def missing_dot(span: Span, hint: str) -> ParseError:
    return mistake("a statement ends with a dot, which is missing here", span, hint)


def new_line(before: Token, token: Token) -> bool:
    """Whether a line ends between two tokens."""
    return "\n" in token.source.text[before.end : token.start]


def brackets(failure: Failure) -> ParseError | None:
    """The error for an unbalanced bracket."""
    open_: list[Token] = []
    for token in failure.tokens:
        if token.type in CLOSING:
            open_.append(token)
        elif token.type in ("RPAR", "RBRACE"):
            if not open_:
                hint = "take it out, or put in what it should close"
                return mistake(f"this `{token.text}` closes nothing", token.span, hint)
            if CLOSING[open_[-1].type] != token.type:
                other, column = open_[-1].text, open_[-1].span.column
                hint = f"the `{other}` in column {column} is closed by `{_CLOSES[other]}`"
                return mistake(f"this `{token.text}` meets a `{other}`", token.span, hint)
            open_.pop()
    if open_:
        last = failure.tokens[-1]
        after = last.source.text[last.end : last.end + 2]
        if last.text.isdigit() and after[:1] == "." and after[1:].strip():
            end = Span(last.source, last.start, last.end + 1)
            hint = f"`{last.text}.` is {last.text} and the end: write {last.text}.0"
            return mistake("the statement ends here, within parentheses", end, hint)
        hint = f"the statement ends before its `{_CLOSES[open_[-1].text]}`; is one missing?"
        return mistake(f"this `{open_[-1].text}` is never closed", open_[-1].span, hint)
    return None


# Errors of directives.

_COMPONENTS = ("components are", "put the rules into a file of their own and `.include` it")
_REFUSED = {
    **dict.fromkeys(("comp", "init", "override"), _COMPONENTS),
    "functor": ("user-defined functors are", "compute the values before they are loaded"),
    "lattice": ("lattices are", "keep the best value per group with min(...) or max(...)"),
    "once": ("`.once` is", "`.include` inserts a file in its place"),
}
_TYPES = (*TYPE_NAMES, "number", "unsigned", *TYPE_SYNONYMS)
FORMS = {
    "decl": ".decl E(src: int, dst: int)",
    "type": ".type Id = int, or .type Var <: symbol",
    "number_type": ".number_type Id",
    "symbol_type": ".symbol_type Name",
    "input": '.input E, or .input E("edges.csv")',
    "output": '.output tr, or .output tr("tr.parquet")',
    "printsize": ".printsize tr",
    "limitsize": ".limitsize path(n=1000000)",
    "include": '.include "lib.dl"',
    "pragma": '.pragma "name" "value"',
    "plan": ".plan 0:(1,2)",
}


def directive_mistake(failure: Failure) -> Explained | ParseError | None:
    first = failure.tokens[0]
    if not first.text.startswith("."):
        return None
    name = first.value
    if first.type == "UNKNOWN":
        if name in _REFUSED:
            what, instead = _REFUSED[name]
            error = mistake(f"{what} not in the language", first.span, instead)
            return error, _end_of_block(failure)
        close = meant(name, DIRECTIVES)
        known = "the directives are ." + " .".join(DIRECTIVES)
        message = f"there is no directive `.{name}`"
        return mistake(message, first.span, f"did you mean `.{close}`?" if close else known)
    token, before = failure.token, failure.before
    if name == "decl" and before and before.value == "choice" and token and token.text == "-":
        after = failure.after
        end = after.end if after else token.end
        message = "choice-domain is not in the language"
        hint = "choose by an aggregate: one(x, min(y)) <- R(x, y)."
        return mistake(message, Span(token.source, before.start, end), hint)
    if name == "type" and token and (token.type == "LBRACE" or token.text == "["):
        hint = "give each field a column of its own"
        return mistake("records and variants are not in the language", token.span, hint)
    unbalanced = brackets(failure)
    if unbalanced is not None:
        return unbalanced
    untyped = token and failure.at > 2 and token.type in ("COMMA", "RPAR")
    if name == "decl" and before and before.value in _TYPES and untyped:
        return mistake(
            "a column needs a name before its type", before.span, f"as in x: {before.value}"
        )
    if name == "decl" and before and before.type == "NAME" and untyped:
        hint = f"as in {before.value}: int; the types are int, float, symbol, bool, timestamp"
        return mistake("a column needs a type", before.span, hint)
    if name in ("input", "output", "include") and token and token.type == "RPAR":
        return mistake("something is missing before this parenthesis", token.span, FORMS[name])
    what = f"`{token.text}` does not belong here" if token else "the directive is not complete"
    return mistake(what, failure.span, f"write {FORMS[name]}")


def _end_of_block(failure: Failure) -> int | None:
    """The position after a component's closing brace; its content is skipped."""
    brace = next((token for token in failure.tokens if token.type == "LBRACE"), None)
    if brace is None:
        return None
    text, depth = brace.source.text, 0
    for found in re.finditer(r'"[^"\n]*"|//[^\n]*|/\*[\s\S]*?\*/|[{}]', text[brace.start :]):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0 and found[0] == "}":
            return brace.start + found.end()
    return len(text)


# Errors for SQL: statements, keywords and comments.

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


# Hints for keywords between two operands.
_BETWEEN = {
    "like": 'write contains("part", x), or match("regular expression", x)',
    "ilike": 'write contains("part", lower(x))',
    "between": "comparisons chain: 1 <= x <= 3",
    "limit": "an answer has all rows; in Python, `limit=10` returns the first ones",
    "order": "an answer is a set; in Python, `.sorted()` and `.df(sort=True)` sort it",
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
    "limit": "in Python, `query(..., limit=5)`; in a program, `.limitsize p(n=5)`",
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
