"""Functions of one string, computed once for each code of the symbol table.

Codes never change, so results are cached for a symbol table, and extended when it grows.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cpu_ops.functions import Scope, call, evaluate, to_keys, to_values
from gdatalog.plan import Apply, Expr, slots
from gdatalog.records import dataclass
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

_KEPT = 32  # cached tables of a symbol table; the least recently used is evicted


@dataclass(frozen=True, slots=True)
class _Filled:
    values: Array
    failed: Array
    warnings: tuple[str, ...]


_Tables = dict[tuple[object, ...], _Filled]
_filled: WeakKeyDictionary[SymbolTable, _Tables] = WeakKeyDictionary()
_lock = Lock()


def fill(expr: Apply, scope: Scope) -> tuple[Array, Array]:
    """The values of `expr` for each code of its varying argument, and where it failed.

    The other arguments have no variables. Values are keys, or bytes of 0 and 1 for bools.
    """
    fixed = tuple(None if slots(arg) else _value(arg, scope) for arg in expr.args)
    what = (expr.function, fixed)
    size = len(scope.symbols)
    with _lock:
        done = _filled.setdefault(scope.symbols, {}).get(what)
    if done is None or len(done.values) < size:
        done = _extended(done, size, expr, fixed, scope)
    with _lock:
        kept = _filled[scope.symbols]
        kept.pop(what, None)
        kept[what] = done  # now the most recently used
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]
    for warning in done.warnings:
        scope.warn(warning, expr.span)
    return done.values, done.failed


def _value(expr: Expr, scope: Scope) -> int:
    keys, _ = evaluate(expr, _no_column, 1, scope)
    return int(keys[0])


def _no_column(name: str) -> Array:
    raise AssertionError(name)


def _extended(
    done: _Filled | None, size: int, expr: Apply, fixed: tuple[int | None, ...], scope: Scope
) -> _Filled:
    """The table with results for all codes below `size`."""
    warnings: list[str] = []
    codes = np.arange(0 if done is None else len(done.values), size)
    args = [
        codes if key is None else to_values(np.array([key]), arg.type)
        for key, arg in zip(fixed, expr.args, strict=True)
    ]
    kind = expr.args[0].type
    values, failed = call(expr.function, args, kind, scope.symbols, warnings.append, scope.bounded)
    keys = values.view(np.uint8) if expr.type == "bool" else to_keys(values, expr.type)
    bad = np.zeros(len(codes), np.uint8) if failed is None else failed.view(np.uint8)
    if done is None:
        return _Filled(np.ascontiguousarray(keys), np.ascontiguousarray(bad), tuple(warnings))
    return _Filled(
        np.concatenate([done.values, keys]), np.concatenate([done.failed, bad]), done.warnings
    )
