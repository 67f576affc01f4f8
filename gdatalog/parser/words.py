"""Words that are words of the language only in their place.

`max` opens an aggregate only if a colon follows; `bnot` is an operator only before a value.
"""

from __future__ import annotations

import re
from typing import Any

from gdatalog.errors import UsageError
from gdatalog.parser.tokens import ENDS_OPERAND, OPENING, STARTS_OPERAND, Token

AGGREGATES = ("count", "sum", "min", "max", "mean", "count_distinct", "any_value")
INFIX_WORDS = frozenset({"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"})
PREFIX_WORDS = frozenset({"bnot", "lnot"})

# Words whose token is not a NAME: its type and value. `in` is a name where no operator may stand.
NAMED: dict[str, tuple[str, Any]] = {
    "_": ("WILDCARD", "_"),
    "true": ("BOOL", True),
    "false": ("BOOL", False),
    "inf": ("NUMBER", float("inf")),
    "null": ("NULL", "null"),
    "nil": ("NULL", "nil"),
    "not": ("NOT", "not"),
    "in": ("IN", "in"),
    "bnot": ("NAME", "bnot"),
    "lnot": ("NAME", "lnot"),
}
RESERVED = frozenset({"true", "false", "not", "inf", "null", "nil", "_"})  # what names nothing
_NAME = re.compile(r"[^\W\d][\w?]*(\.[\w?]+)*'*")
NO_NULL = (
    "every column of a row has a value: give the rows that have one a relation of their own, "
    'or write a value that stands for none, such as -1 or ""'
)


def check_relation_name(name: object) -> None:
    if isinstance(name, str):
        if _NAME.fullmatch(name) and name not in RESERVED:
            return
        other = re.sub(r"\W", "_", name)
    else:
        other = ""
    hint = "a name is a letter or `_`, then letters, digits and `_`"
    if _NAME.fullmatch(other) and other not in RESERVED:
        hint += f": {other!r}"
    raise UsageError(f"not a relation's name: {name!r}", hint=hint)


def find_words(tokens: list[Token]) -> None:
    """Give the names of a statement that are words in their place their types."""
    _find_aggregates(tokens)
    _find_prefix_words(tokens)


def _find_aggregates(tokens: list[Token]) -> None:
    """Turn the names that open an aggregate into AGGREGATE: a colon follows at their depth.

    A name with a value directly after it can be nothing else (`sum x`); before `(` or `-` it may
    also be a function or a variable (`sum x * min(x, y) : ...`), so these come second.
    """
    depth = 0
    open_: list[tuple[int, int, bool]] = []  # depth, index, whether it can be nothing else
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "NAME":
            if token.value in AGGREGATES and at + 1 < len(tokens):
                after = tokens[at + 1]
                follows_one = bool(open_) and open_[-1][1] == at - 1
                if after.type == "COLON":
                    if token.value == "count" and not follows_one:
                        open_.append((depth, at, True))
                elif after.type == "LPAR" or after.text == "-":
                    open_.append((depth, at, False))
                elif after.type in STARTS_OPERAND:
                    open_.append((depth, at, True))
        elif kind in OPENING:
            depth += 1
        elif kind == "RPAR" or kind == "RBRACE":
            depth -= 1
            while open_ and open_[-1][0] > depth:
                open_.pop()
        elif kind == "COLON":
            _open_aggregate(tokens, open_, depth)
        elif kind in ("COMMA", "SEMICOLON", "ARROW", "QUERY", "COMPARE", "EQUAL"):
            while (
                open_
                and open_[-1][0] == depth
                and not (kind == "COMMA" and tokens[open_[-1][1]].value == "count_distinct")
            ):
                open_.pop()


def _open_aggregate(tokens: list[Token], open_: list[tuple[int, int, bool]], depth: int) -> None:
    """Of the names that may own a colon, the last that must, or else the last that can."""
    second: int | None = None
    while open_ and open_[-1][0] == depth:
        _, owner, certain = open_.pop()
        if certain:
            break
        if second is None:
            second = owner
    else:
        if second is None:
            return
        owner = second
    tokens[owner].type = "AGGREGATE"
    if tokens[owner + 1].text == "-":
        tokens[owner + 1].type = "SIGN"


def _find_prefix_words(tokens: list[Token]) -> None:
    """`bnot x` and `lnot x` are operators where an operand may start; `bnot(x)` is a call.

    `bnot -x` is one too, `bnot - x` a difference.
    """
    for at in range(len(tokens) - 1):
        token, after = tokens[at], tokens[at + 1]
        if token.type != "NAME" or token.value not in PREFIX_WORDS:
            continue
        if at and tokens[at - 1].type in ENDS_OPERAND:
            continue
        touches = at + 2 < len(tokens) and tokens[at + 2].start == after.end
        if after.value == "-" and after.start > token.end and touches:
            token.type = after.type = "SIGN"
        elif after.type in STARTS_OPERAND and after.type != "LPAR":
            token.type = "SIGN"
