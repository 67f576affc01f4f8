"""Contextual keywords, and valid names.

`max` opens an aggregate only if a colon follows; `bnot` is an operator only before a value.
"""

from __future__ import annotations

import re
from itertools import pairwise

from gdatalog.errors import UsageError
from gdatalog.parser.tokens import ENDS_OPERAND, OPENING, STARTS_OPERAND, Token
from gdatalog.values import quoted

AGGREGATES = ("count", "sum", "min", "max", "mean", "count_distinct", "any_value")
CLAUSES = frozenset({"order", "partition", "by", "limit", "offset", "optional", "retract", "where"})
INFIX_WORDS = frozenset({"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"})
PREFIX_WORDS = frozenset({"bnot", "lnot"})
# Type and value of words that are not a NAME. Where no operator can stand, `in` is a name.
NAMED: dict[str, tuple[str, str | bool | float]] = {
    "_": ("WILDCARD", "_"),
    "true": ("BOOL", True),
    "false": ("BOOL", False),
    "inf": ("NUMBER", float("inf")),
    "null": ("NULL", "null"),
    "nil": ("NIL", "nil"),
    "not": ("NOT", "not"),
    "in": ("IN", "in"),
    **{word: ("NAME", word) for word in PREFIX_WORDS},
}
RESERVED = frozenset({"true", "false", "not", "inf", "null", "nil", "_"})  # not valid as names
_NAME = re.compile(r"[^\W\d][\w?]*(\.[\w?]+)*'*")
TEST_NULL = "`x = null` tests for a null, `x != null` for a value"


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


def column_name(name: str) -> str:
    """The name of a column as a program writes it: in quotes unless it is a word."""
    return name if _NAME.fullmatch(name) and name not in RESERVED else quoted(name)


def find_aggregates(tokens: list[Token]) -> None:
    """Marks names that open an aggregate as AGGREGATE: a colon follows at their depth.

    A name directly followed by a value must open one (`sum x`); before `(` or `-` it may also be a
    function or a variable (`sum x * min(x, y) : ...`), so these are tried second.
    """
    depth = 0
    open_: list[tuple[int, int, bool]] = []  # depth, index, whether it must open an aggregate
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
    """Assigns a colon to an open name: the last one that needs it, otherwise the last that can
    have it."""
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


def find_clauses(tokens: list[Token]) -> None:
    """Marks the words of `order by x desc limit 3 offset $n`, `partition by g`, `x by y`,
    `optional p(x)` and `retract p(x) where q(x)`. They are words where a name can only be a
    mistake: `by`, a number or a brace follows, or they stand between values.
    """
    ordered = False
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.type != "NAME":
            continue
        behind = before is not None and before.type in ENDS_OPERAND | {"DIRECTION"}
        if after is not None and after.type == "NAME" and after.value == "by":
            if token.value in ("order", "partition"):
                token.type, after.type, ordered = token.value.upper(), "BY", True
        elif not behind and token.value == "optional" and after is not None:
            if after.type in ("NAME", "LBRACE", "NOT"):
                token.type = "OPTIONAL"
        elif before is None and token.value == "retract" and after is not None:
            if after.type == "NAME":
                token.type = "RETRACT"
        elif behind and token.value == "where" and tokens[0].type == "RETRACT":
            token.type = "WHERE"
        elif behind and after is not None and token.value in ("limit", "offset"):
            if after.type in ("NUMBER", "PARAM"):
                token.type = token.value.upper()
        elif behind and token.value == "by" and after and after.type in STARTS_OPERAND:
            token.type, ordered = "BY", True
        elif behind and ordered and token.value in ("asc", "desc"):
            token.type = "DIRECTION"
    for before, token in pairwise(tokens):
        if before.type == "BY" and token.text == "-":
            token.type = "SIGN"


def find_prefix_words(tokens: list[Token]) -> None:
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
