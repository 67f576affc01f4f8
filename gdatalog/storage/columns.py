"""Columns of data become typed columns: NumPy, pandas and Arrow arrays, and Python values.

Nothing is converted silently: a value that is missing, of another type than was declared, or
beyond 64 bits is an error that names its row (counted from 0) and its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf
from typing import Any

import numpy as np

from gdatalog.decimals import DIGITS, decimal_type, scale_of
from gdatalog.errors import DataError
from gdatalog.storage.column_arrays import (
    arrow_numbers,
    borrowed,
    days,
    durations,
    empty_column,
    encoded,
    floats,
    instants,
    integers,
    moments,
)
from gdatalog.storage.decimals import as_int, decimal_column, of_arrow, written_digits
from gdatalog.storage.device_columns import device_column, fetched, lies_on_device
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.places import DataPlace, SomeRows, shown
from gdatalog.storage.table import Array, Column, TextColumn
from gdatalog.values import (
    INT_MAX,
    INT_MIN,
    TIME_TEXTS,
    TypeName,
    date_from_text,
    duration_from_text,
    is_unicode,
    nanoseconds_of,
    plain,
    timestamp_from_text,
)

Typed = tuple[TypeName, Column]
Values = Sequence[Any] | Array


def column_from(raw: Any, declared: TypeName | None, place: DataPlace, there: Any = None) -> Typed:
    """A typed column from any array or sequence. It stays on a device if `there` is that device."""
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
        return arrow_column(arrow_array(raw), declared, place)
    if isinstance(raw, list | tuple):
        return object_column(raw, declared, place)
    if hasattr(raw, "__array__"):
        return numpy_column(np.asarray(raw), declared, place)
    return object_column(list(raw), declared, place)


def arrow_array(raw: Any) -> pa.Array:
    """The Array or ChunkedArray of any object with Arrow's interface."""
    if isinstance(raw, pa.Array | pa.ChunkedArray):
        return raw
    return pa.chunked_array(raw) if hasattr(raw, "__arrow_c_stream__") else pa.array(raw)


def _agree(found: TypeName, declared: TypeName | None, place: DataPlace, values: Values) -> None:
    """Raises if values are of another type than was declared."""
    if declared not in (None, found) and (found, declared) != ("date", "timestamp"):
        raise place.mismatch(0, declared, values[0], found)


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
    if kind in "OTU":
        return object_column(values.astype(object), declared, place)
    found = _NUMPY.get(kind)
    if values.dtype == "M8[D]":
        found = "date"
    if len(values) == 0:
        return _nothing(declared or found)
    if found is None:
        raise _wrong_dtype(values, place)
    _agree(found, declared, place, values)
    if found == "bool":
        return found, np.ascontiguousarray(values)
    if found == "date":
        missing = np.isnat(values)
        if missing.any():
            raise place.missing(int(missing.argmax()), values[int(missing.argmax())])
        return _dates(values.view(np.int64), declared, place)
    made = {"int": integers, "float": floats, "timestamp": instants, "duration": durations}[found]
    return found, made(values, place)


_NUMPY: dict[str, TypeName] = {
    "i": "int", "u": "int", "f": "float", "b": "bool", "M": "timestamp", "m": "duration",
}  # fmt: skip


def _dates(values: Array, declared: TypeName | None, place: DataPlace) -> Typed:
    """A column of dates, or of their midnights, if timestamps are declared."""
    if declared == "timestamp":
        return "timestamp", moments(values, place)
    return "date", days(values, place)


def _nothing(kind: TypeName | None) -> Typed:
    """A column without values."""
    return kind or "symbol", empty_column(kind or "symbol")


def _wrong_dtype(values: Array, place: DataPlace) -> DataError:
    cures = {
        "S": "decode the bytes first, numpy.char.decode(values)",
        "c": "store the real and the imaginary part as two columns of floats",
    }
    message = f"cannot store {shown(values[0])}, of dtype {values.dtype}"
    return place.error(0, message, cures.get(values.dtype.kind))


