"""The fast path for lists: regular expressions read long lists of constants without the grammar.

For text that only the grammar can read, for example with comments between the values,
`side_by_side` and `compared` build the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from gdatalog.decimals import exact_float
from gdatalog.errors import SourceText
from gdatalog.parser import syntax as s
from gdatalog.parser.facts import BOOL, FLOAT, INT, TEXT, TIME
from gdatalog.parser.syntax import MANY
from gdatalog.parser.tokens import Token, string_token, timestamp_token
from gdatalog.parser.words import INFIX_WORDS, NAMED
from gdatalog.values import TypeName, Value


@cache
def _listed(kind: TypeName) -> re.Pattern[str]:
    """A pattern for a long list of constants, each followed by a comma or the end of the list."""
    one = _KINDS[kind]
    return re.compile(
        rf"\s*+((?:{one})(?:\s*+,\s*+(?:{one})){{{MANY - 1},}})(?=\s*+[,}}])", re.ASCII
    )


_NAME = r"[^\W\d]\w*+(?![.?'])"
_OPERATOR = r"!=|=|[<>]=|[<>](?!-)"  # in `x <-1` the scanner decides whether `<-` is an arrow
_KINDS: dict[TypeName, str] = {
    "int": rf"{INT}|{FLOAT}",
    "symbol": TEXT,
    "timestamp": TIME,
    "bool": BOOL,
}
FIRST = re.compile(rf"\s*+({_NAME})\s*+({_OPERATOR})\s*+([-\d\"@tf])")
_KIND: dict[str, TypeName] = {'"': "symbol", "@": "timestamp", "t": "bool", "f": "bool"}
_TEXT_OR_TIME = rf"{TEXT}|{TIME}"  # `re` compiles it when it is first used


@cache
def _compared(kind: TypeName, between: str) -> re.Pattern[str]:
    """A pattern for many comparisons of one variable with one operator."""
    one, end = _KINDS[kind], "[,;)}]" if between == "," else "[;)}]"
    return re.compile(
        rf"\s*+(({_NAME})\s*+({_OPERATOR})\s*+(?:{one})"
        rf"(?:\s*+{between}\s*+\2\s*+\3\s*+(?:{one})){{{MANY - 1},}})(?=\s*+{end})"
    )


def constants(source: SourceText, at: int) -> Token | None:
    """Reads a long list of constants of one type from `at` on."""
    for kind in _KINDS:
        found = _listed(kind).match(source.text, at)
        if found is not None:
            words = found[1].split(",") if kind in ("int", "bool") else ()
            read = _read(kind, words, source, *found.span(1))
            return None if read is None else Token("VALUES", read, source, *found.span(1))
    return None


def comparisons(source: SourceText, first: re.Match[str], after_comma: bool) -> Token | None:
    """Reads many comparisons of one variable with constants, of which `first` begins the first.

    Comparisons by `=` must be separated by semicolons, all others by commas; anything else is left
    to the scanner.
    """
    if first[2] == "=" and after_comma:
        return None
    name, op = first[1], first[2]
    between = ";" if op == "=" else ","
    kind = _KIND.get(first[3], "int")
    run = _compared(kind, between).match(source.text, first.start())
    if run is None or name in NAMED or name in INFIX_WORDS:
        return None
    parts = run[1].split(between) if kind in ("int", "bool") else ()
    words = [part.partition(op)[2] for part in parts]
    read = _read(kind, words, source, *run.span(1))
    if read is None:
        return None
    return Token("COMPARISONS", (name, op, *read), source, *run.span(1))


def _read(
    kind: TypeName, words: Sequence[str], source: SourceText, start: int, end: int
) -> tuple[TypeName, tuple[Value, ...]] | None:
    """Converts constants of one type: from `words`, or strings and timestamps from the source."""
    if kind == "int":
        try:
            return "int", tuple(map(int, words))
        except ValueError:
            return "float", tuple([exact_float(word.strip()) for word in words])
    if kind == "bool":
        return "bool", tuple([word.strip() == "true" for word in words])
    if kind == "symbol" and "\\" not in source.text[start:end]:
        texts = re.compile(_TEXT_OR_TIME).findall(source.text, start, end)
        return "symbol", tuple([text[1:-1] for text in texts])
    make = string_token if kind == "symbol" else timestamp_token
    tokens = [
        make(source, *part.span())
        for part in re.compile(_TEXT_OR_TIME).finditer(source.text, start, end)
    ]
    if any(token.type == "ERROR" for token in tokens):
        return None  # the scanner reports the error
    return kind, tuple([token.value for token in tokens])


def side_by_side(values: Sequence[s.Expr]) -> tuple[s.Expr, ...]:
    """The values of a list; long runs of constants of one type become one node.

    Ints among floats become floats.
    """
    if len(values) < MANY and not any(type(value) is s.Values for value in values):
        return tuple(values)
    found: list[s.Expr] = []
    for group, members in groupby(values, _group):
        run = list(members)
        many = _together(run) if group else None
        found += run if many is None else [many]
    return tuple(found)


def _group(value: s.Expr) -> str:
    if not isinstance(value, s.Const | s.Values):
        return ""
    return "number" if value.type in ("int", "float") else value.type


def _together(run: Sequence[s.Expr]) -> s.Values | None:
    """One `Values` node for these constants, or None if they are few."""
    read: list[Value] = []
    kinds: set[TypeName] = set()
    for part in run:
        assert isinstance(part, s.Const | s.Values)
        kinds.add(part.type)
        read.extend((part.value,) if isinstance(part, s.Const) else part.values)
    if len(read) < MANY:
        return None
    kind: TypeName = "float" if len(kinds) > 1 else kinds.pop()
    if kind == "float":
        read = [value if isinstance(value, float) else float(value) for value in read]
    return s.Values(kind, tuple(read), run[0].span.to(run[-1].span))


def compared(literals: list[s.Literal], *, either: bool) -> list[s.Literal]:
    """Merges many comparisons of one variable by one operator into one node. The literals are those
    of a conjunction or, if `either`, of a disjunction: there `x = 1 ; x = 2 ; ...` becomes `x in
    {1, 2, ...}`."""
    if len(literals) < MANY:
        for literal in literals:
            if type(literal) in (s.Compare, s.Member) and _holds_many(literal):
                break
        else:
            return literals
    groups: dict[tuple[str, str, str], list[int]] = {}
    for at, literal in enumerate(literals):
        found = _one_variable(literal)
        if found is not None and (found[1] == "=") == either:
            name, op, side = found
            groups.setdefault((name.name, op, _group(side)), []).append(at)
    made: list[s.Literal | None] = list(literals)
    for (_, op, _), members in groups.items():
        parts = [_one_variable(literals[at]) for at in members]
        many = _together([part[2] for part in parts if part is not None])
        if many is not None and parts[0] is not None:
            made[members[0]] = with_many(parts[0][0], op, many)
            for at in members[1:]:
                made[at] = None
    return [literal for literal in made if literal is not None]


def with_many(variable: s.Var, op: str, many: s.Values) -> s.Compare | s.Member:
    """A comparison of a variable with many constants."""
    span = variable.span.to(many.span)
    if op == "=":
        return s.Member(variable, (many,), span)
    return s.Compare(variable, ((op, many),), span)


def _one_variable(literal: s.Literal) -> tuple[s.Var, str, s.Expr] | None:
    """The variable, operator and constants of a comparison, if it has this form."""
    match literal:
        case s.Compare(s.Var() as name, ((op, (s.Const() | s.Values()) as side),)):
            return name, op, side
        case s.Member(s.Var() as name, (s.Values() as side,)):
            return name, "=", side
    return None


def _holds_many(literal: s.Literal) -> bool:
    found = _one_variable(literal)
    return found is not None and isinstance(found[2], s.Values)
