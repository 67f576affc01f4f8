"""Keys: integers whose order is the order of the values that they stand for.

int, bool and timestamp are their own keys; a float's key is its bit pattern, mended so that it
orders as the float does; a symbol's key is its code in the symbol table, which has no order.
Columns of keys are kept in 32 bits where they fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.storage.rows import INT32_MAX, INT32_MIN
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import DTYPES, Array, Column, Texts
from gdatalog.values import TypeName, Value


def float_to_key(values: Array) -> Array:
    """
    >>> float_to_key(np.array([-1.5, 0.0, 2.0])).tolist() == sorted(
    ...     float_to_key(np.array([2.0, -1.5, 0.0])).tolist())
    True
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


def key_to_float(keys: Array) -> Array:
    bits = keys.astype(np.int64, copy=False)
    mended: Array = (bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))).view(np.float64)
    return mended


def narrow(keys: Array) -> Array:
    """The same integers in 32 bits where they fit, else in 64."""
    if keys.dtype == np.int32:
        return keys
    if len(keys) == 0:
        return keys.astype(np.int32)
    if int(keys.min()) >= INT32_MIN and int(keys.max()) <= INT32_MAX:
        return keys.astype(np.int32)
    return keys.astype(np.int64, copy=False)


def encode_column(column: Column, kind: TypeName, symbols: SymbolTable) -> Array:
    """The keys of a column of a table."""
    if isinstance(column, Texts):
        return symbols.encode(column)
    if kind == "float":
        return float_to_key(column)
    if kind == "bool":
        return column.astype(np.int32)
    return narrow(column)


def decode_column(keys: Array, kind: TypeName, symbols: SymbolTable) -> Column:
    """A column as people know it, of its keys."""
    if kind == "symbol":
        return symbols.decode(keys)
    if kind == "float":
        return key_to_float(keys)
    return keys.astype(DTYPES[kind])


def encode_value(value: Value, kind: TypeName, symbols: SymbolTable) -> int:
    """The key of one value."""
    if kind == "symbol":
        return symbols.intern(str(value))
    if kind == "float":
        return int(float_to_key(np.array([value], dtype=np.float64))[0])
    return int(value)


def decode_value(key: int, kind: TypeName, symbols: SymbolTable) -> Any:
    """One value, as a Python int, float, bool or str (a timestamp stays nanoseconds)."""
    if kind == "symbol":
        return symbols.text(key)
    if kind == "float":
        return float(key_to_float(np.array([key], dtype=np.int64))[0])
    return bool(key) if kind == "bool" else int(key)
