"""Functions of texts, evaluated once for each distinct combination of arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np

from gdatalog.account import TEXTS
from gdatalog.cancellation import current_watch, working_space
from gdatalog.cpu_ops.linear_match import LinearPattern, linear, posix
from gdatalog.decimals import decimal_from_text
from gdatalog.errors import EvaluationError
from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import (
    DAY,
    INT_MAX,
    INT_MIN,
    TypeName,
    Value,
    nanoseconds_of,
    text_of_key,
    timestamp_from_text,
)

AT_ONCE = 1 << 12  # values that are Python objects at the same time
READ = 1 << 21  # characters that functions read between two polls
POLLED = 256  # texts that are matched between two polls
LONGEST = 1_000_000  # characters of a result, if `bounded`
LONG = 1 << 16  # characters of arguments: results of more are charged first

Outcome = tuple[Array, Array | None]  # the column, and where it failed
Warn = Callable[[str], None]


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | str:
    """A compiled pattern of `match`, or what is wrong with it."""
    try:
        return re.compile(posix(text))
    except (re.error, OverflowError, RecursionError) as problem:
        return str(problem)


def _matches(
    pattern: str, texts: Sequence[str], bounded: bool, warn: Warn
) -> Sequence[bool | None]:
    """Which texts match completely; None each if the pattern is invalid. `bounded`: in linear
    time."""
    if bounded:
        made = linear(pattern)
        if isinstance(made, LinearPattern):
            return made.full_matches(texts)
        wrong = made
    else:
        found = _pattern(pattern)
        if isinstance(found, re.Pattern):
            matches: list[bool] = []
            for at in range(0, len(texts), POLLED):
                current_watch().poll()
                matches += [found.fullmatch(t) is not None for t in texts[at : at + POLLED]]
            return matches
        wrong = found
    warn(f"the pattern {pattern!r} is not valid ({wrong}): it matches nothing")
    return [None] * len(texts)


# The results of match functions, from a match that is None if the pattern is invalid. The planner
# uses all but `match` for negated patterns, below a negation, and for values of `match`.
MATCHING: dict[str, Callable[[bool | None], bool]] = {
    "match": lambda found: found is True,
    "!match": lambda found: found is False,
    "match?": lambda found: found is not False,
    "!match?": lambda found: found is not True,
    "is_pattern": lambda found: found is not None,
}


def _number(text: str) -> int | None:
    if re.fullmatch(r"[+-]?[0-9]{1,100}", text) is None:
        return None
    number = int(text)
    return number if INT_MIN <= number <= INT_MAX else None


_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf")


def _float(text: str) -> float | None:
    if _FLOAT.fullmatch(text) is None:
        return None
    return float(text) + 0.0


def _decimal(text: str, scale: int) -> int | None:
    return decimal_from_text(text, scale, rounded=True)


def _split_part(text: str, separator: str, at: int) -> str:
    """The part numbered from 1; "" if there is none."""
    if at < 1 or not separator:
        return text if at == 1 else ""
    start = 0
    for _ in range(at - 1):
        found = text.find(separator, start)
        if found < 0:
            return ""
        start = found + len(separator)
    end = text.find(separator, start)
    return text[start:] if end < 0 else text[start:end]


def _substr(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length >= 0 else ""


def text_of(value: Value, kind: TypeName) -> str:
    """`to_string`: the shortest text that reads back."""
    if kind == "float":
        return repr(float(value))
    if kind == "bool":
        return "true" if value else "false"
    written = text_of_key(kind)
    return str(value) if written is None else written(int(value))


def _regex_extract(text: str, pattern: str, group: int = 0) -> str | None:
    """The first match, or a group of it; "" if there is none."""
    compiled = _pattern(pattern)
    if isinstance(compiled, str) or not 0 <= group <= compiled.groups:
        return None
    found = compiled.search(text)
    return (found[group] or "") if found else ""


def _parse_time(text: str, pattern: str | None = None) -> int | None:
    if pattern is None:
        return timestamp_from_text(text)
    try:
        found = nanoseconds_of(datetime.strptime(text, pattern))
    except (ValueError, OverflowError):
        return None
    return found if INT_MIN <= found <= INT_MAX else None


def _format_time(nanoseconds: int, pattern: str) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
    return moment.strftime(pattern.replace("%Y", f"{moment.year:04}"))


def _format_date(days: int, pattern: str) -> str:
    return _format_time(days * DAY, pattern)


def format_value(value: Value, spec: str, kind: TypeName) -> str:
    """A value as Python's `format` writes it; name resolution has checked that it can."""
    return format(value if kind in ("int", "float") else text_of(value, kind), spec)


# name: (function, type of the result); a result of None is a failure
TEXTUAL: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "cat": (lambda *texts: "".join(texts), "symbol"),
    "strlen": (len, "int"),
    "substr": (_substr, "symbol"),
    "contains": (lambda needle, text: needle in text, "bool"),
    "starts_with": (lambda text, prefix: text.startswith(prefix), "bool"),
    "upper": (str.upper, "symbol"),
    "lower": (str.lower, "symbol"),
    "split_part": (_split_part, "symbol"),
    "trim": (str.strip, "symbol"),
    "replace": (str.replace, "symbol"),
    "position": (lambda needle, text: text.find(needle), "int"),
    "regex_extract": (_regex_extract, "symbol"),
    "parse_time": (_parse_time, "timestamp"),
    "format_time": (_format_time, "symbol"),
    "format_value": (format_value, "symbol"),
    "to_string": (text_of, "symbol"),
}
ON_SYMBOLS: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "+": (lambda a, b: a + b, "symbol"),
    "to_int": (_number, "int"),
    "to_number": (_number, "int"),
    "to_float": (_float, "float"),
    "to_decimal": (_decimal, "int"),
    "ord": (len, "int"),  # replaced by ranks below
}