def pandas_column(raw: Any, declared: TypeName | None, place: DataPlace) -> Typed:
    """A Series, an Index or an extension array."""
    import pandas as pd

    series = raw if isinstance(raw, pd.Series) else pd.Series(raw)
    dtype = series.dtype
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


def arrow_column(values: pa.Array, declared: TypeName | None, place: DataPlace) -> Typed:
    """A column from an Array or ChunkedArray of any supported type."""
    types = pa.types
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    if types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    if types.is_dictionary(values.type):
        # A dictionary may repeat a text or contain a null: decoding handles both.
        values = _decoded(values)
    if values.null_count:
        raise place.missing(pc.index(pc.is_null(values), True).as_py(), None)
    if types.is_decimal(values.type):
        scale = scale_of(declared) or max(0, min(DIGITS, values.type.scale))
        if len(values) and scale and (declared is None or scale_of(declared)):
            return decimal_type(scale), of_arrow(values, scale, place)
        if declared == "int" or not scale:
            values = _whole(values, declared, place)
    kind = values.type
    found = arrow_type(kind)
    if len(values) == 0:
        return _nothing(declared or found)
    if found is None:
        message = f"cannot store {shown(values[0].as_py())}, of Arrow type {values.type}"
        hint = "cast the column to int64, double, bool, string, timestamp, date or duration"
        if types.is_time(values.type):
            hint = "a time of day can be a duration since midnight: cast it to int64 and duration"
        elif types.is_nested(values.type):
            hint = "a relation has plain values: a column for each field, a row for each element"
        raise place.error(0, message, hint)
    _agree(found, declared, place, values)
    if found == "symbol":
        try:
            return found, encoded(values)
        except (UnicodeDecodeError, pa.ArrowException) as error:
            message = f"{place.what}: column {place.column!r}: a text is not valid UTF-8"
            raise DataError(message) from error
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if found == "bool":
        return found, values.to_numpy(zero_copy_only=False)
    if found == "date":
        try:
            counted = arrow_numbers(values.cast(pa.date32()).cast(pa.int32()))
        except pa.ArrowInvalid:
            hint = 'cast the column to timestamp("ms")'
            raise place.error(0, "some dates have a time of day", hint) from None
        return _dates(counted, declared, place)
    if found not in ("timestamp", "duration"):
        return numpy_column(arrow_numbers(values), found, place)
    dtype = f"{'datetime64' if found == 'timestamp' else 'timedelta64'}[{values.type.unit}]"
    return numpy_column(arrow_numbers(values.cast(pa.int64())).view(dtype), found, place)


def _whole(values: pa.Array, declared: TypeName | None, place: DataPlace) -> pa.Array:
    """Decimals as ints: they must have no fraction and fit 64 bits."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        row, odd = next(
            (row, value)
            for row, value in enumerate(values.to_pylist())
            if as_int(value) is None or not INT_MIN <= value <= INT_MAX
        )
        raise _odd_decimal(row, odd, declared, place) from None


def _decoded(values: pa.Array) -> pa.Array:
    """A dictionary's values, one for each row; strings get 64-bit offsets, so that they fit."""
    kind = values.type.value_type
    wide = pa.large_string() if arrow_type(kind) == "symbol" else kind
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    try:
        parts = [chunk.dictionary.cast(wide).take(chunk.indices) for chunk in chunks]
    except pa.ArrowNotImplementedError:  # string views, before pyarrow 18
        parts = [pa.array(chunk.to_pylist(), wide) for chunk in chunks]
    return pa.chunked_array(parts, wide)


