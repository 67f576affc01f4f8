"""Long lists: many constants side by side in `x in {...}`, read at once, without the grammar.

What is read so may also be read word by word, as where comments stand between the values:
`side_by_side` makes the same tree of both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from gdatalog.errors import Source
from gdatalog.parser.facts import BOOL, FLOAT, INT, TEXT, TIME
from gdatalog.parser.syntax import MANY, Const, Expr, Values
from gdatalog.parser.tokens import Token, string_token, timestamp_token
from gdatalog.values import TypeName, Value


def _many(one: str) -> re.Pattern[str]:
    """So many of them, of which each is followed by a comma or by the end of the list."""
    return re.compile(
        rf"\s*+((?:{one})(?:\s*+,\s*+(?:{one})){{{MANY - 1},}})(?=\s*+[,}}])", re.ASCII
    )


_RUNS: tuple[tuple[TypeName, re.Pattern[str]], ...] = (
    ("int", _many(rf"{INT}|{FLOAT}")),
    ("symbol", _many(TEXT)),
    ("timestamp", _many(TIME)),
    ("bool", _many(BOOL)),
)
_TEXT_OR_TIME = re.compile(rf"{TEXT}|{TIME}")


def constants(source: Source, at: int) -> Token | None:
    """The many constants of one type that stand in a list from `at` on."""
    for kind, pattern in _RUNS:
        found = pattern.match(source.text, at)
        if found is not None:
            read = _read(kind, found[1], source, found.start(1))
            return None if read is None else Token("VALUES", read, source, *found.span(1))
    return None


def _read(
    kind: TypeName, text: str, source: Source, at: int
) -> tuple[TypeName, tuple[Value, ...]] | None:
    if kind == "int":
        numbers = text.split(",")
        try:
            return "int", tuple(map(int, numbers))
        except ValueError:
            return "float", tuple(map(float, numbers))
    if kind == "bool":
        return "bool", tuple(word.strip() == "true" for word in text.split(","))
    if kind == "symbol" and "\\" not in text:
        return "symbol", tuple(part[1:-1] for part in _TEXT_OR_TIME.findall(text))
    make = string_token if kind == "symbol" else timestamp_token
    tokens = [
        make(source, at + part.start(), at + part.end()) for part in _TEXT_OR_TIME.finditer(text)
    ]
    if any(token.type == "ERROR" for token in tokens):
        return None  # which is told where it is read word by word
    return kind, tuple(token.value for token in tokens)


def side_by_side(values: Sequence[Expr]) -> tuple[Expr, ...]:
    """The values of a list, where many constants of one type that stand side by side are one node.

    Ints among floats stand for floats.
    """
    if len(values) < MANY and not any(type(value) is Values for value in values):
        return tuple(values)
    found: list[Expr] = []
    for group, members in groupby(values, _group):
        run = list(members)
        many = _together(run) if group else None
        found += run if many is None else [many]
    return tuple(found)


def _group(value: Expr) -> str:
    if not isinstance(value, Const | Values):
        return ""
    return "number" if value.type in ("int", "float") else value.type


def _together(run: Sequence[Expr]) -> Values | None:
    """One node of these constants, if they are many."""
    read: list[Value] = []
    kinds: set[TypeName] = set()
    for part in run:
        assert isinstance(part, Const | Values)
        kinds.add(part.type)
        read.extend((part.value,) if isinstance(part, Const) else part.values)
    if len(read) < MANY:
        return None
    kind: TypeName = "float" if len(kinds) > 1 else kinds.pop()
    if kind == "float":
        read = [float(value) for value in read]
    return Values(kind, tuple(read), run[0].span.to(run[-1].span))
