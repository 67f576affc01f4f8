"""The arrays of tables, on the host or a device: integers, floats, nanoseconds, encoded texts."""

from __future__ import annotations

import math

import numpy as np

from gdatalog.storage.imported_later import pa
from gdatalog.storage.places import DataPlace
from gdatalog.storage.table import DTYPES, Array, Column, NullableColumn, TextColumn
from gdatalog.values import FIRST_DAY, INT_MAX, LAST_DAY, TypeName


def empty_column(kind: TypeName, nullable: bool = False) -> Column:
    if nullable:
        values = empty_column(kind)
        assert not isinstance(values, NullableColumn)
        return NullableColumn(values, np.empty(0, dtype=np.bool_))
    if kind == "symbol":
        return TextColumn(np.empty(0, dtype=np.int32), np.empty(0, dtype=object))
    return np.empty(0, dtype=DTYPES[kind])


def integers(values: Array, place: DataPlace) -> Array:
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        big = values > np.uint64(INT_MAX)
        if big.any():
            row = int(big.argmax())
            raise place.too_big(row, values[row])
    # Columns of 32 bits stay so: most of the time of loading is copying.
    dtype = np.int32 if np.can_cast(values.dtype, np.int32) else np.int64
    return np.ascontiguousarray(values.astype(dtype, copy=False))


class _Borrowed:
    """The memory of an array, with a reference to its owner."""

    def __init__(self, values: Array, keeper: object) -> None:
        self.__array_interface__ = values.__array_interface__
        self.kept = values, keeper


def borrowed(values: Array, keeper: object) -> Array:
    """The same array, which keeps `keeper` alive; its contents must not change.

    pandas 3 guarantees that: it copies shared data before a change.
    """
    return np.asarray(_Borrowed(values, keeper))


def is_borrowed(values: Array) -> bool:
    """Whether `borrowed` made the array, so that it need not be copied."""
    return isinstance(values.base, _Borrowed)


def floats(values: Array, place: DataPlace) -> Array:
    # Adding 0.0 turns -0.0 into 0.0, and copies, so the caller's array is not changed.
    result = values.astype(np.float64, copy=False) + 0.0
    bad = np.isnan(result)
    if bad.any():
        raise place.missing(int(bad.argmax()), math.nan)
    return result


def durations(values: Array, place: DataPlace) -> Array:
    """Nanoseconds of a timedelta64 of any unit up to weeks."""
    missing = np.isnat(values)
    if missing.any():
        raise place.missing(int(missing.argmax()), values[int(missing.argmax())])
    unit = np.datetime_data(values.dtype)[0]
    if unit not in ("W", "D", "h", "m", "s", "ms", "us", "ns"):
        raise place.error(0, f"cannot store durations of dtype {values.dtype}")
    made: Array = values.astype("timedelta64[ns]")
    wrong = made.astype(values.dtype) != values  # NumPy wraps around
    if wrong.any():
        row = int(wrong.argmax())
        message = f"the duration {values[row]} is beyond 292 years"
        raise place.error(row, message, "a duration counts nanoseconds in 64 bits")
    return np.ascontiguousarray(made).view(np.int64)


def days(values: Array, place: DataPlace) -> Array:
    """Days since 1970, which must be of the years 1 to 9999."""
    wrong = (values < FIRST_DAY) | (values > LAST_DAY)
    if wrong.any():
        raise place.error(int(wrong.argmax()), "a date is beyond the years 1 to 9999")
    return np.ascontiguousarray(values.astype(np.int32, copy=False))


def moments(values: Array, place: DataPlace) -> Array:
    """The midnights of days, in nanoseconds."""
    return instants(values.astype("datetime64[D]"), place)


def instants(values: Array, place: DataPlace) -> Array:
    """Nanoseconds of a datetime64 of any unit. NumPy would wrap around silently, so the range is
    checked first."""
    missing = np.isnat(values)
    if missing.any():
        raise place.missing(int(missing.argmax()), values[int(missing.argmax())])
    unit = np.datetime_data(values.dtype)[0]
    if unit in ("ps", "fs", "as") or unit == "generic":
        raise place.error(0, f"cannot store times of dtype {values.dtype}")
    if unit != "ns":
        years = values.astype("datetime64[s]").view(np.int64)
        limit = INT_MAX // 1_000_000_000 - 1
        far = (years > limit) | (years < -limit)
        if far.any():
            row = int(far.argmax())
            raise place.error(
                row,
                f"the time {values[row]} is beyond the years 1678 to 2262",
                "a timestamp counts nanoseconds in 64 bits",
            )
    return np.ascontiguousarray(values.astype("datetime64[ns]", copy=False)).view(np.int64)


def arrow_numbers(values: pa.Array) -> Array:
    """The numbers of an Arrow column without nulls; its own `to_numpy` would import pandas."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return np.from_dlpack(values)


_DECODED_ALONE = 100_000  # texts: so few are decoded one by one, without importing pandas


def encoded(values: pa.Array) -> TextColumn:
    """An Arrow column of strings without nulls, as codes and distinct texts."""
    try:
        values = values.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # string views, before pyarrow 18
        values = pa.array(values.to_pylist(), pa.large_string())
    if isinstance(values, pa.ChunkedArray):
        # Concatenated before they are encoded: unifying many dictionaries takes far longer.
        values = values.combine_chunks()
    found = values.dictionary_encode()
    if len(found.dictionary) <= _DECODED_ALONE:
        texts = np.array(found.dictionary.to_pylist(), dtype=object)
    else:
        texts = found.dictionary.to_numpy(zero_copy_only=False)
    return TextColumn(arrow_numbers(found.indices), texts)
