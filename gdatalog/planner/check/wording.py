"""Words of messages: quoted names, counted nouns, the nearest spelling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.errors import NOWHERE, meant
from gdatalog.parser import syntax as s


def own_name(name: str) -> str:
    """The name that the user wrote: `y` of the local variable `y~2`."""
    return name.partition("~")[0]


def text_of(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node's source text, on one line."""
    if node.span.source is NOWHERE.source:
        return show(node).strip("`")
    text = " ".join(node.span.text.split())
    bare = not isinstance(node, s.Or) or text.startswith("optional")
    return text if bare else f"({text})"


def as_rule(head: str, items: Iterable[str]) -> str:
    return f"{head} <- {', '.join(items)}."


def show(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node's source text, quoted and on one line."""
    text = " ".join(node.span.text.split())
    if node.span.source is not NOWHERE.source:
        return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"
    match node:
        case s.Var(name):
            return f"`{own_name(name)}`"
        case s.Param(name) | s.ListParam(name):
            return f"`${name}`"
        case s.Null():
            return "`null`"
        case s.Const(_, value):
            return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
        case s.Atom(name, _):
            return f"`{name}(...)`"
        case s.Not(body):
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


# Functions by their names in other languages.
SYNONYMS = {
    "avg": "mean",
    "average": "mean",
    "concat": "cat",
    "date_format": "format_time",
    "dayofweek": "weekday",
    "find": "position",
    "iff": "if",
    "iif": "if",
    "ifelse": "if",
    "instr": "position",
    "int": "to_int",
    "len": "strlen",
    "length": "strlen",
    "lcase": "lower",
    "printf": "format",
    "regexp_extract": "regex_extract",
    "regexp_matches": "match",
    "percentile": "quantile",
    "std": "stddev",
    "stdev": "stddev",
    "str": "to_string",
    "strftime": "format_time",
    "strip": "trim",
    "strpos": "position",
    "strptime": "parse_time",
    "to_timestamp": "parse_time",
    "substring": "substr",
    "trunc": "date_trunc",
    "ucase": "upper",
    "variance": "var",
    "when": "case",
}


# Functions of other languages that have no equivalent here, and what to write instead.
INSTEAD = {
    "coalesce": "there is no null: write a rule for each case",
    "collect": "no column holds a list: the rows of a group are its list",
    "exists": "an atom alone says that there is such a row",
    "group_concat": 'texts of a group are joined by `string_agg(x, ", ")`, in a head',
    "now": "give the time as a parameter: `$now`",
    "date_add": "add a duration: `t + 3d`",
    "date_diff": "subtract: `t2 - t1` is a duration, `(t2 - t1) / 1d` a number of days",
    "datediff": "subtract: `t2 - t1` is a duration, `(t2 - t1) / 1d` a number of days",
    "extract": "`year(t)`, `month(t)`, `day(t)`, `hour(t)`, `minute(t)`, `second(t)`",
    "regexp_replace": "`replace(text, from, to)` replaces texts, `regex_extract` finds matches",
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
