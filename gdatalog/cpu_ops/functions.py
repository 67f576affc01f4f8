"""The functions of the language, on NumPy columns of values.

A value column is int64 for int and timestamp, float64 for float, bool for bool, and codes of
the symbol table for symbol. Columns are as long as the rows at hand, or of length 1 where they
are the same for all rows. A function gives its column and where it failed, or None.

Functions of texts are computed once for each distinct combination of their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gdatalog.storage.keys import float_to_key
from gdatalog.storage.rows import group_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN, TypeName, timestamp_to_text

Outcome = tuple[Array, Array | None]
Warn = Callable[[str], None]

ORDER = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
EQUALITY = {"=": np.equal, "!=": np.not_equal}


def compare(op: str, left: Array, right: Array, kind: TypeName, symbols: SymbolTable) -> Array:
    """`=` and `!=` on anything; the order of symbols is by code points."""
    if op in EQUALITY:
        equal: Array = EQUALITY[op](left, right)
        return equal
    if kind == "symbol":
        ranks = symbols.ranks()
        left, right = ranks[left], ranks[right]
    ordered: Array = ORDER[op](left, right)
    return ordered


def call(
    name: str, args: Sequence[Array], kind: TypeName, symbols: SymbolTable, warn: Warn
) -> Outcome:
    """The function `name` of columns whose (first) type is `kind`."""
    with np.errstate(all="ignore"):
        if name in _TEXTUAL or (kind == "symbol" and name in _ON_SYMBOLS):
            return _tabulate(name, args, kind, symbols, warn)
        if kind == "float" and name in _ON_FLOATS:
            return _ON_FLOATS[name](*args)
        if kind == "bool" and name in _ON_BOOLS:
            return _ON_BOOLS[name](*args), None
        if name in ("min", "max"):
            return _extreme(name, args, kind, symbols), None
        return _ON_INTS[name](*args)


# ------------------------------------------------------------------------------- on integers


def _sound(function: Callable[..., Array]) -> Callable[..., Outcome]:
    """A function that cannot fail."""
    return lambda *args: (function(*args), None)


def _divide(a: Array, b: Array) -> Outcome:
    zero = b == 0
    safe = np.where(zero, 1, b)
    return (a - np.fmod(a, safe)) // safe, _where(zero)


def _remainder(a: Array, b: Array) -> Outcome:
    zero = b == 0
    return np.fmod(a, np.where(zero, 1, b)), _where(zero)


def _power(a: Array, b: Array) -> Outcome:
    """Wraps; a negative power truncates to 0, but of 1 and -1; of 0 it is a division by zero."""
    a, b = np.broadcast_arrays(a, b)
    result = np.ones(a.shape, dtype=np.int64)
    base, rest = a.copy(), np.where(b < 0, 0, b)
    while rest.any():
        result = np.where(rest & 1, result * base, result)
        base = base * base
        rest = rest >> 1
    negative = b < 0
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.where(negative, unit, result), _where(negative & (a == 0))


def _shift_right_unsigned(a: Array, b: Array) -> Array:
    shifted: Array = (a.view(np.uint64) >> (b & 63).astype(np.uint64)).view(np.int64)
    return shifted


def _where(mask: Array) -> Array | None:
    return mask if mask.any() else None


def _date_part(unit: str) -> Callable[[Array], Array]:
    def part(time: Array) -> Array:
        when = time.astype("datetime64[ns]")
        if unit == "year":
            return when.astype("datetime64[Y]").astype(np.int64) + 1970
        if unit == "month":
            return when.astype("datetime64[M]").astype(np.int64) % 12 + 1
        days = when.astype("datetime64[D]")
        since: Array = (days - days.astype("datetime64[M]")).astype(np.int64)
        return since + 1

    return part


_ON_INTS: dict[str, Callable[..., Outcome]] = {
    "+": _sound(lambda a, b: a + b),
    "-": _sound(lambda a, b=None: -a if b is None else a - b),
    "*": _sound(lambda a, b: a * b),
    "/": _divide,
    "%": _remainder,
    "^": _power,
    "band": _sound(lambda a, b: a & b),
    "bor": _sound(lambda a, b: a | b),
    "bxor": _sound(lambda a, b: a ^ b),
    "bnot": _sound(lambda a: ~a),
    "bshl": _sound(lambda a, b: a << (b & 63)),
    "bshr": _sound(lambda a, b: a >> (b & 63)),
    "bshru": _sound(_shift_right_unsigned),
    "land": _sound(lambda a, b: ((a != 0) & (b != 0)).astype(np.int64)),
    "lor": _sound(lambda a, b: ((a != 0) | (b != 0)).astype(np.int64)),
    "lxor": _sound(lambda a, b: ((a != 0) ^ (b != 0)).astype(np.int64)),
    "lnot": _sound(lambda a: (a == 0).astype(np.int64)),
    "abs": _sound(np.abs),
    "to_int": _sound(lambda a: a),
    "to_number": _sound(lambda a: a),
    "to_float": _sound(lambda a: a.astype(np.float64)),
    "ord": _sound(lambda a: a),
    "year": _sound(_date_part("year")),
    "month": _sound(_date_part("month")),
    "day": _sound(_date_part("day")),
    "seconds_between": _sound(lambda a, b: (b - a).astype(np.float64) / 1e9),
}

_ON_BOOLS: dict[str, Callable[..., Array]] = {
    "land": lambda a, b: a & b,
    "lor": lambda a, b: a | b,
    "lxor": lambda a, b: a ^ b,
    "lnot": lambda a: ~a,
    "ord": lambda a: a.astype(np.int64),
    "to_int": lambda a: a.astype(np.int64),
    "to_number": lambda a: a.astype(np.int64),
    "to_float": lambda a: a.astype(np.float64),
}

# --------------------------------------------------------------------------------- on floats


def _real(function: Callable[..., Array]) -> Callable[..., Outcome]:
    """A function of floats: NaN is a failure, -0.0 is 0.0."""

    def real(*args: Array) -> Outcome:
        values = function(*args) + 0.0
        return values, _where(np.isnan(values))

    return real


def _divide_floats(a: Array, b: Array) -> Outcome:
    values = a / b + 0.0
    return values, _where(np.isnan(values) | (b == 0))


def _truncate(a: Array) -> Outcome:
    whole = np.trunc(a)
    # the least float above every int64 is 2^63 itself
    outside = ~((whole >= float(INT_MIN)) & (whole < -float(INT_MIN)))
    return np.where(outside, 0.0, whole).astype(np.int64), _where(outside)


_ON_FLOATS: dict[str, Callable[..., Outcome]] = {
    "+": _real(lambda a, b: a + b),
    "-": _real(lambda a, b=None: -a if b is None else a - b),
    "*": _real(lambda a, b: a * b),
    "/": _divide_floats,
    "%": _real(np.fmod),
    "^": _real(np.power),
    "abs": _real(np.abs),
    "floor": _real(np.floor),
    "ceil": _real(np.ceil),
    "sqrt": _real(np.sqrt),
    "exp": _real(np.exp),
    "log": _real(np.log),
    "to_int": _truncate,
    "to_number": _truncate,
    "to_float": _sound(lambda a: a),
    "ord": _sound(float_to_key),
}


def _extreme(name: str, args: Sequence[Array], kind: TypeName, symbols: SymbolTable) -> Array:
    best = args[0]
    ranks = symbols.ranks() if kind == "symbol" else None
    for other in args[1:]:
        if ranks is None:
            best = np.minimum(best, other) if name == "min" else np.maximum(best, other)
        else:
            lower = ranks[other] < ranks[best]
            best = np.where(lower if name == "min" else ~lower, other, best)
    return best


# ---------------------------------------------------------------------------------- on texts

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
_TEXTUAL: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "cat": (lambda *texts: "".join(texts), "symbol"),
    "strlen": (len, "int"),
    "substr": (_substr, "symbol"),
    "contains": (lambda needle, text: needle in text, "bool"),
    "starts_with": (lambda text, prefix: text.startswith(prefix), "bool"),
    "match": (_match, "bool"),
    "!match": (lambda pattern, text: _match(pattern, text) is False, "bool"),
    "upper": (str.upper, "symbol"),
    "lower": (str.lower, "symbol"),
    "split_part": (_split_part, "symbol"),
    "to_string": (text_of, "symbol"),
}
_ON_SYMBOLS: dict[str, tuple[Callable[..., Any], TypeName]] = {
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


def _tabulate(
    name: str, args: Sequence[Array], kind: TypeName, symbols: SymbolTable, warn: Warn
) -> Outcome:
    """A function of texts, computed once for each distinct combination of arguments."""
    if name == "ord":
        return symbols.ranks()[args[0]], None
    function, result = _TEXTUAL[name] if name in _TEXTUAL else _ON_SYMBOLS[name]
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
    if name in ("match", "!match"):
        for pattern in {pattern for pattern in rows[0] if isinstance(_pattern(pattern), str)}:
            warn(f"the pattern {pattern!r} is not valid ({_pattern(pattern)}): it matches nothing")
        outcome = [bool(value) for value in outcome]
    failed = np.array([value is None for value in outcome], dtype=np.bool_)
    if result == "symbol":
        values = _codes(outcome, symbols)
    else:
        dtype = {"int": np.int64, "float": np.float64, "bool": np.bool_}[result]
        values = np.array([0 if value is None else value for value in outcome], dtype=dtype)
    return values[groups], _where(failed[groups]) if failed.any() else None


def _codes(texts: Sequence[str], symbols: SymbolTable) -> Array:
    return np.array([symbols.intern(text) for text in texts], dtype=np.int32)
