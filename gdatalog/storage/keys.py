"""Keys: integers in the order of the values that they represent (docs/internals/values.md).

int and bool are their own keys; a timestamp's and a duration's are nanoseconds, a date's days. A
float's key is its bit pattern, changed so that keys have the order of floats. A symbol's key is its
code in the symbol table, which has no order. Columns of keys have 32 bits if these suffice. A null
of any type has the key `NULL`, which no value of a nullable column has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.storage.dictionary import CodedColumn
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import DTYPES, Array, Column, NullableColumn, TextColumn
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import NULL, TypeName, Value, constant_text

_PIECE = 1 << 19  # keys in one batch of decoding


def float_to_key(values: Array) -> Array:
    """
    >>> float_to_key(np.array([-1.5, 0.0, 2.0])).tolist() == sorted(
    ...     float_to_key(np.array([2.0, -1.5, 0.0])).tolist())
    True
    """
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)


def key_to_float(keys: Array) -> Array:
    bits = keys.astype(np.int64, copy=False)
    mended: Array = bits >> 63
    mended &= 0x7FFF_FFFF_FFFF_FFFF
    mended ^= bits
    return mended.view(np.float64)


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
    """The keys of a column of a table; 64 bits each if it is nullable."""
    if isinstance(column, NullableColumn):
        keys = encode_column(column.values, kind, symbols).astype(np.int64)
        check_no_nulls(keys[~column.missing], kind)
        keys[column.missing] = NULL
        return keys
    if isinstance(column, TextColumn):
        return symbols.encode(column)
    if kind == "float":
        return float_to_key(column)
    if kind == "bool":
        return column.astype(np.int32)
    return narrow(column)


def check_no_nulls(keys: Array, kind: TypeName) -> None:
    """Raises if a value of a nullable column has the key of a null."""
    if kind in ("int", "timestamp", "duration") and (keys == NULL).any():
        value = constant_text(kind, NULL)
        message = f"a column with missing values cannot hold {value}: its key is that of a null"
        raise DataError(message, hint='fill={"column": value} or nulls="drop" leaves no nulls')


def decode_blocks(
    blocks: Sequence[Columns],
    types: Sequence[TypeName],
    symbols: SymbolTable,
    room: Callable[[int, np.dtype[np.generic]], Array] = np.empty,
    nullable: Sequence[bool] = (),
) -> tuple[Column, ...]:
    """Columns of values, decoded from the keys of all blocks; they share no memory with these.

    `room` allocates the result arrays, by length and dtype. `nullable`: the columns that may hold
    nulls; empty: none.
    """
    if any(nullable):
        return tuple(
            decode_nullable([block[at] for block in blocks], kind, symbols)
            if nullable[at]
            else decode_blocks([(block[at],) for block in blocks], [kind], symbols, room)[0]
            for at, kind in enumerate(types)
        )
    length = sum(len(block[0]) for block in blocks if block)
    columns: list[Column] = []
    # the array for values, their type, their keys
    todo: list[tuple[Array, TypeName, Array | CodedColumn]] = []
    for at, kind in enumerate(types):
        parts = [block[at] for block in blocks]
        if kind == "symbol":
            codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
            columns.append(symbols.decode(codes))
            continue
        values = room(length, DTYPES[kind])
        columns.append(values)
        start = 0
        for part in parts:
            for row in range(0, len(part), _PIECE):
                piece = part[row : row + _PIECE]
                todo.append((values[start : start + len(piece)], kind, piece))
                start += len(piece)

    def decode(task: tuple[Array, TypeName, Array | CodedColumn]) -> None:
        values, kind, keys = task
        if isinstance(keys, CodedColumn):
            keys.decode(values)
        else:
            values[:] = key_to_float(keys) if kind == "float" else keys

    if length >= LONG:
        spread(decode, todo, True)
    else:
        for task in todo:
            decode(task)
    return tuple(columns)


def decode_nullable(parts: Sequence[Array], kind: TypeName, symbols: SymbolTable) -> NullableColumn:
    """A column of values and nulls, decoded from its keys."""
    none: Array = np.empty(0, dtype=np.int64)
    keys = np.concatenate([none, *(np.asarray(part, dtype=np.int64) for part in parts)])
    missing: Array = keys == NULL
    if kind == "symbol" and missing.any():
        keys[missing] = 0 if len(symbols) else symbols.intern("")  # any text
    elif missing.any():
        keys[missing] = 0
    (values,) = decode_blocks(
        [(keys.astype(np.int32) if kind == "symbol" else keys,)], [kind], symbols
    )
    assert not isinstance(values, NullableColumn)
    return NullableColumn(values, missing)


def encode_value(value: Value | None, kind: TypeName, symbols: SymbolTable) -> int:
    """The key of one value; None is a null."""
    if value is None:
        return NULL
    return symbols.intern(str(value)) if kind == "symbol" else key_of(value, kind)


def encode_values(values: Sequence[Value | None], kind: TypeName, symbols: SymbolTable) -> Array:
    """The keys of values of one type; None is a null."""
    if None in values:
        keys = np.full(len(values), NULL, dtype=np.int64)
        there = [value for value in values if value is not None]
        keys[[value is not None for value in values]] = encode_values(there, kind, symbols)
        return keys
    if kind == "float":
        return float_to_key(np.array(values, dtype=np.float64))
    if kind == "symbol":
        return symbols.intern_many(list(map(str, values)))
    return np.array(values, dtype=np.int64)


def key_of(value: Value, kind: TypeName) -> int:
    """The key of one value other than a symbol."""
    if kind == "float":
        return int(float_to_key(np.array([value], dtype=np.float64))[0])
    return int(value)


def decode_value(key: int, kind: TypeName, symbols: SymbolTable) -> Any:
    """One value of a column without nulls, as a Python int, float, bool or str (a timestamp stays
    nanoseconds)."""
    if kind == "symbol":
        return symbols.text(key)
    if kind == "float":
        return float(key_to_float(np.array([key], dtype=np.int64))[0])
    return bool(key) if kind == "bool" else int(key)