def arrow_type(kind: pa.DataType) -> TypeName | None:
    """The type that an Arrow type is loaded as; None if it is not supported."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return "int"
    if types.is_decimal(kind):
        return decimal_type(max(0, min(DIGITS, kind.scale)))
    if types.is_floating(kind):
        return "float"
    if types.is_boolean(kind):
        return "bool"
    if types.is_timestamp(kind):
        return "timestamp"
    if types.is_date(kind):
        return "date"
    if types.is_duration(kind):
        return "duration"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "symbol"
    return None


# Columns of Python values: all of one type, or an error that shows the first odd one.
#
# Ints may stand between floats, as in the language's literals, if the float equals the int exactly.

_PLAIN = {int, float, str, bool}
_INFINITE = {"inf": inf, "-inf": -inf}

Kind = TypeName | str | None  # a type, "missing", or None for unsupported values


def _kind(of: type) -> Kind:
    if of is type(None) or of.__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return "missing"
    order: Iterable[tuple[TypeName, tuple[type, ...]]] = (
        ("bool", (bool, np.bool_)),
        ("int", (int, np.integer)),
        ("float", (float, np.floating)),
        ("symbol", (str,)),
        ("decimal", (Decimal,)),
        ("timestamp", (datetime, np.datetime64)),
        ("date", (date,)),
    )
    # numpy.timedelta64 is a subclass of numpy.signedinteger.
    if issubclass(of, timedelta | np.timedelta64):
        return "duration"
    return next((name for name, types in order if issubclass(of, types)), None)


def object_column(
    values: Values, declared: TypeName | None, place: DataPlace, *, json: bool = False
) -> Typed:
    """A column of Python values; `json`: an ISO 8601 text may stand for a declared timestamp, and
    "inf" and "-inf" for floats."""
    if len(values) == 0:
        return _nothing(declared)
    seen = set(map(type, values))
    numbers = declared == "float" or (declared is None and not seen.isdisjoint((int, float)))
    if json and numbers and str in seen:
        values = _with_infinities(values)
        seen = set(map(type, values))
    exact = {Decimal, int, float, str} if json and scale_of(declared) else {Decimal, int}
    if all(of in exact or _kind(of) == "missing" for of in seen):
        scale = scale_of(declared)
        if declared is None and Decimal in seen:
            scale = written_digits(values)
        if scale:
            return decimal_type(scale), decimal_column(values, scale, place)
    if Decimal in seen:
        values = _without_decimals(values, declared, place)
        seen = set(map(type, values))
    if any(issubclass(of, int | float | str) for of in seen - _PLAIN):
        values = list(map(plain, values))
        seen = set(map(type, values))
    kinds = {_kind(of) for of in seen}
    if json and "missing" in kinds:
        raise place.missing(next(row for row, value in enumerate(values) if value is None), None)
    if len(kinds) == 1:
        (only,) = kinds
    else:
        only = "float" if kinds == {"int", "float"} else None
        only = "timestamp" if kinds == {"date", "timestamp"} else only
    if only == "symbol" and declared in TIME_TEXTS and json:
        return _from_texts(values, declared, place)
    if only == "date" and declared == "timestamp":
        only = "timestamp"
    if only == "int" and declared == "float":
        only = "float"
    if only is None or only == "missing" or (declared is not None and only != declared):
        raise _odd_one(values, declared, place)
    if only == "int":
        return "int", _integers_of(values, seen, place)
    if only == "float":
        if "int" in kinds:
            _check_exact(values, place)
        return "float", floats(np.array(values, dtype=np.float64), place)
    if only == "bool":
        return "bool", np.array(values, dtype=np.bool_)
    if only == "symbol":
        return "symbol", _texts_of(values, place)
    if only == "date":
        counted = [(value - _EPOCH).days for value in values]
        return "date", days(np.array(counted, dtype=np.int64), place)
    if only == "duration":
        return "duration", _durations_of(values, place)
    return "timestamp", np.fromiter(
        (_instant(value, row, place) for row, value in enumerate(values)),
        dtype=np.int64,
        count=len(values),
    )


def _from_texts(values: Values, kind: TypeName, place: DataPlace) -> Typed:
    """Times from the texts of JSON."""
    read: dict[TypeName, Callable[[str], int | None]] = {
        "timestamp": timestamp_from_text, "date": date_from_text, "duration": duration_from_text,
    }  # fmt: skip
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        told = read[kind](value)
        if told is None:
            raise place.error(row, f"expected {kind}, found {shown(value)}")
        found[row] = told
    return kind, found


def _durations_of(values: Values, place: DataPlace) -> Array:
    """The nanoseconds of Python's durations, pandas' and NumPy's."""
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        exact = getattr(value, "to_timedelta64", None)  # of pandas
        lone = np.array([value if exact is None else exact()])
        if lone.dtype == object:
            lone = lone.astype("m8[us]")
        at = SomeRows(place.what, place.column, place, [row])
        found[row] = durations(lone, at)[0]
    return found


