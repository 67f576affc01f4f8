"""Expressions over rows: keys to values, functions, values to keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cpu_ops.functions import EQUALITY, ORDER, call, compare
from gdatalog.errors import Caution, EvaluationError, Span
from gdatalog.plan.functions import NULLING, UNLESS_NULL
from gdatalog.plan.join_plan import Apply, Constant, Expr, Parameter, Slot, slots
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import encode_value, float_to_key, key_to_float
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import NULL, TypeName, Value

ByName = Mapping[str, Array]


@dataclass(slots=True)
class Scope:
    """What expressions need besides their row: symbols, parameters, and a place for warnings.

    `bounded`: functions of texts are limited in time and in the length of their results.
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


def evaluate(expr: Expr, columns: ByName, size: int, scope: Scope) -> tuple[Array, Array | None]:
    """The key of an expression for each row, and a mask of the rows where it failed (None:
    nowhere)."""
    if isinstance(expr, Slot):
        return columns[expr.name], None
    if may_be_null(expr):
        keys, failed = _keys(expr, columns, scope)
    else:
        values, failed = _values(expr, columns, scope)
        keys = to_keys(values, expr.type)
    if len(keys) != size:
        keys = np.broadcast_to(keys, (size,))
    if failed is not None and len(failed) != size:
        failed = np.broadcast_to(failed, (size,))
    return keys, failed


def _keys(expr: Expr, columns: ByName, scope: Scope) -> tuple[Array, Array | None]:
    """As `evaluate`; keys of length 1 if all rows have the same."""
    if isinstance(expr, Slot):
        return columns[expr.name], None
    if isinstance(expr, Constant) and expr.value is None:
        return np.full(1, NULL), None
    if isinstance(expr, Apply) and may_be_null(expr):
        if not len(scope.symbols):
            scope.symbols.intern("")  # the first text stands for a null, and is not looked at
        return nulling(np, partial(_keys, scope=scope), expr, columns)
    values, failed = _values(expr, columns, scope)
    return to_keys(values, expr.type), failed


def may_be_null(expr: Expr) -> bool:
    """Whether its keys may be those of nulls, which stand for no values."""
    if isinstance(expr, Constant):
        return expr.value is None
    return isinstance(expr, Apply) and expr.function in NULLING


def nulling(
    xp: Any,
    keys_of: Callable[[Expr, ByName], tuple[Array, Array | None]],
    expr: Apply,
    columns: ByName,
) -> tuple[Array, Array | None]:
    """The keys of a function that makes nulls, or chooses between values that may be null, and
    where it failed. `xp`: the array module of the columns."""
    first, *others = expr.args
    if expr.function == UNLESS_NULL:
        null = xp.zeros(1, dtype=bool)
        for other in others:
            null = null | (keys_of(other, columns)[0] == NULL)
        valid = {name: xp.where(null, 0, columns[name]) for name in slots(first)}
        keys, failed = keys_of(first, valid)
        if xp is np and bool(((keys == NULL) & ~null).any()):
            message = f"{NULL} is the key of a null: no value that may be null can be that great"
            raise EvaluationError(message, expr.span)
        return xp.where(null, xp.int64(NULL), keys), None if failed is None else failed & ~null
    keys, failed = keys_of(first, columns)
    if expr.function == "if":
        (then, bad), (rest, worse) = (keys_of(arg, columns) for arg in others)
        yes = keys != 0
        failed = either(failed, None if bad is None else bad & yes)
        failed = either(failed, None if worse is None else worse & ~yes)
        return xp.where(yes, then, rest), failed
    for other in others:
        more, bad = keys_of(other, columns)
        null = keys == NULL
        keys = xp.where(null, more, keys)
        failed = either(failed, None if bad is None else bad & null)
    return keys, failed


def constant(expr: Expr, scope: Scope) -> tuple[int, bool]:
    """The key of an expression without variables, and whether computing it fails."""
    if isinstance(expr, (Constant, Parameter)):
        value = expr.value if isinstance(expr, Constant) else scope.params[expr.name]
        return encode_value(value, expr.type, scope.symbols), False
    keys, failed = evaluate(expr, {}, 1, scope)
    return int(keys[0]), failed is not None and bool(failed[0])


def test(expr: Expr, columns: ByName, size: int, scope: Scope) -> Array:
    """A mask of the rows that pass a test. Tests do not fail: their operands have been computed
    before."""
    values, _ = _values(expr, columns, scope)
    return np.broadcast_to(values, (size,)) if len(values) != size else values


def _compared_keys(expr: Apply, columns: ByName, scope: Scope) -> Array | None:
    """A comparison of columns and constants by their keys: all but symbols' are in the order of
    values. None for other expressions."""
    if expr.function not in EQUALITY and (
        expr.function not in ORDER or expr.args[0].type == "symbol"
    ):
        return None
    keys: list[Any] = []
    for arg in expr.args:
        if isinstance(arg, Slot):
            keys.append(columns[arg.name])
        elif isinstance(arg, (Constant, Parameter)):
            value = arg.value if isinstance(arg, Constant) else scope.params[arg.name]
            keys.append(encode_value(value, arg.type, scope.symbols))
        elif may_be_null(arg):
            keys.append(_keys(arg, columns, scope)[0])
        else:
            return None
    if all(isinstance(key, int) for key in keys):
        return None
    compared: Array = (EQUALITY.get(expr.function) or ORDER[expr.function])(*keys)
    return compared


def _values(expr: Expr, columns: ByName, scope: Scope) -> tuple[Array, Array | None]:
    if isinstance(expr, Slot):
        return to_values(columns[expr.name], expr.type), None
    if isinstance(expr, (Constant, Parameter)):
        value = expr.value if isinstance(expr, Constant) else scope.params[expr.name]
        key = np.array([encode_value(value, expr.type, scope.symbols)], dtype=np.int64)
        return to_values(key, expr.type), None
    if may_be_null(expr):
        keys, failed = _keys(expr, columns, scope)
        return to_values(keys, expr.type), failed
    compared = _compared_keys(expr, columns, scope)
    if compared is not None:
        return compared, None
    args, failed = [], None
    for arg in expr.args:
        values, bad = _values(arg, columns, scope)
        args.append(values)
        failed = either(failed, bad)
    kind = expr.args[0].type
    if expr.function in EQUALITY or expr.function in ORDER:
        return compare(expr.function, args[0], args[1], kind, scope.symbols), failed
    warn = partial(scope.warn, span=expr.span)
    try:
        values, bad = call(expr.function, args, kind, scope.symbols, warn, scope.bounded)
    except EvaluationError as error:
        error.span = error.span or expr.span
        raise
    return values, either(failed, bad)


def either(one: Array | None, other: Array | None) -> Array | None:
    """The rows in one mask or the other."""
    return one if other is None else other if one is None else one | other
