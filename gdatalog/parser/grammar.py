"""Reads statements by grammar.lark, with Lark's LALR parser.

Lark's tables are kept in the user's cache folder. Lark checks that they fit the grammar, its own
version and Python's; otherwise it makes new ones, in a tenth of a second. Only functions import
this module, because Lark takes long to import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, UnexpectedToken, __version__
from lark.parsers.lalr_interactive_parser import InteractiveParser

from gdatalog.errors import ParseError
from gdatalog.own_files import home, own
from gdatalog.parser import builder
from gdatalog.parser.failure import Failure
from gdatalog.parser.tokens import ENDS_OPERAND, Token

GRAMMAR = Path(__file__).with_name("grammar.lark")


@cache
def parser() -> Lark:
    """Lark's parser of a statement, which runs the functions of builder.py. It has no words: the
    scanner is its lexer."""
    try:
        tables = own(home() / "grammar") / f"lark-{__version__}-{sys.implementation.cache_tag}"
        kept: str | bool = str(tables)
    except OSError:  # the tables are made by each process
        kept = False
    text = GRAMMAR.read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="basic", transformer=builder, cache=kept)


def build(tokens: list[Token]) -> Any:
    """Parses the tokens of a statement. Returns its node, or the failure at the first token that
    cannot continue it."""
    reading, at = _read(tokens)
    if at == len(tokens):
        with suppress(UnexpectedToken):
            return reading.feed_eof()  # type: ignore[no-untyped-call]  # Lark's has no types
    return Failure(tokens, at)


def operand_can_follow(tokens: Sequence[Token]) -> bool:
    """Whether an operand can follow these tokens. After an error, a statement may begin."""
    rest = tokens
    with suppress(ParseError):
        while rest:
            reading, at = _read(rest)
            if at == len(rest):
                return "NAME" in reading.accepts()  # type: ignore[no-untyped-call]  # as above
            rest = rest[max(at, 1) :]
    return tokens[-1].type not in ENDS_OPERAND


def _read(tokens: Sequence[Token]) -> tuple[InteractiveParser, int]:
    """A parser that has read the first of these tokens, as many as can begin a statement; and their
    number."""
    reading = parser().parse_interactive()
    for at, token in enumerate(tokens):
        try:
            reading.feed_token(token)  # type: ignore[arg-type]  # what Lark asks of a token, it has
        except UnexpectedToken:
            return reading, at
    return reading, len(tokens)
