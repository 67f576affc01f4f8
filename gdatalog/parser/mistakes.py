"""What to say about a statement that the grammar refuses.

Lark says at which token it stopped. `explain` looks at that token and its neighbours, and
recognises the mistakes that people make, one function a family, most telling first.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from gdatalog.errors import ParseError, Span
from gdatalog.parser.tokens import Token

AGGREGATES = ("count", "sum", "min", "max", "mean", "count_distinct", "any_value")
DIRECTIVE_NAMES = [
    "decl",
    "type",
    "input",
    "output",
    "printsize",
    "limitsize",
    "include",
    "pragma",
    "plan",
    "number_type",
    "symbol_type",
]
_OPERANDS = frozenset(["NAME", "WILDCARD", "NUMBER", "STRING", "TIMESTAMP", "BOOL", "PARAM"])
_ENDS = _OPERANDS | {"RPAR", "RBRACE"}
_CLOSING = {"LPAR": "RPAR", "LBRACE": "RBRACE"}
_OPERATORS = frozenset({"OPERATOR", "SIGN", "COMPARE", "EQUAL", "NOT", "IN"})


@dataclass(slots=True)
class Failure:
    """A statement, and the index of the token at which it failed (past the last: its end)."""

    tokens: list[Token]
    at: int
    stop: str

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


Explained = tuple[ParseError, int | None]  # and where to go on, if before the statement's end


def explain(failure: Failure) -> Explained:
    for family in _FAMILIES:
        found = family(failure)
        if found is not None:
            return found if isinstance(found, tuple) else (found, None)
    return _anything(failure), None


def _error(message: str, span: Span, hint: str | None = None) -> ParseError:
    return ParseError(message, span, hint=hint)


# -------------------------------------------------------------------------- other languages

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
    """SQL, by habit."""
    if len(tokens) < 2 or tokens[0].type != "NAME" or tokens[0].value.lower() not in _SQL:
        return None
    word = tokens[0].value.lower()
    if tokens[1].type not in _OPERANDS and tokens[1].text not in ("*", "("):
        return None
    words = [token.value.lower() for token in tokens[1:] if token.type == "NAME"]
    shows = {
        "select": "from" in words or tokens[1].type in _OPERANDS,
        "with": "as" in words,
        "create": bool(words) and words[0] in ("table", "view", "or", "temp", "index"),
        "insert": bool(words) and words[0] == "into",
        "update": "set" in words,
        "delete": bool(words) and words[0] == "from",
        "drop": bool(words) and words[0] in ("table", "view", "index"),
    }
    if not shows[word]:
        return None
    error = _error("this looks like SQL", tokens[0].span, _SQL[word])
    # A statement of SQL ends with a semicolon at the end of a line.
    for at, token in enumerate(tokens):
        if token.type == "SEMICOLON" and at + 1 < len(tokens) and _new_line(token, tokens[at + 1]):
            return error, token.end
    return error, None


def _sql(failure: Failure) -> Explained | None:
    return sql(failure.tokens)


# ------------------------------------------------------------------------------- directives

_REFUSED = {
    "comp": ("components are", "put the rules into a file of their own and `.include` it"),
    "init": ("components are", "put the rules into a file of their own and `.include` it"),
    "functor": ("user-defined functors are", "compute the values before they are loaded"),
    "lattice": ("lattices are", "keep the best value per group with min(...) or max(...)"),
    "override": ("components are", "put the rules into a file of their own and `.include` it"),
    "once": ("`.once` is", "`.include` reads a file where it stands"),
}
_FORMS = {
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


def _directives(failure: Failure) -> Explained | ParseError | None:
    first = failure.tokens[0]
    if not first.text.startswith("."):
        return None
    name = first.value
    if first.type == "UNKNOWN":
        if name in _REFUSED:
            what, instead = _REFUSED[name]
            error = _error(f"{what} not in the language", first.span, instead)
            return error, _end_of_block(failure)
        close = difflib.get_close_matches(name, DIRECTIVE_NAMES, 1, 0.6)
        known = "the directives are ." + " .".join(DIRECTIVE_NAMES[:9])
        return _error(
            f"there is no directive `.{name}`",
            first.span,
            f"did you mean `.{close[0]}`?" if close else known,
        )
    token, before = failure.token, failure.before
    if name == "decl" and before and before.value == "choice" and token and token.text == "-":
        after = failure.after
        end = after.end if after else token.end
        return _error(
            "choice-domain is not in the language",
            Span(token.source, before.start, end),
            "choose by an aggregate: one(x, min(y)) <- R(x, y).",
        )
    if name == "type" and token and (token.type == "LBRACE" or token.text == "["):
        return _error(
            "records and variants are not in the language",
            token.span,
            "give each field a column of its own",
        )
    brackets = _brackets(failure)
    if brackets is not None:
        return brackets
    if name == "decl" and before and before.type == "NAME" and token and failure.at > 2:
        if token.type in ("COMMA", "RPAR"):
            return _error(
                "a column needs a type",
                before.span,
                f"as in {before.value}: int; the types are int, float, symbol, bool, timestamp",
            )
    if name in ("input", "output", "include") and token and token.type == "RPAR":
        return _error("something is missing before this parenthesis", token.span, _FORMS[name])
    what = f"`{token.text}` does not belong here" if token else "the directive is not complete"
    return _error(what, failure.span, f"write {_FORMS[name]}")


def _end_of_block(failure: Failure) -> int | None:
    """Past the closing brace of a component, for what is inside is refused with it."""
    brace = next((token for token in failure.tokens if token.type == "LBRACE"), None)
    if brace is None:
        return None
    text, depth = brace.source.text, 0
    for found in re.finditer(r'"[^"\n]*"|//[^\n]*|/\*[\s\S]*?\*/|[{}]', text[brace.start :]):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0 and found[0] == "}":
            return brace.start + found.end()
    return len(text)


# --------------------------------------------------------------------------------- brackets


def _brackets(failure: Failure) -> ParseError | None:
    """A bracket that is not closed, or one that closes nothing."""
    open_: list[Token] = []
    for token in failure.tokens:
        if token.type in _CLOSING:
            open_.append(token)
        elif token.type in ("RPAR", "RBRACE"):
            if not open_:
                return _error(
                    f"this `{token.text}` closes nothing",
                    token.span,
                    "take it out, or put in what it should close",
                )
            if _CLOSING[open_[-1].type] != token.type:
                return _error(
                    f"this `{token.text}` meets a `{open_[-1].text}`",
                    token.span,
                    f"the `{open_[-1].text}` in column {open_[-1].span.column} is closed "
                    f"by `{ {'(': ')', '{': '}'}[open_[-1].text] }`",
                )
            open_.pop()
    if open_:
        return _error(
            f"this `{open_[-1].text}` is never closed",
            open_[-1].span,
            "the statement ends before its "
            f"`{ {'(': ')', '{': '}'}[open_[-1].text] }`; is one missing?",
        )
    return None


# ------------------------------------------------------------------------------ missing dots


def _second_arrow(failure: Failure) -> Explained | ParseError | None:
    token = failure.token
    if token is None or token.type != "ARROW":
        return None
    if failure.at == 0:
        hint = "a rule is head <- body; a question begins with `?-`"
        return _error("the head of the rule is missing before the arrow", token.span, hint)
    arrows = [t for t in failure.tokens[: failure.at] if t.type in ("ARROW", "QUERY")]
    if not arrows:
        return None
    start = _head_before(failure)
    if start is None:
        return _error("a statement has one arrow", token.span, "is a dot missing before it?")
    head = Span(token.source, start, failure.tokens[failure.at - 1].end)
    error = _error(
        "a statement has one arrow, and this is the second",
        token.span,
        f"is a dot missing before `{head.text}`?",
    )
    return error, start


def _head_before(failure: Failure) -> int | None:
    """Where the atom starts that stands directly before the failure."""
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


def _side_by_side(failure: Failure) -> Explained | ParseError | None:
    """Two things without a comma, an operator or a dot between them."""
    token, before = failure.token, failure.before
    if token is None or before is None or before.type not in _ENDS:
        return None
    if token.type == "NOT" and failure.after and failure.after.text == "in":
        return _error("`not in` is written with `!` before", token.span, "write `!x in {1, 2}`")
    if token.type not in _OPERANDS | {"NOT", "QUERY", "AGGREGATE", "LPAR", "LBRACE", "SIGN"}:
        return None
    word = token.value if token.type == "NAME" else ""
    lower = word.lower()
    if before.type == "NAME" and before.value.lower() == "not":
        return _error(
            f"`{before.value}` is no word of the language", before.span, "write `!` or `not`"
        )
    if lower in _WORDS:
        return _error(f"`{word}` is no operator", token.span, _WORDS[lower])
    if lower == "in":
        return _error(f"`{word}` is no word of the language", token.span, "write `in`")
    if before.type == "NAME" and _capital_aggregate(before.value):
        rest = failure.tokens[failure.at :]
        if any(t.type == "COLON" for t in rest):
            return _capitalised(before)
    if token.type == "LPAR":
        if before.type == "WILDCARD" or before.type == "BOOL" or before.text == "inf":
            return _error(
                f"`{before.text}` cannot name a relation",
                before.span,
                "true, false, not, inf and _ are reserved",
            )
        if not _new_line(before, token):
            return _error(
                f"`(` cannot follow `{before.text}` here",
                token.span,
                "a comma or an operator is missing before it",
            )
    if token.type == "LBRACE" and not _new_line(before, token):
        return _error(
            "braces do not belong here",
            token.span,
            "they stand after `in`, as in x in {1, 2}, and after an aggregate's colon, "
            "as in n = count : { R(x) }",
        )
    if token.type == "QUERY" or _new_line(before, token):
        error = _error(
            "a statement ends with a dot, which is missing here",
            Span(before.source, before.end, before.end),
            f"`{token.text}` cannot go on with the statement; put a dot before it, or a comma",
        )
        return error, token.start
    return _error(
        f"`{token.text}` cannot follow `{before.text}` here",
        token.span,
        "a comma, an operator or a dot is missing between them",
    )


_WORDS = {
    "and": "and is `,`",
    "or": "or is `;`",
    "is": "write `=`: x = y + 1",
    "mod": "write `%`",
    "div": "write `/`",
    "xor": "write `bxor` for bits, `lxor` for truth",
    "where": "conditions stand in the body, after commas",
    "if": "the arrow of a rule is `<-`",
}


def _new_line(before: Token, token: Token) -> bool:
    return "\n" in token.source.text[before.end : token.start]


# ------------------------------------------------------------------------------- aggregates


def _capital_aggregate(word: str) -> bool:
    return word.lower() in AGGREGATES and word not in AGGREGATES


def _capitalised(token: Token) -> ParseError:
    return _error(
        f"`{token.value}` is no word of the language", token.span, f"write `{token.value.lower()}`"
    )


def _colons(failure: Failure) -> ParseError | None:
    token, before = failure.token, failure.before
    if before and before.type == "COLON" and failure.tokens[0].type not in ("DECL",):
        return _error(
            "after an aggregate's colon stands an atom, or a body in braces",
            failure.span,
            "as in n = count : { R(x), x > 3 }",
        )
    if token is None or token.type != "COLON":
        return None
    if before and before.type == "NAME":
        if _capital_aggregate(before.value):
            return _capitalised(before)
        if before.value in AGGREGATES:
            return _error(
                f"{before.value} needs an expression before its colon",
                token.span,
                f"as in {before.value} x : {{ R(x) }}",
            )
    return _error(
        "a colon does not belong here",
        token.span,
        "the arrow of a rule is `:-` or `<-`; types are said by .decl R(x: int)",
    )


# ------------------------------------------------------------------------- missing operands


def _missing(failure: Failure) -> ParseError | None:
    """Something must stand between the token before and the one where it failed."""
    token, before = failure.token, failure.before
    if before is None:
        return _beginning(failure)
    if before.type in _ENDS:
        return None
    kind, text = before.type, before.text
    if kind == "IN":
        hint: str | None = "as in x in {1, 2, 3}"
        if token and token.text == "range":
            hint = "write x = range(0, 10)"
        elif token and token.type == "NAME":
            hint += f"; membership in a relation is an atom: {token.text}(x)"
        return _error("after `in` stands a set in braces", failure.span, hint)
    if kind == "LPAR" and token and token.type == "RPAR":
        span = before.span.to(token.span)
        return _error("nothing stands between these parentheses", span)
    if kind == "LBRACE" and token and token.type == "RBRACE":
        return _error("nothing stands between these braces", before.span.to(token.span))
    if token and token.type == "COMMA":
        what = "an argument" if _innermost(failure) == "call" else "something"
        return _error(f"{what} is missing before this comma", token.span)
    if kind == "COMMA":
        closes = token is None or token.type in ("RPAR", "RBRACE")
        hint = "take the comma out, or go on after it" if closes else None
        return _error("something is missing after this comma", before.span, hint)
    if kind == "ARROW":
        hint = "a fact has no arrow: p(1)." if token is None else None
        return _error("the body is missing after the arrow", before.span, hint)
    if kind == "QUERY":
        return _error("a question needs a body", before.span, "as in ?- tr(1, y), y < 3.")
    if kind == "SEMICOLON":
        hint = "`;` is or; a statement ends with a dot" if token is None else "`;` is or"
        return _error("an alternative is missing after `;`", before.span, hint)
    if kind in _OPERATORS:
        return _error(f"something is missing after `{text}`", before.span)
    return None


def _beginning(failure: Failure) -> ParseError | None:
    token = failure.token
    if token is None:
        return None
    text = token.source.text
    hint = "a statement is a fact p(1), a rule p(x) <- q(x), a question ?- p(x), or a .directive"
    ahead = text[: token.start].rstrip()
    if re.search(r"\d\.$", ahead):
        number = re.search(r"\d+\.$", ahead)
        digits = number[0] if number else ""
        hint = f"`{digits}` is {digits[:-1]} and the end of a statement: write {digits}0"
    elif text.startswith("--", token.start):
        hint = "a comment begins with `//`"
    return _error(f"a statement cannot begin with `{token.text}`", token.span, hint)


def _innermost(failure: Failure) -> str | None:
    """What kind of bracket the failure is inside: "call", "group", "braces"."""
    open_: list[str] = []
    for at, token in enumerate(failure.tokens[: failure.at]):
        if token.type == "LPAR":
            call = at and failure.tokens[at - 1].type == "NAME"
            open_.append("call" if call else "group")
        elif token.type == "LBRACE":
            open_.append("braces")
        elif token.type in ("RPAR", "RBRACE") and open_:
            open_.pop()
    return open_[-1] if open_ else None


# ------------------------------------------------------------------------------- misplaced


def _misplaced(failure: Failure) -> ParseError | None:
    token = failure.token
    if token is None:
        return None
    where = _innermost(failure)
    if token.type in ("COMPARE", "EQUAL", "IN", "NOT") and where == "call":
        hint = "compare beside the atom: R(x, y), x < y"
        return _error("an argument is a value, not a condition", token.span, hint)
    if token.type == "SEMICOLON" and where == "call":
        return _error("arguments are separated by commas", token.span)
    if token.type == "VBAR":
        return _error("`|` stands only in .type", token.span, "or is `;`")
    if token.type == "SUBTYPE":
        return _error("`<:` stands only in .type", token.span)
    if token.type in ("ARROW", "QUERY"):
        message = f"`{token.text}` does not belong inside parentheses" if where else (
            f"`{token.text}` does not belong here")  # fmt: skip
        return _error(message, token.span)
    return None


def _anything(failure: Failure) -> ParseError:
    token = failure.token
    if token is None:
        return _error("the statement is not complete", failure.span)
    return _error(f"`{token.text}` does not belong here", token.span)


_FAMILIES: tuple[Callable[[Failure], Explained | ParseError | None], ...] = (
    _sql,
    _directives,
    _brackets,
    _second_arrow,
    _colons,
    _side_by_side,
    _misplaced,
    _missing,
)
