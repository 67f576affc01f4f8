"""The words of the checks' messages: names in quotes, numbers of things, the nearest spelling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdatalog.errors import NOWHERE, meant
from gdatalog.parser.syntax import (
    And,
    Atom,
    Const,
    Expr,
    HeadAggregate,
    ListParam,
    Literal,
    Not,
    Or,
    Param,
    Var,
)


def own_name(name: str) -> str:
    """The name that the user wrote: `y` of the local variable `y~2`."""
    return name.partition("~")[0]


def text_of(node: Expr | HeadAggregate | Literal) -> str:
    """The node as the source has it, on one line."""
    if node.span.source is NOWHERE.source:
        return show(node).strip("`")
    text = " ".join(node.span.text.split())
    return f"({text})" if isinstance(node, Or) else text


def conjuncts(literal: Literal) -> Iterator[Literal]:
    """The parts of a conjunction; a `;` and a negation are one part."""
    if isinstance(literal, And):
        for item in literal.items:
            yield from conjuncts(item)
    else:
        yield literal


def as_rule(head: str, items: Iterable[str]) -> str:
    return f"{head} <- {', '.join(items)}."


def show(node: Expr | HeadAggregate | Literal) -> str:
    """The node as the source has it, in quotes and on one line."""
    if node.span.source is not NOWHERE.source:
        text = " ".join(node.span.text.split())
        return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"
    match node:
        case Var(name):
            return f"`{own_name(name)}`"
        case Param(name) | ListParam(name):
            return f"`${name}`"
        case Const(_, value):
            return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
        case Atom(name, _):
            return f"`{name}(...)`"
        case Not(body):
            return f"`!`{show(body)}"
        case _:
            return f"the {type(node).__name__.lower()}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def either(names: Sequence[str], last: str = "or") -> str:
    """`a, b or c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


# What functions are called elsewhere.
SYNONYMS = {
    "avg": "mean",
    "average": "mean",
    "concat": "cat",
    "int": "to_int",
    "len": "strlen",
    "length": "strlen",
    "lcase": "lower",
    "regexp_matches": "match",
    "str": "to_string",
    "substring": "substr",
    "ucase": "upper",
}


# What functions elsewhere do, and what to write for them here.
INSTEAD = {
    "coalesce": "there is no null: write a rule for each case",
    "collect": "no column holds a list: the rows of a group are its list",
    "exists": "an atom alone says that there is such a row",
    "group_concat": "no column holds a list: the rows of a group are its list",
    "if": "write one rule for each case",
    "iif": "write one rule for each case",
    "now": "give the time as a parameter: `$now`",
    "rank": "a rank counts those before: `n = count : { R(y), y < x }`",
    "round": "`floor(x + 0.5)` rounds",
    "row_number": "rows have no order; a rank counts those before: `n = count : { R(y), y < x }`",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    names = [other for other in known if other != name]
    if SYNONYMS.get(name.lower()) in names:
        return SYNONYMS[name.lower()]
    return meant(name, names)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    best = nearest(name, known)
    return None if best is None else f"did you mean `{best}`?"
