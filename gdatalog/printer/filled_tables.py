"""Tables of functions of symbols, which printed loops look up."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cpu_ops.expressions import Scope, constant, to_keys, to_values
from gdatalog.cpu_ops.functions import call
from gdatalog.plan.join_plan import Apply, slots
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
    """The value of `expr` for each code of its one argument with a variable, and a flag for each
    code for which it fails. Values are keys; bools are bytes of 0 and 1."""
    fixed = tuple(None if slots(arg) else constant(arg, scope)[0] for arg in expr.args)
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
