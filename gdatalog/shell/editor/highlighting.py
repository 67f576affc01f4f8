"""Syntax highlighting of text that is being typed: words by the scanner, errors by the grammar.

Highlighting is incremental: a key press re-splits only the statements around the cursor, and only
statements on the screen are highlighted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from functools import lru_cache

from gdatalog.errors import SourceText
from gdatalog.parser import read_source
from gdatalog.parser.directive_words import DIRECTIVE_TYPES
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from gdatalog.plan.functions import AGGREGATES, ALIASES, FUNCTIONS, GENERATORS
from gdatalog.records import replace
from gdatalog.shell.editor.known import KnownNames
from gdatalog.shell.typed import (
    DEPTH,
    OF_PART,
    TAKE_TEXT,
    WITH_PASSES,
    StatementPart,
    comments,
    part_at,
)

KINDS = {
    "NUMBER": "number",
    "TIMESTAMP": "number",
    "DURATION": "number",
    "PLAN_TEXT": "number",
    "STRING": "string",
    "BOOL": "constant",
    "NULL": "constant",
    "WILDCARD": "wildcard",
    "PARAM": "parameter",
    "AGGREGATE": "aggregate",
    "NOT": "keyword",
    "IN": "keyword",
    "OPTIONAL": "keyword",
    "RETRACT": "keyword",
    "WHERE": "keyword",
    **dict.fromkeys(("ORDER", "PARTITION", "BY", "DIRECTION", "LIMIT", "OFFSET"), "keyword"),
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
_BESIDE = frozenset(
    {"COMMA", "SEMICOLON", "ARROW", "QUERY", "NOT", "WHERE"}
)  # tokens around a literal


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


Stretch = tuple[int, int, str]  # start, end and kind
_CLOSING = {"(": ")", "{": "}"}


class Highlighter:
    """Highlights successive versions of a text, which differ by a few letters.

    `known` may change at any time. `checks`: the grammar is loaded and may mark errors; another
    thread loads it.
    """

    def __init__(self) -> None:
        self.known = KnownNames()
        self.checks = False
        self._text = ""
        self._commands: Collection[str] = ()
        self._parts: list[StatementPart] = []
        self._starts: list[int] = []
        self._defined: frozenset[str] = frozenset()

    def look(self, text: str) -> None:
        """Takes the current text."""
        if text == self._text and self._commands is self.known.commands:
            return
        if self._commands is not self.known.commands:
            self._commands, self._text, self._parts = self.known.commands, "", []
        self._parts = list(self._cut(text))
        self._starts = [part.start for part in self._parts]
        self._defined = frozenset(name for part in self._parts for name in part.heads)
        self._text = text

    def _cut(self, text: str) -> Iterator[StatementPart]:
        """Splits the text into parts; reuses those of the previous text that did not change."""
        same = _same_start(self._text, text)
        first = max(0, bisect_right(self._starts, same) - 3)  # a part can depend on the next two
        yield from self._parts[:first]
        at = self._parts[first].start if first < len(self._parts) else 0
        longest = min(len(text), len(self._text)) - same
        changed = len(text) - min(longest, _same_start(self._text[::-1], text[::-1]))
        moved = len(text) - len(self._text)
        before = {part.start: index for index, part in enumerate(self._parts)}
        source = SourceText("<text>", text)
        while at < len(text):
            index = before.get(at - moved) if at > changed + 1 else None
            if index is not None:
                rest = self._parts[index:]
                yield from (_shifted(part, moved) for part in rest) if moved else rest
                return
            part = part_at(source, at, self._commands)
            yield part
            at = part.end

    def state(self, cursor: int) -> object:
        """The state that the colours depend on besides the text; the key of prompt_toolkit's
        cache."""
        part = self._part_at(cursor)
        open_ = part.start if part is not None and not part.whole else None
        return self.checks, id(self.known), open_, self.pair(cursor), self._touched(cursor)

    def stretches(self, start: int, end: int, cursor: int = -1) -> Iterator[Stretch]:
        """The coloured stretches between `start` and `end`, in order; the rest is plain."""
        first = max(0, bisect_right(self._starts, start) - 1)
        pair = self.pair(cursor)
        for part in self._parts[first:]:
            if part.start >= end:
                return
            for begins, stops, kind in self._of(part, cursor):
                if stops > start and begins < end:
                    yield begins, stops, "pair" if begins in pair and stops == begins + 1 else kind

    def pair(self, cursor: int) -> tuple[int, ...]:
        """The positions of the bracket at or before the cursor and of its partner."""
        part = self._part_at(cursor)
        if part is None or part.command:
            return ()
        open_: list[int] = []
        best: tuple[int, ...] = ()
        for begins, ends, kind, _ in words_of(self._text[part.begins : part.end]):
            if kind != "punctuation" or ends - begins > 1:
                continue
            at = part.begins + begins
            letter = self._text[at]
            if letter in _CLOSING:
                open_.append(at)
            elif letter in ")}":
                if not open_ or _CLOSING[self._text[open_[-1]]] != letter:
                    return best
                found = (open_.pop(), at)
                if cursor in found or (not best and cursor - 1 in found):
                    best = found
        return best

    def statement_before(self, cursor: int) -> str:
        """The current statement's text before the cursor."""
        part = self._part_at(cursor)
        return "" if part is None or part.command else self._text[part.begins : cursor]

    def _touched(self, cursor: int) -> int | None:
        """The start of an invalid word that ends at the cursor; it may be unfinished."""
        part = self._part_at(cursor)
        if part is None or part.command:
            return None
        for begins, ends, kind, _ in words_of(self._text[part.begins : part.end]):
            if kind == "wrong" and part.begins + ends == cursor:
                return part.begins + begins
        return None

    def _part_at(self, cursor: int) -> StatementPart | None:
        """The part that the cursor is in or directly after."""
        index = bisect_right(self._starts, max(0, cursor - 1)) - 1
        return self._parts[index] if 0 <= index < len(self._parts) and cursor >= 0 else None

    def _of(self, part: StatementPart, cursor: int) -> Iterator[Stretch]:
        text, base = self._text[part.begins : part.end], part.begins
        for begins, ends in comments(self._text[part.start : part.begins]):
            yield part.start + begins, part.start + ends, "comment"
        if part.command:
            yield from self._of_command(text, base)
            return
        inside = part.start < cursor <= part.end
        touched = self._touched(cursor) if inside else None
        wrong: tuple[tuple[int, int], ...] = ()
        if self.checks and touched is None and (part.whole or not inside) and text.strip():
            wrong = refused(text)
        for begins, ends, kind, name in words_of(text):
            style = self._style(kind, name)
            if style == "wrong" and base + begins == touched:
                style = "string" if text[begins] == '"' else "punctuation"
            if any(begins < stop and start < ends for start, stop in wrong):
                style = "wrong"
            yield base + begins, base + ends, style

    def _of_command(self, text: str, base: int) -> Iterator[Stretch]:
        name, blank, argument = text.partition(" ")
        known = self.known.commands
        right = not name.startswith(".") or not known or name[1:] in known or name == ".exit"
        after = base + len(name)
        yield base, after, "command" if right else "wrong"
        if name[1:] not in TAKE_TEXT:
            yield after, base + len(text), "argument"
            return
        after += len(blank)
        while (option := OF_PART.match(argument) or WITH_PASSES.match(argument)) is not None:
            yield after, after + option.end(), "argument"
            argument, after = argument[option.end() :], after + option.end()
        for begins, ends, kind, called in words_of(argument):
            yield after + begins, after + ends, self._style(kind, called)

    def _style(self, kind: str, name: str) -> str:
        if kind not in ("call", "proposition"):
            return kind
        if name in self.known.relations or name in self._defined:
            return "relation"
        if kind == "proposition":
            return "variable"
        if name in AGGREGATES:
            return "aggregate"
        is_function = name in FUNCTIONS or name in ALIASES or name in GENERATORS
        return "function" if is_function else "unknown"


def _shifted(part: StatementPart, by: int) -> StatementPart:
    return replace(part, start=part.start + by, begins=part.begins + by, end=part.end + by)


def _same_start(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
