"""The functions of the language on NumPy columns, and expressions over rows of keys.

A column of values is int64 for int and timestamp, float64 for float, bool for bool, and codes of
the symbol table for symbol. Columns are as long as the current rows, or have length 1 if all rows
have the same value. A function returns its column, and a mask of the rows where it failed, or None.

Functions of texts are in `texts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.cpu_ops.texts import Outcome, Warn, on_texts, tabulate
from gdatalog.errors import Caution, EvaluationError, Span
from gdatalog.plan import Apply, Constant, Expr, Parameter, Slot
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import encode_value, float_to_key, key_to_float
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MIN, TypeName, Value

ORDER = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
EQUALITY = {"=": np.equal, "!=": np.not_equal}


def compare(op: str, left: Array, right: Array, kind: TypeName, symbols: SymbolTable) -> Array:
    """Compares two columns. Symbols are ordered by code points."""
    if op in EQUALITY:
        equal: Array = EQUALITY[op](left, right)
        return equal
    if kind == "symbol":
        ranks = symbols.ranks()
        left, right = ranks[left], ranks[right]
    ordered: Array = ORDER[op](left, right)
    return ordered


def call(
    name: str,
    args: Sequence[Array],
    kind: TypeName,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool = False,
) -> Outcome:
    """Calls function `name` on columns; `kind` is the type of the first."""
    with np.errstate(all="ignore"):
        if on_texts(name, kind):
            return tabulate(name, args, kind, symbols, warn, bounded)
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
    """Wraps. A negative power truncates to 0, except of 1 and -1; of 0 it is a division by zero."""
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
        # through days: in nanoseconds the least int is NumPy's "not a time"
        days = (time // 86_400_000_000_000).astype("datetime64[D]")
        if unit == "year":
            return days.astype("datetime64[Y]").astype(np.int64) + 1970
        if unit == "month":
            return days.astype("datetime64[M]").astype(np.int64) % 12 + 1
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
    """A function of floats: NaN is a failure, -0.0 becomes 0.0."""

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


# Expressions over rows: keys to values, functions, values to keys.

ColumnOf = Callable[[str], Array]


@dataclass(slots=True)
class Scope:
    """What expressions need beside their row: symbols, parameters, and a place for warnings.

    `bounded`: functions of texts have bounds on time and on the texts they make, for any input.
    """

    symbols: SymbolTable
    params: Mapping[str, Value] = field(default_factory=dict)
    cautions: dict[str, Caution] = field(default_factory=dict)
    bounded: bool = False

    def warn(self, message: str, span: Span) -> None:
        self.cautions.setdefault(message, Caution(message, span))


def to_values(keys: Array, kind: TypeName) -> Array:
    """Decodes keys to the values that functions work on."""
    if kind == "float":
        return key_to_float(keys)
    if kind == "bool":
        return keys.astype(np.bool_)
    if kind == "symbol":
        return keys
    return keys.astype(np.int64, copy=False)


def to_keys(values: Array, kind: TypeName) -> Array:
    if kind == "float":
        return float_to_key(values)
    return values.astype(np.int32) if kind == "bool" else values


def evaluate(expr: Expr, column: ColumnOf, size: int, scope: Scope) -> tuple[Array, Array | None]:
    """The key of an expression for each row, and a mask of the rows where it failed (None:
    nowhere)."""
    if isinstance(expr, Slot):
        return column(expr.name), None
    values, failed = _values(expr, column, scope)
    keys = to_keys(values, expr.type)
    if len(keys) != size:
        keys = np.broadcast_to(keys, (size,))
    if failed is not None and len(failed) != size:
        failed = np.broadcast_to(failed, (size,))
    return keys, failed


def test(expr: Expr, column: ColumnOf, size: int, scope: Scope) -> Array:
    """A mask of the rows that pass a test. Tests do not fail: their operands have been computed
    before."""
    values, _ = _values(expr, column, scope)
    return np.broadcast_to(values, (size,)) if len(values) != size else values


def _compared_keys(expr: Apply, column: ColumnOf, scope: Scope) -> Array | None:
    """A comparison of columns and constants by their keys: all but symbols' are in the order of
    values. None for other expressions."""
    if expr.function not in EQUALITY and (
        expr.function not in ORDER or expr.args[0].type == "symbol"
    ):
        return None
    keys: list[Any] = []
    for arg in expr.args:
        if isinstance(arg, Slot):
            keys.append(column(arg.name))
        elif isinstance(arg, (Constant, Parameter)):
            value = arg.value if isinstance(arg, Constant) else scope.params[arg.name]
            keys.append(encode_value(value, arg.type, scope.symbols))
        else:
            return None
    if all(isinstance(key, int) for key in keys):
        return None
    compared: Array = (EQUALITY.get(expr.function) or ORDER[expr.function])(*keys)
    return compared


def _values(expr: Expr, column: ColumnOf, scope: Scope) -> tuple[Array, Array | None]:
    if isinstance(expr, Slot):
        return to_values(column(expr.name), expr.type), None
    if isinstance(expr, (Constant, Parameter)):
        value = expr.value if isinstance(expr, Constant) else scope.params[expr.name]
        key = np.array([encode_value(value, expr.type, scope.symbols)], dtype=np.int64)
        return to_values(key, expr.type), None
    compared = _compared_keys(expr, column, scope)
    if compared is not None:
        return compared, None
    args, failed = [], None
    for arg in expr.args:
        values, bad = _values(arg, column, scope)
        args.append(values)
        failed = bad if failed is None else failed if bad is None else failed | bad
    kind = expr.args[0].type
    if expr.function in EQUALITY or expr.function in ORDER:
        return compare(expr.function, args[0], args[1], kind, scope.symbols), failed
    warn = _warner(expr, scope)
    try:
        values, bad = call(expr.function, args, kind, scope.symbols, warn, scope.bounded)
    except EvaluationError as error:
        error.span = error.span or expr.span
        raise
    return values, bad if failed is None else failed if bad is None else failed | bad


def _warner(expr: Apply, scope: Scope) -> Callable[[str], None]:
    return lambda message: scope.warn(message, expr.span)
