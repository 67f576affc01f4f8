"""Functions of one string, computed once for each code of the symbol table.

Codes never change, so what has been computed for a table of symbols is kept, and added to when
the table has grown.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cpu_ops.evaluate import Scope, evaluate, to_keys, to_values
from gdatalog.cpu_ops.functions import call
from gdatalog.plan.nodes import Apply, slots
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

_KEPT = 32  # tables of one symbol table, of which the oldest goes


@dataclass(frozen=True, slots=True)
class _Filled:
    values: Array
    failed: Array
    warnings: tuple[str, ...]


_filled: WeakKeyDictionary[SymbolTable, dict[tuple[object, ...], _Filled]] = WeakKeyDictionary()


def fill(expr: Apply, scope: Scope) -> tuple[Array, Array]:
    """What `expr` is of each code that its varying argument may be, and where it failed.

    The function's other arguments have no variables. What it is are keys, or bytes of 0 and 1.
    """
    symbols = scope.symbols
    fixed = tuple(None if slots(arg) else _value(arg, scope) for arg in expr.args)
    kept = _filled.setdefault(symbols, {})
    what = (expr.function, fixed)
    size = len(symbols)
    done = kept.pop(what, None)
    start = len(done.values) if done is not None else 0
    if done is None or start < size:
        done = _extended(done, expr, fixed, np.arange(start, size), scope)
    kept[what] = done  # now the youngest
    while len(kept) > _KEPT:
        kept.pop(next(iter(kept)), None)
    for warning in done.warnings:
        scope.warn(warning, expr.span)
    return done.values, done.failed


def _value(expr: object, scope: Scope) -> int:
    keys, _ = evaluate(expr, _no_column, 1, scope)  # type: ignore[arg-type]
    return int(keys[0])


def _no_column(name: str) -> Array:
    raise KeyError(name)


def _extended(
    done: _Filled | None, expr: Apply, fixed: tuple[int | None, ...], codes: Array, scope: Scope
) -> _Filled:
    """The table with the outcomes of more codes."""
    warnings: list[str] = []
    args = [
        codes if key is None else to_values(np.array([key]), arg.type)
        for key, arg in zip(fixed, expr.args, strict=True)
    ]
    kind = expr.args[0].type
    values, failed = call(expr.function, args, kind, scope.symbols, warnings.append)
    keys = values.view(np.uint8) if expr.type == "bool" else to_keys(values, expr.type)
    bad = np.zeros(len(codes), np.uint8) if failed is None else failed.view(np.uint8)
    if done is None:
        return _Filled(np.ascontiguousarray(keys), np.ascontiguousarray(bad), tuple(warnings))
    return _Filled(
        np.concatenate([done.values, keys]), np.concatenate([done.failed, bad]), done.warnings
    )
