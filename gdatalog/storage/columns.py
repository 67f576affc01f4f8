"""A column on its way in: NumPy, pandas and Arrow arrays become typed columns.

Nothing is converted silently: a value that is missing, of another type than was declared, or
beyond 64 bits is an error that names its row (counted from 0) and its column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.storage.arrays import (
    arrow_numbers,
    borrowed,
    device_column,
    empty_column,
    encoded,
    fetched,
    floats,
    instants,
    integers,
    lies_on_device,
)
from gdatalog.storage.load_options import DataPlace, shown
from gdatalog.storage.objects import as_int, object_column, odd_decimal
from gdatalog.storage.table import Array, Column
from gdatalog.values import INT_MAX, INT_MIN, TypeName

Typed = tuple[TypeName, Column]


def column_from(raw: Any, declared: TypeName | None, place: DataPlace, there: Any = None) -> Typed:
    """A column of anything that holds one; on a device, if it is on the one of `there`."""
    if isinstance(raw, np.ndarray):
        return numpy_column(raw, declared, place)
    if lies_on_device(raw):
        found = None if there is None else device_column(raw, declared, there)
        if found is not None:
            return found
        raw = fetched(raw)
        if isinstance(raw, np.ndarray):
            return numpy_column(raw, declared, place)
    if type(raw).__module__.split(".")[0] == "pandas":
        return pandas_column(raw, declared, place)
    if hasattr(raw, "__arrow_c_array__") or hasattr(raw, "__arrow_c_stream__"):
        return arrow_column(_arrow_array(raw), declared, place)
    if isinstance(raw, list | tuple):
        return object_column(raw, declared, place)
    if hasattr(raw, "__array__"):
        return numpy_column(np.asarray(raw), declared, place)
    return object_column(list(raw), declared, place)


def _arrow_array(raw: Any) -> Any:
    import pyarrow as pa

    if isinstance(raw, pa.Array | pa.ChunkedArray):
        return raw
    return pa.chunked_array(raw) if hasattr(raw, "__arrow_c_stream__") else pa.array(raw)


def _expect(
    found: TypeName, declared: TypeName | None, place: DataPlace, values: Any
) -> TypeName | None:
    """Agree on a type; None if the column is empty and was declared to be something else."""
    if declared is None or declared == found:
        return found
    if len(values) == 0:
        return None
    raise place.mismatch(0, declared, values[0], found)


# ---------------------------------------------------------------- NumPy


def numpy_column(values: Array, declared: TypeName | None, place: DataPlace) -> Typed:
    """A one-dimensional array; integers of 64 bits and bools are not copied."""
    if values.ndim != 1:
        raise DataError(
            f"{place.what}: column {place.column!r} is an array of {values.ndim} dimensions",
            hint="a column has one value a row",
        )
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if mask.any():
            raise place.missing(int(mask.argmax()), np.ma.masked)
        values = values.data
    kind = values.dtype.kind
    if kind in "OT":
        return object_column(values.astype(object), declared, place)
    if kind == "U":
        return object_column(values.astype(object), declared, place)
    names: dict[str, TypeName] = {"i": "int", "u": "int", "f": "float", "b": "bool"}
    found: TypeName | None = "timestamp" if kind == "M" else names.get(kind)
    if found is None:
        if len(values) == 0:
            return declared or "symbol", empty_column(declared or "symbol")
        raise _wrong_dtype(values, place)
    agreed = _expect(found, declared, place, values)
    if agreed is None:
        assert declared is not None
        return declared, empty_column(declared)
    if agreed == "int":
        return agreed, integers(values, place)
    if agreed == "float":
        return agreed, floats(values, place)
    if agreed == "timestamp":
        return agreed, instants(values, place)
    return agreed, np.ascontiguousarray(values)


def _wrong_dtype(values: Array, place: DataPlace) -> DataError:
    cures = {
        "S": "decode the bytes first, numpy.char.decode(values)",
        "m": "a duration is not a value: take its seconds, .dt.total_seconds()",
        "c": "store the real and the imaginary part as two columns of floats",
    }
    message = f"cannot store {shown(values[0])}, of dtype {values.dtype}"
    return place.error(0, message, cures.get(values.dtype.kind))


# ---------------------------------------------------------------- pandas


def pandas_column(raw: Any, declared: TypeName | None, place: DataPlace) -> Typed:
    """A Series, an Index or an extension array."""
    import pandas as pd
    import pyarrow as pa

    series = raw if isinstance(raw, pd.Series) else pd.Series(raw)
    dtype: Any = series.dtype
    if isinstance(dtype, np.dtype):
        values = series.to_numpy()
        if dtype.kind in "iu" and int(pd.__version__.split(".")[0]) >= 3:
            values = borrowed(values, series.copy(deep=False))
        return numpy_column(values, declared, place)
    if isinstance(dtype, pd.DatetimeTZDtype):
        naive = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return numpy_column(naive.to_numpy(), declared, place)
    if isinstance(dtype, pd.SparseDtype):
        return numpy_column(np.asarray(series), declared, place)
    if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype):
        return object_column(list(series), declared, place)
    try:
        values = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return object_column(list(series), declared, place)
    return arrow_column(values, declared, place)


# ---------------------------------------------------------------- Arrow


def arrow_column(values: Any, declared: TypeName | None, place: DataPlace) -> Typed:
    """An Array or ChunkedArray of any type that has a meaning here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    if types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    if types.is_dictionary(values.type):
        # A dictionary may repeat a text or hold a null: decoding settles both.
        values = _decoded(values)
    if len(values) == 0 and types.is_null(values.type):
        return declared or "symbol", empty_column(declared or "symbol")
    if values.null_count:
        raise place.missing(pc.index(pc.is_null(values), True).as_py(), None)
    if types.is_decimal(values.type):
        values = _whole(values, place)
    kind = values.type
    found = arrow_type(kind)
    if found is None:
        if len(values) == 0:
            return declared or "symbol", empty_column(declared or "symbol")
        raise _wrong_arrow(values, place)
    agreed = _expect(found, declared, place, values)
    if agreed is None:
        assert declared is not None
        return declared, empty_column(declared)
    if agreed == "symbol":
        try:
            return agreed, encoded(values)
        except (UnicodeDecodeError, pa.ArrowException) as error:
            message = f"{place.what}: column {place.column!r}: a text is not valid UTF-8"
            raise DataError(message) from error
    if agreed == "timestamp" and not types.is_timestamp(kind):
        values = values.cast(pa.timestamp("ms"))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if agreed == "int":
        return agreed, integers(arrow_numbers(values), place)
    if agreed == "float":
        return agreed, floats(arrow_numbers(values), place)
    if agreed == "timestamp":
        unit = values.type.unit
        plain = arrow_numbers(values.cast(pa.int64()))
        return agreed, instants(plain.view(f"datetime64[{unit}]"), place)
    return agreed, values.to_numpy(zero_copy_only=False)


