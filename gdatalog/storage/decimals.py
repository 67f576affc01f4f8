"""Decimals on their way in and out: scaled ints, from and to Arrow's and Python's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gdatalog.decimals import (
    DIGITS,
    LIMIT,
    decimal_from_text,
    decimal_of,
    decimal_type,
    digits_after,
    scaled,
)
from gdatalog.errors import DataError
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.places import DataPlace, shown
from gdatalog.storage.table import Array, Column


def as_int(value: Decimal) -> int | None:
    """A decimal that has no fraction, as an int."""
    whole = value.is_finite() and value == value.to_integral_value()
    return int(value) if whole else None


def written_digits(values: Iterable[Any]) -> int:
    """The most digits after the point that Python's decimals are written with, up to `DIGITS`."""
    found = (value.as_tuple().exponent for value in values if isinstance(value, Decimal))
    return min(DIGITS, max((-each for each in found if isinstance(each, int)), default=0))


def decimal_column(values: Sequence[Any] | Array, scale: int, place: DataPlace) -> Array:
    """The scaled ints of Python's decimals, ints and texts, and of floats as they are written."""
    if set(map(type, values)) == {Decimal}:
        try:
            ints = _ints(pa.array(values, pa.decimal128(38, scale)))
        except pa.ArrowInvalid:
            ints = None  # one does not fit: which?
        if ints is not None:
            return ints
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if isinstance(value, float):
            value = decimal_of(value)
        if isinstance(value, str):
            told = decimal_from_text(value, scale)
            if told is None:
                raise place.error(row, f"expected {decimal_type(scale)}, found {shown(value)}")
            found[row] = told
            continue
        if not isinstance(value, Decimal | int):
            raise place.missing(row, value)
        whole = scaled(Decimal(value), scale)
        if whole is None:
            if isinstance(value, Decimal) and value.is_nan():
                raise place.missing(row, value)
            raise unfit(row, Decimal(value), scale, place)
        found[row] = whole
    return found


def unfit(row: int, value: Decimal, scale: int, place: DataPlace) -> DataError:
    """The error for a decimal that a column does not hold."""
    if value.is_finite() and digits_after(value) > scale:
        message = f"{shown(value)} has more than {scale} digits after the point"
        hint = "round the column, or declare it with more: "
        hint += f"decimal({DIGITS}, {min(DIGITS, digits_after(value))})"
    else:
        message = f"{shown(value)} has more than {DIGITS} digits, {scale} of them after the point"
        hint = "convert the column to float if it is a quantity, to text if it is an identifier"
    return place.error(row, message, hint)


def of_arrow(values: pa.Array, scale: int, place: DataPlace) -> Array:
    """The scaled ints of Arrow's decimals of any width, without nulls."""
    try:
        found = _ints(values.cast(pa.decimal128(38, scale)))
    except pa.ArrowInvalid:
        found = None
    if found is None:
        raise _odd(values, scale, place)
    return found


def _ints(values: pa.Array) -> Array | None:
    """The ints of decimal128; None if one has more than `DIGITS` digits."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    halves: Array = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)
    low, high = halves[values.offset : values.offset + len(values)].T
    if (high != low >> 63).any() or (low >= LIMIT).any() or (low <= -LIMIT).any():
        return None
    return np.ascontiguousarray(low)


def _odd(values: pa.Array, scale: int, place: DataPlace) -> DataError:
    """The error for the first of Arrow's decimals that a column does not hold."""
    pairs = enumerate(values.to_pylist())
    row, value = next(pair for pair in pairs if scaled(pair[1], scale) is None)
    return unfit(row, value, scale, place)


def to_arrow(column: Column, scale: int) -> pa.Array:
    """Scaled ints as decimal128, ints too."""
    halves = np.empty((len(column), 2), dtype=np.int64)
    halves[:, 0] = np.asarray(column)
    halves[:, 1] = halves[:, 0] >> 63
    kind = pa.decimal128(DIGITS if scale else DIGITS + 1, scale)
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(halves)])


def to_python(column: Array, scale: int) -> list[Decimal]:
    """Scaled ints as Python's decimals."""
    return [Decimal(key).scaleb(-scale) for key in column.tolist()]


def from_texts(cells: pa.Array, scale: int) -> Array | None:
    """The scaled ints of texts; None if Arrow cannot read one, or reads more digits."""
    try:
        return _ints(pc.cast(cells, pa.decimal128(38, scale)))
    except pa.ArrowInvalid:
        return None