_EPOCH = date(1970, 1, 1)


def _with_infinities(values: Values) -> list[object]:
    """The values of a JSON column of floats, in which texts stand for infinity."""
    return [_INFINITE.get(value, value) if isinstance(value, str) else value for value in values]


def _without_decimals(values: Values, declared: TypeName | None, place: DataPlace) -> list[object]:
    """The values with their decimals replaced by ints; a fraction is an error."""
    found: list[object] = []
    for row, value in enumerate(values):
        if isinstance(value, Decimal):
            if value.is_nan():
                raise place.missing(row, value)
            whole = as_int(value)
            if whole is None:
                raise _odd_decimal(row, value, declared, place)
            value = whole
        found.append(value)
    return found


def _odd_decimal(
    row: int, value: Decimal, declared: TypeName | None, place: DataPlace
) -> DataError:
    """The error for a decimal that is no int of 64 bits."""
    if as_int(value) is not None:
        return place.too_big(row, value)
    if declared is not None:
        return place.mismatch(row, declared, value, "decimal")
    message = f"cannot store {shown(value)}, a decimal, in a column of other values"
    return place.error(row, message, "convert the column to decimals, to float, or to text")


def _odd_one(values: Values, declared: TypeName | None, place: DataPlace) -> DataError:
    """The error for the first value that is missing, not supported, or of another type than those
    before."""
    expected: Kind = declared
    for row, value in enumerate(values):
        kind = _kind(type(value))
        if kind == "missing" or (kind == "float" and value != value):
            return place.missing(row, value)
        if kind is None:
            return place.not_a_value(row, value)
        if expected is None:
            expected = kind
        if kind == expected or (kind == "int" and expected == "float"):
            continue
        if declared is not None:
            return place.mismatch(row, declared, value, kind)
        if {kind, expected} == {"int", "float"}:
            expected = "float"
            continue
        return place.error(
            row,
            f"found the {kind} {shown(value)} where the rows before have {expected}",
            "a column has one type: convert the data, .astype(str) for instance",
        )
    raise AssertionError("no value is odd")


def _integers_of(values: Values, seen: set[type], place: DataPlace) -> Array:
    try:
        # NumPy's scalars may wrap in the conversion, Python's ints do not.
        plain = values if seen == {int} else [int(value) for value in values]
        return np.array(plain, dtype=np.int64)
    except OverflowError:
        row = next(r for r, value in enumerate(values) if not INT_MIN <= int(value) <= INT_MAX)
        raise place.too_big(row, values[row]) from None


def _check_exact(values: Values, place: DataPlace) -> None:
    for row, value in enumerate(values):
        if not isinstance(value, float | np.floating) and abs(int(value)) > 1 << 53:
            raise place.error(row, f"the int {shown(value)} is not exact as a float")


def _texts_of(values: Values, place: DataPlace) -> TextColumn:
    try:
        return encoded(pa.array(values, type=pa.large_string()))
    except UnicodeEncodeError:
        row = next(r for r, value in enumerate(values) if not is_unicode(value))
        raise place.error(row, f"{shown(values[row])} holds half a surrogate pair") from None


def _instant(value: date | np.datetime64, row: int, place: DataPlace) -> int:
    """Nanoseconds since 1970 of a date or time; in UTC without a time zone."""
    if isinstance(value, np.datetime64):
        lone = SomeRows(place.what, place.column, place, [row])
        return int(instants(np.array([value]), lone)[0])
    found = nanoseconds_of(value)
    if not INT_MIN <= found <= INT_MAX:
        raise place.error(
            row,
            f"the time {value} is beyond the years 1678 to 2262",
            "a timestamp counts nanoseconds in 64 bits",
        )
    return found