def _whole(values: Any, place: DataPlace) -> Any:
    """Decimals as ints, which they are if they have no fraction and fit."""
    import pyarrow as pa

    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        row, odd = next(
            (row, value)
            for row, value in enumerate(values.to_pylist())
            if as_int(value) is None or not INT_MIN <= value <= INT_MAX
        )
        raise odd_decimal(row, odd, place) from None


def _decoded(values: Any) -> Any:
    """A dictionary's values, one a row; strings with 64-bit offsets, so that they fit."""
    import pyarrow as pa

    kind = values.type.value_type
    wide = pa.large_string() if arrow_type(kind) == "symbol" else kind
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    try:
        parts = [chunk.dictionary.cast(wide).take(chunk.indices) for chunk in chunks]
    except pa.ArrowNotImplementedError:  # string views, before pyarrow 18
        parts = [pa.array(chunk.to_pylist(), wide) for chunk in chunks]
    return pa.chunked_array(parts, wide)


def arrow_type(kind: Any) -> TypeName | None:
    """The type of an Arrow type's values; None if they are no values here."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return "int"
    if types.is_floating(kind):
        return "float"
    if types.is_boolean(kind):
        return "bool"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "timestamp"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "symbol"
    return None


def _wrong_arrow(values: Any, place: DataPlace) -> DataError:
    hint = "cast the column to int64, double, bool, string or timestamp"
    message = f"cannot store {shown(values[0].as_py())}, of Arrow type {values.type}"
    return place.error(0, message, hint)
