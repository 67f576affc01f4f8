"""The functions of texts: computed once for each distinct combination of their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gdatalog.storage.grouping import group_rows
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN, TypeName, timestamp_to_text

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
    parts = text.split(separator) if separator else [text]
    return parts[at - 1] if 1 <= at <= len(parts) else ""


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
    rows = []
    for at, column in enumerate(columns):
        picked = column[first].tolist()
        if name == "to_string":
            texts = [symbols.text(v) if kind == "symbol" else text_of(v, kind) for v in picked]
            return _codes(texts, symbols)[groups], None
        is_text = _SYMBOL_ARGS.get(name, (True,) * len(columns))[at]
        rows.append([symbols.text(code) for code in picked] if is_text else picked)
    outcome = [function(*arguments) for arguments in zip(*rows, strict=True)]
    if name.strip("!?") == "match":
        for pattern in {pattern for pattern in rows[0] if isinstance(_pattern(pattern), str)}:
            warn(f"the pattern {pattern!r} is not valid ({_pattern(pattern)}): it matches nothing")
        outcome = [bool(value) for value in outcome]
    failed = np.array([value is None for value in outcome], dtype=np.bool_)
    if result == "symbol":
        values = _codes(outcome, symbols)
    else:
        dtype = {"int": np.int64, "float": np.float64, "bool": np.bool_}[result]
        values = np.array([0 if value is None else value for value in outcome], dtype=dtype)
    return values[groups], failed[groups] if failed.any() else None


def _codes(texts: Sequence[str], symbols: SymbolTable) -> Array:
    return np.array([symbols.intern(text) for text in texts], dtype=np.int32)
