"""The functions of texts: computed once for each distinct combination of their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gdatalog.account import TEXTS
from gdatalog.storage.grouping import group_rows
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN, TypeName, timestamp_to_text
from gdatalog.watching import working_space

AT_ONCE = 1 << 12  # values that are Python's objects at the same time
LONG = 1 << 16  # characters of arguments, from which on a text is charged before it is made

Outcome = tuple[Array, Array | None]  # the column, and where it failed
Warn = Callable[[str], None]

_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f",
    "word": r"\w", "cntrl": r"\x00-\x1f\x7f", "print": r"\x20-\x7e", "graph": r"\x21-\x7e",
}  # fmt: skip


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | str:
    """A pattern with its POSIX classes translated, or what is wrong with it."""
    translated = re.sub(
        r"\[:(\w+):\]", lambda found: _POSIX.get(found[1], found[0]), text, flags=re.ASCII
    )
    try:
        return re.compile(translated)
    except (re.error, OverflowError, RecursionError) as problem:
        return str(problem)


def _match(pattern: str, text: str) -> bool | None:
    compiled = _pattern(pattern)
    if isinstance(compiled, str):
        return None
    return compiled.fullmatch(text) is not None


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


def _split_part(text: str, separator: str, at: int) -> str:
    """The part numbered from 1; "" where there is none."""
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


def text_of(value: Any, kind: TypeName) -> str:
    """`to_string`: the shortest text that reads back."""
    if kind == "float":
        return repr(float(value))
    if kind == "bool":
        return "true" if value else "false"
    if kind == "timestamp":
        return timestamp_to_text(int(value))
    return str(value)


# name: (function, what it gives); a result of None is a failure
TEXTUAL: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "cat": (lambda *texts: "".join(texts), "symbol"),
    "strlen": (len, "int"),
    "substr": (_substr, "symbol"),
    "contains": (lambda needle, text: needle in text, "bool"),
    "starts_with": (lambda text, prefix: text.startswith(prefix), "bool"),
    "match": (_match, "bool"),
    # what the planner makes of negated patterns, and of patterns below a negation
    "!match": (lambda pattern, text: _match(pattern, text) is False, "bool"),
    "match?": (lambda pattern, text: _match(pattern, text) is not False, "bool"),
    "!match?": (lambda pattern, text: not _match(pattern, text), "bool"),
    "upper": (str.upper, "symbol"),
    "lower": (str.lower, "symbol"),
    "split_part": (_split_part, "symbol"),
    "to_string": (text_of, "symbol"),
}
ON_SYMBOLS: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "+": (lambda a, b: a + b, "symbol"),
    "to_int": (_number, "int"),
    "to_number": (_number, "int"),
    "to_float": (_float, "float"),
    "ord": (len, "int"),  # replaced by ranks below
}
_SYMBOL_ARGS: dict[str, tuple[bool, ...]] = {
    "substr": (True, False, False),
    "split_part": (True, True, False),
}


def tabulate(
    name: str, args: Sequence[Array], kind: TypeName, symbols: SymbolTable, warn: Warn
) -> Outcome:
    """A function of texts, computed once for each distinct combination of arguments."""
    if name == "ord":
        return symbols.ranks()[args[0]], None
    function, result = TEXTUAL[name] if name in TEXTUAL else ON_SYMBOLS[name]
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
    if name.strip("!?") == "match":
        for pattern in {symbols.text(code) for code in set(picked[0].tolist())}:
            if isinstance(wrong := _pattern(pattern), str):
                warn(f"the pattern {pattern!r} is not valid ({wrong}): it matches nothing")
    is_text = _SYMBOL_ARGS.get(name, (True,) * len(columns))
    rows = _arguments(picked, is_text, symbols)
    if result == "symbol":
        return symbols.intern_new(_made(function, rows))[groups], None
    outcome = [function(*arguments) for arguments in rows]
    if result == "bool":
        outcome = [bool(value) for value in outcome]  # a pattern that is not valid matches nothing
    failed = np.array([value is None for value in outcome], dtype=np.bool_)
    dtype = {"int": np.int64, "float": np.float64, "bool": np.bool_}[result]
    values: Array = np.array([0 if value is None else value for value in outcome], dtype=dtype)
    return values[groups], failed[groups] if failed.any() else None


def _parts(column: Array) -> Iterator[Array]:
    """A column in pieces, few of which are Python's objects at the same time."""
    for start in range(0, len(column), AT_ONCE):
        yield column[start : start + AT_ONCE]


def _arguments(
    columns: Sequence[Array], is_text: Sequence[bool], symbols: SymbolTable
) -> Iterator[tuple[Any, ...]]:
    """The values of a function's arguments, row by row."""
    for parts in zip(*map(_parts, columns), strict=True):
        yield from zip(
            *(
                map(symbols.text, part.tolist()) if text else part.tolist()
                for part, text in zip(parts, is_text, strict=True)
            ),
            strict=True,
        )


def _made(function: Callable[..., str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """The texts that a function gives. It is charged for a long one before it makes it."""
    for arguments in rows:
        texts = [value for value in arguments if isinstance(value, str)]
        if sum(map(len, texts)) < LONG:
            yield function(*arguments)
            continue
        width = 1 if all(map(str.isascii, texts)) else 4
        with working_space(TEXTS, width * sum(map(len, texts))):
            pass
        yield function(*arguments)