def on_texts(name: str, kind: TypeName) -> bool:
    """Whether a function, with a first argument of this type, is one of texts."""
    return name in TEXTUAL or name in MATCHING or (kind == "symbol" and name in ON_SYMBOLS)


_SYMBOL_ARGS: dict[str, tuple[bool, ...]] = {
    "substr": (True, False, False),
    "to_decimal": (True, False),
    "split_part": (True, True, False),
    "regex_extract": (True, True, False),
    "format_time": (False, True),
}


def tabulate(
    name: str,
    args: Sequence[Array],
    kind: TypeName,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool = False,
) -> Outcome:
    """A function of texts, computed once for each distinct combination of arguments."""
    if name == "ord":
        return symbols.ranks()[args[0]], None
    columns = list(np.broadcast_arrays(*args))
    size = len(columns[0])
    keys = [float_to_key(column) if column.dtype.kind == "f" else column for column in columns]
    first, groups = group_rows([np.asarray(key, dtype=np.int64) for key in keys], size)
    picked = [column[first] for column in columns]
    if name == "to_string":
        if kind == "symbol":
            return columns[0], None
        made = (text_of(value, kind) for part in _parts(picked[0]) for value in part.tolist())
        return symbols.intern_new(made)[groups], None
    if name in MATCHING:
        return _matching(MATCHING[name], picked[0], picked[1], symbols, warn, bounded)[groups], None
    function, result = TEXTUAL[name] if name in TEXTUAL else ON_SYMBOLS[name]
    is_text = _SYMBOL_ARGS.get(name, (True,) * len(columns))[: len(columns)]
    if name == "format_value":
        function, is_text = partial(format_value, kind=kind), (kind == "symbol", True)
    elif name == "format_time" and kind == "date":
        function = _format_date
    elif name == "regex_extract":
        if bounded:
            raise EvaluationError("an untrusted text may not use `regex_extract`")
        return _extracted(_arguments(picked, is_text, symbols), groups, symbols)
    rows = _arguments(picked, is_text, symbols)
    if result == "symbol":
        return symbols.intern_new(_made(function, rows, bounded))[groups], None
    outcome = [function(*arguments) for arguments in rows]
    failed = np.array([value is None for value in outcome], dtype=np.bool_)
    dtype = {"int": np.int64, "timestamp": np.int64, "float": np.float64, "bool": np.bool_}[result]
    values: Array = np.array([0 if value is None else value for value in outcome], dtype=dtype)
    return values[groups], failed[groups] if failed.any() else None


def _extracted(rows: Iterator[tuple[Value, ...]], groups: Array, symbols: SymbolTable) -> Outcome:
    texts = [_regex_extract(*row) for row in rows]  # type: ignore[arg-type]  # of texts and an int
    failed = np.array([text is None for text in texts], dtype=np.bool_)
    codes = symbols.intern_new(text or "" for text in texts)
    return codes[groups], failed[groups] if failed.any() else None


def _matching(
    outcome: Callable[[bool | None], bool],
    patterns: Array,
    codes: Array,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool,
) -> Array:
    """A match function on pairs of pattern and text."""
    found = np.empty(len(patterns), dtype=np.bool_)
    order = np.argsort(patterns, kind="stable")
    ends = np.flatnonzero(np.diff(patterns[order])) + 1
    for rows in np.split(order, ends):
        current_watch().poll()
        pattern = symbols.text(int(patterns[rows[0]]))
        for part in _parts(rows):
            texts = symbols.texts_of(codes[part])
            found[part] = list(map(outcome, _matches(pattern, texts, bounded, warn)))
    return found


def _parts(column: Array) -> Iterator[Array]:
    """A column in batches, to bound the number of Python objects."""
    for start in range(0, len(column), AT_ONCE):
        yield column[start : start + AT_ONCE]


def _arguments(
    columns: Sequence[Array], is_text: Sequence[bool], symbols: SymbolTable
) -> Iterator[tuple[Value, ...]]:
    """The values of a function's arguments, row by row. Polls between batches."""
    poll = current_watch().poll
    for parts in zip(*map(_parts, columns), strict=True):
        values = [
            symbols.texts_of(part) if text else part.tolist()
            for part, text in zip(parts, is_text, strict=True)
        ]
        rows = zip(*values, strict=True)
        read = sum(sum(map(len, v)) for v, text in zip(values, is_text, strict=True) if text)
        at_once = max(1, AT_ONCE * READ // max(READ, read))
        poll()
        while block := list(islice(rows, at_once)):
            yield from block
            poll()


def _made(
    function: Callable[..., str], rows: Iterable[tuple[Value, ...]], bounded: bool
) -> Iterator[str]:
    """The texts that a function makes. Memory for a long one is charged before it is made."""
    for arguments in rows:
        length = sum(len(value) for value in arguments if isinstance(value, str))
        if length < LONG:
            yield function(*arguments)
            continue
        plain = all(value.isascii() for value in arguments if isinstance(value, str))
        with working_space(TEXTS, length if plain else 4 * length):
            pass
        text = function(*arguments)
        if bounded and len(text) > LONGEST:
            raise EvaluationError(
                f"this makes a text of {len(text):,} characters: an untrusted text may make none "
                f"of more than {LONGEST:,}"
            )
        yield text
