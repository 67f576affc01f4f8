"""The errors of directives."""

from __future__ import annotations

import re

from gdatalog.errors import ParseError, Span, meant
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.parser.failure import Explained, Failure, brackets, mistake
from gdatalog.values import TYPE_NAMES, TYPE_SYNONYMS

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
        hint = f"as in {before.value}: int; the types are {', '.join(TYPE_NAMES)}"
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
