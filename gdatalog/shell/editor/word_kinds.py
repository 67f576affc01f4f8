"""The kinds of a statement's words, and its syntax errors."""

from __future__ import annotations

from functools import lru_cache

from gdatalog.errors import SourceText
from gdatalog.parser import read_source
from gdatalog.parser.directive_words import DIRECTIVE_TYPES
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from gdatalog.shell.typed import DEPTH, comments

KINDS = {
    "NUMBER": "number",
    "TIMESTAMP": "number",
    "PLAN_TEXT": "number",
    "STRING": "string",
    "BOOL": "constant",
    "WILDCARD": "wildcard",
    "PARAM": "parameter",
    "AGGREGATE": "aggregate",
    "NOT": "keyword",
    "IN": "keyword",
    "ARROW": "arrow",
    "QUERY": "arrow",
    "OPERATOR": "operator",
    "SIGN": "operator",
    "COMPARE": "operator",
    "EQUAL": "operator",
    "SUBTYPE": "operator",
    "VBAR": "operator",
    "ERROR": "wrong",
    "UNKNOWN": "wrong",
}
_BESIDE = frozenset({"COMMA", "SEMICOLON", "ARROW", "QUERY", "NOT"})  # tokens around a literal


@lru_cache(maxsize=8192)
def words_of(text: str) -> tuple[tuple[int, int, str, str], ...]:
    """The words of a statement: start, end, kind, and the name of a call."""
    tokens = scan(SourceText("<text>", text), 0, fast=False).tokens
    found: list[tuple[int, int, str, str]] = []
    directive = tokens[0].type if tokens and tokens[0].type in DIRECTIVE_TYPES else ""
    depth = at = 0
    for index, token in enumerate(tokens):
        if token.start < at:
            continue  # a second token of the same word
        found += [(at + a, at + b, "comment", "") for a, b in comments(text[at : token.start])]
        depth += DEPTH.get(token.type, 0)
        if directive:
            kind = _in_directive(tokens, index, directive, depth)
        elif token.type == "NAME":
            kind = _of_name(tokens, index, depth)
        else:
            kind = KINDS.get(token.type, "punctuation")
        found.append((token.start, token.end, kind, str(token.value) if kind != "wrong" else ""))
        at = token.end
    found += [(at + a, at + b, "comment", "") for a, b in comments(text[at:])]
    return tuple(found)


def _of_name(tokens: list[Token], at: int, depth: int) -> str:
    after = tokens[at + 1].type if at + 1 < len(tokens) else None
    if after == "LPAR":
        return "call"
    before = tokens[at - 1].type if at else "ARROW"
    if depth == 0 and before in _BESIDE and (after is None or after in _BESIDE):
        return "proposition"
    return "variable"


def _in_directive(tokens: list[Token], at: int, directive: str, depth: int) -> str:
    token = tokens[at]
    if at == 0:
        return "wrong" if token.type == "UNKNOWN" else "directive"
    if token.type != "NAME":
        return KINDS.get(token.type, "punctuation")
    before = tokens[at - 1].type
    if directive in ("TYPE", "OLD_TYPE") or before == "COLON":
        return "type"
    if directive == "DECL":
        if depth:
            return "column"
        return "keyword" if before in ("RPAR", "NAME") else "relation"
    if depth:
        return "string" if before == "EQUAL" else "option"
    return "call"


@lru_cache(maxsize=2048)
def refused(text: str) -> tuple[tuple[int, int], ...]:
    """The places of a statement's syntax errors."""
    try:
        _, _, errors = read_source(SourceText("<text>", text), True, fast=False)
    except Exception:  # highlighting must never break typing
        return ()
    spans = [error.span for error in errors if error.span is not None]
    return tuple((span.start, max(span.end, span.start + 1)) for span in spans)
