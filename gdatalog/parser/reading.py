"""Parses a text, one statement at a time, so that one error does not hide the next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from gdatalog.cancellation import LONG_TEXT, apart, current_watch
from gdatalog.errors import Caution, ParseError, SourceText, Span, raise_together
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.parser.facts import FactReader
from gdatalog.parser.failure import Failure, missing_dot
from gdatalog.parser.heads import statement
from gdatalog.parser.mistakes import explain
from gdatalog.parser.scanner import NESTING, Scanned, scan, too_deep
from gdatalog.parser.sql_mistakes import sql, sql_comment
from gdatalog.parser.stored import StoredText
from gdatalog.parser.syntax import Program, Statement
from gdatalog.parser.tokens import MANY_CONSTANTS

# How often parsing may resume inside a statement that lacks its dot; each time scans that
# statement again.
MOST_RESUMED = 20
_HALF = re.compile("[\ud800-\udfff]")


def parse(text: str, name: str = "<query>", *, bare: bool = False) -> Program:
    """Parses a program into single statements; raises all its syntax errors together.

    `bare`: a statement may be a body alone, which becomes a Query (in Python and at the prompt). A
    statement's span excludes its dot.
    """
    program, _ = parse_with_cautions(text, name, bare=bare)
    return Program(tuple(one_by_one(program.statements)))


def parse_with_cautions(
    text: str, name: str = "<query>", *, bare: bool = False, stored: bool = False
) -> tuple[Program, tuple[Caution, ...]]:
    """Like `parse`, but many facts in a row are one statement (`Facts`). Also returns cautions:
    valid text that is probably a mistake. `stored`: use the statements that an earlier process has
    stored, and store them."""
    program, cautions, errors = read_source(SourceText(name, text), bare, stored=stored)
    raise_together(errors)
    return program, cautions


def read_source(
    source: SourceText, bare: bool, fast: bool = True, stored: bool = False
) -> tuple[Program, tuple[Caution, ...], list[ParseError]]:
    """Parses the valid statements, and returns them with all errors. `fast`: use the fast path for
    facts and long lists of constants."""
    found = StoredText(source, bare, stored)
    if len(source.text) >= LONG_TEXT:
        return apart(partial(_read_source, source, bare, fast, found))
    current_watch().poll()
    return _read_source(source, bare, fast, found)


def _read_source(
    source: SourceText, bare: bool, fast: bool, stored: StoredText
) -> tuple[Program, tuple[Caution, ...], list[ParseError]]:
    if not source.text.isascii() and (half := _HALF.search(source.text)):
        # A lone surrogate cannot be printed: the error shows a replacement.
        shown = SourceText(source.name, _HALF.sub("\ufffd", source.text))
        span = Span(shown, half.start(), half.end())
        hint = "is the text read in the encoding that it is written in?"
        return Program(()), (), [ParseError("this is half of a character", span, hint=hint)]
    statements: list[Statement] = []
    cautions: list[Caution] = []
    errors: list[ParseError] = []
    at, size = 0, len(source.text)
    resumed = 0
    facts = FactReader(source) if fast else None
    while at < size:
        if facts is not None:
            at = facts.read(at, statements)
        scanned = scan(source, at, fast)
        cautions += scanned.cautions
        at, begin = scanned.end, at
        if scanned.tokens:
            wrong: list[ParseError] = []
            read = len(statements)
            resume = _read_statement(scanned, bare, stored, statements, wrong)
            if wrong and any(token.type in MANY_CONSTANTS for token in scanned.tokens):
                # Without the fast path the error has a precise place.
                wrong = []
                del statements[read:]
                again = scan(source, begin, False)
                resume = _read_statement(again, bare, stored, statements, wrong)
            errors += wrong
            if resume is not None and resumed < MOST_RESUMED:
                at = resume
                resumed += 1
    if not errors:
        stored.keep()
    return Program(tuple(statements)), tuple(cautions), errors


def _read_statement(
    scanned: Scanned,
    bare: bool,
    stored: StoredText,
    statements: list[Statement],
    errors: list[ParseError],
) -> int | None:
    """Adds the statement or its errors; returns where to resume if that is before the statement's
    end."""
    tokens = scanned.tokens
    comment = sql_comment(tokens)  # `-- x` would also be a valid bare query: minus minus x
    if comment is not None:
        errors.append(comment[0])
        return comment[1]
    wrong = [token.value for token in tokens if token.type == "ERROR"]
    if wrong:
        foreign = sql(tokens)
        if foreign is not None:
            errors.append(foreign[0])
            return foreign[1]
        firsts = {error.message: error for error in reversed(wrong)}  # each message once
        errors += reversed(firsts.values())
        return None
    read = stored.at(tokens[0].start)
    if read is None:
        from gdatalog.parser.grammar import build

        try:
            built = build(tokens)
            if isinstance(built, Failure):
                explained, resume = explain(built)
                errors.append(explained)
                return resume
            read = statement(built, bare)
        except ParseError as error:
            errors.append(error)
            return None
        stored.add(tokens[0].start, read)
    if len(tokens) > NESTING:
        deep = _too_deep(read)
        if deep is not None:
            errors.append(too_deep(deep))
            return None
    statements.append(read)
    if scanned.stop == "lost":
        last = tokens[-1]
        hint = "put one before the directive that follows"
        errors.append(missing_dot(Span(last.source, last.end, last.end), hint))
    return None


def _too_deep(read: Statement) -> Span | None:
    """The span where the tree exceeds the nesting limit, or None."""
    level: list[Any] = [read]
    for _ in range(NESTING):
        level = [part for node in level for part in _below(node)]
        if not level:
            return None
    return level[0].span  # type: ignore[no-any-return]  # the builder makes nodes, which have spans


def _below(node: Any) -> Iterator[Any]:
    """The child nodes; `rest` of a comparison holds pairs (operator, node)."""
    for name in node.__slots__:
        part = getattr(node, name)
        for item in part if isinstance(part, tuple) else (part,):
            inner = item[-1] if isinstance(item, tuple) else item
            if hasattr(inner, "span"):
                yield inner
