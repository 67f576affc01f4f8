"""A column on its way in: NumPy arrays, Arrow arrays and Python values become typed columns.

Nothing is converted silently: a value is missing, of another type than its neighbours or than
was declared, or beyond 64 bits, and the error names its row (counted from 0) and its column.
The one exception is that of the language: among plain Python values an int may stand for a
float, as a literal may.

Longer than a card: the three sources of columns end in the same few checks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.storage.table import DTYPES, Array, Column, Texts
from gdatalog.values import INT_MAX, INT_MIN, TypeName

Typed = tuple[TypeName, Column]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURES: dict[TypeName, str] = {
    "int": 'convert the data, .astype("int64")',
    "float": 'convert the data, .astype("float64")',
    "symbol": "convert the data, .astype(str)",
    "bool": "convert the data, .astype(bool)",
    "timestamp": "convert the data, pandas.to_datetime(...)",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Which column of which data, for the errors that speak of it."""

    what: str
    column: str

    def where(self, row: int) -> str:
        return f"{self.what}: row {row}, column {self.column!r}"

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        return DataError(f"{self.where(row)}: {message}", hint=hint)

    def missing(self, row: int, found: object) -> DataError:
        hint = "drop such rows first, .dropna(), or fill them, .fillna(...)"
        return self.error(row, f"a value is missing ({shown(found)})", hint)

    def mismatch(self, row: int, declared: TypeName, found: object, kind: str) -> DataError:
        hint = f"{_CURES[declared]}, or declare the column {kind}"
        return self.error(row, f"expected {declared}, found the {kind} {shown(found)}", hint)

    def too_big(self, row: int, found: object) -> DataError:
        hint = "convert the column to text if it is an identifier, to float if it is a quantity"
        return self.error(row, f"{shown(found)} does not fit into 64 bits", hint)

    def not_a_value(self, row: int, found: object) -> DataError:
        hint = "a value is an int, a float, a string, a bool or a time"
        return self.error(row, f"cannot store {shown(found)}, a {type(found).__name__}", hint)


def shown(value: object, width: int = 60) -> str:
    """A value as an error shows it."""
    if isinstance(value, np.generic):
        value = value.item()
    elif hasattr(value, "as_py"):  # Arrow's scalars
        value = value.as_py()
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def empty_column(kind: TypeName) -> Column:
    if kind == "symbol":
        return Texts(np.empty(0, dtype=np.int32), np.empty(0, dtype=object))
    return np.empty(0, dtype=DTYPES[kind])


def column_from(raw: Any, declared: TypeName | None, place: Place) -> Typed:
    """A column of anything that holds one."""
    if isinstance(raw, np.ndarray):
        return numpy_column(raw, declared, place)
    if type(raw).__module__.split(".")[0] == "pandas":
        return pandas_column(raw, declared, place)
    if hasattr(raw, "__arrow_c_array__") or hasattr(raw, "__arrow_c_stream__"):
        return arrow_column(_arrow_array(raw), declared, place)
    if isinstance(raw, list | tuple):
        return object_column(raw, declared, place)
    if hasattr(raw, "__cuda_array_interface__") and hasattr(raw, "get"):
        return numpy_column(raw.get(), declared, place)
    if hasattr(raw, "__array__"):
        return numpy_column(np.asarray(raw), declared, place)
    return object_column(list(raw), declared, place)


def _arrow_array(raw: Any) -> Any:
    import pyarrow as pa

    if isinstance(raw, pa.Array | pa.ChunkedArray):
        return raw
    return pa.chunked_array(raw) if hasattr(raw, "__arrow_c_stream__") else pa.array(raw)


def _expect(
    found: TypeName, declared: TypeName | None, place: Place, values: Any
) -> TypeName | None:
    """Agree on a type; None if the column is empty and was declared to be something else."""
    if declared is None or declared == found:
        return found
    if len(values) == 0:
        return None
    raise place.mismatch(0, declared, values[0], found)


# ---------------------------------------------------------------- NumPy


def numpy_column(values: Array, declared: TypeName | None, place: Place) -> Typed:
    """A one-dimensional array; integers of 64 bits and bools are not copied."""
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
        return agreed, _integers(values, place)
    if agreed == "float":
        return agreed, _floats(values, place)
    if agreed == "timestamp":
        return agreed, _instants(values, place)
    return agreed, np.ascontiguousarray(values)


def _wrong_dtype(values: Array, place: Place) -> DataError:
    cures = {
        "S": "decode the bytes first, numpy.char.decode(values)",
        "m": "a duration is not a value: take its seconds, .dt.total_seconds()",
        "c": "store the real and the imaginary part as two columns of floats",
    }
    message = f"cannot store {shown(values[0])}, of dtype {values.dtype}"
    return place.error(0, message, cures.get(values.dtype.kind))


def _integers(values: Array, place: Place) -> Array:
    if values.dtype.kind == "u" and values.dtype.itemsize == 8:
        big = values > np.uint64(INT_MAX)
        if big.any():
            row = int(big.argmax())
            raise place.too_big(row, values[row])
    return np.ascontiguousarray(values.astype(np.int64, copy=False))


def _floats(values: Array, place: Place) -> Array:
    # Adding 0.0 turns -0.0 into 0.0; it copies, so what the caller holds is left alone.
    result = values.astype(np.float64, copy=False) + 0.0
    bad = np.isnan(result)
    if bad.any():
        raise place.missing(int(bad.argmax()), math.nan)
    return result


def _instants(values: Array, place: Place) -> Array:
    """Nanoseconds of a datetime64 of any unit; NumPy wraps around silently, so look first."""
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


# ---------------------------------------------------------------- pandas


def pandas_column(raw: Any, declared: TypeName | None, place: Place) -> Typed:
    """A Series, an Index or an extension array."""
    import pandas as pd
    import pyarrow as pa

    series = raw if isinstance(raw, pd.Series) else pd.Series(raw)
    dtype: Any = series.dtype
    if isinstance(dtype, np.dtype):
        return numpy_column(series.to_numpy(), declared, place)
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


def arrow_column(values: Any, declared: TypeName | None, place: Place) -> Typed:
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
    kind = values.type
    found = _arrow_type(kind)
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
        return agreed, _integers(values.to_numpy(zero_copy_only=False), place)
    if agreed == "float":
        return agreed, _floats(values.to_numpy(zero_copy_only=False), place)
    if agreed == "timestamp":
        unit = values.type.unit
        plain = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return agreed, _instants(plain.view(f"datetime64[{unit}]"), place)
    return agreed, values.to_numpy(zero_copy_only=False)


def _decoded(values: Any) -> Any:
    """A dictionary's values, one a row; strings with 64-bit offsets, so that they fit."""
    import pyarrow as pa

    kind = values.type.value_type
    wide = pa.large_string() if _arrow_type(kind) == "symbol" else kind
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [chunk.dictionary.cast(wide).take(chunk.indices) for chunk in chunks]
    return pa.chunked_array(parts, wide)


def _arrow_type(kind: Any) -> TypeName | None:
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind):
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


def _wrong_arrow(values: Any, place: Place) -> DataError:
    import pyarrow as pa

    hint = "cast the column to int64, double, bool, string or timestamp"
    if pa.types.is_decimal(values.type):
        hint = "cast the decimals to double, or to int64 if they are whole"
    message = f"cannot store {shown(values[0].as_py())}, of Arrow type {values.type}"
    return place.error(0, message, hint)


def encoded(values: Any) -> Texts:
    """An Arrow column of strings without nulls, as codes and distinct texts."""
    import pyarrow as pa

    values = values.cast(pa.large_string())
    if isinstance(values, pa.ChunkedArray):
        # Together before they are encoded: to unify many dictionaries takes far longer.
        values = values.combine_chunks()
    found = values.dictionary_encode()
    texts = found.dictionary.to_numpy(zero_copy_only=False)
    return Texts(found.indices.to_numpy(zero_copy_only=False), texts)


# ---------------------------------------------------------------- Python values

Kind = TypeName | str | None  # a type, "missing", or None for what cannot be stored


def _kind(of: type) -> Kind:
    if of is type(None) or of.__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return "missing"
    order: Iterable[tuple[TypeName, tuple[type, ...]]] = (
        ("bool", (bool, np.bool_)),
        ("int", (int, np.integer)),
        ("float", (float, np.floating)),
        ("symbol", (str,)),
        ("timestamp", (date, np.datetime64)),
    )
    # numpy.timedelta64 is a child of numpy.signedinteger.
    if issubclass(of, np.timedelta64):
        return None
    return next((name for name, types in order if issubclass(of, types)), None)


def object_column(
    values: Sequence[Any] | Array,
    declared: TypeName | None,
    place: Place,
    *,
    json: bool = False,
) -> Typed:
    """A column of Python values; `json`: an ISO 8601 text may stand for a declared timestamp."""
    if len(values) == 0:
        return declared or "symbol", empty_column(declared or "symbol")
    seen = set(map(type, values))
    kinds = {_kind(of) for of in seen}
    if kinds == {"symbol"} and declared == "timestamp" and json:
        return "timestamp", _instants_of_texts(values, place)
    if len(kinds) == 1:
        (only,) = kinds
    else:
        only = "float" if kinds == {"int", "float"} else None
    if only == "int" and declared == "float":
        only = "float"
    if only is None or only == "missing" or (declared is not None and only != declared):
        raise _odd_one(values, declared, place)
    if only == "int":
        return "int", _integers_of(values, seen, place)
    if only == "float":
        if "int" in kinds:
            _check_exact(values, place)
        return "float", _floats(np.array(values, dtype=np.float64), place)
    if only == "bool":
        return "bool", np.array(values, dtype=np.bool_)
    if only == "symbol":
        return "symbol", _texts_of(values, place)
    return "timestamp", np.fromiter(
        (_instant(value, row, place) for row, value in enumerate(values)),
        dtype=np.int64,
        count=len(values),
    )


def _odd_one(values: Sequence[Any] | Array, declared: TypeName | None, place: Place) -> DataError:
    """The first value that is missing, cannot be stored, or differs from those before."""
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


def _integers_of(values: Sequence[Any] | Array, seen: set[type], place: Place) -> Array:
    try:
        # NumPy's own scalars may wrap around in the conversion, Python's ints do not.
        plain = values if seen == {int} else [int(value) for value in values]
        return np.array(plain, dtype=np.int64)
    except OverflowError:
        row = next(r for r, value in enumerate(values) if not INT_MIN <= int(value) <= INT_MAX)
        raise place.too_big(row, values[row]) from None


def _check_exact(values: Sequence[Any] | Array, place: Place) -> None:
    for row, value in enumerate(values):
        if not isinstance(value, float | np.floating) and abs(int(value)) > 1 << 53:
            raise place.error(row, f"the int {shown(value)} is not exact as a float")


def _texts_of(values: Sequence[Any] | Array, place: Place) -> Texts:
    import pyarrow as pa

    try:
        return encoded(pa.array(values, type=pa.large_string()))
    except UnicodeEncodeError:
        row = next(r for r, value in enumerate(values) if not is_unicode(value))
        raise place.error(row, f"{shown(values[row])} holds half a surrogate pair") from None


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _instant(value: Any, row: int, place: Place) -> int:
    """Nanoseconds since 1970 of a date or time; one without a zone is in UTC."""
    if isinstance(value, np.datetime64):
        lone = _At(place.what, place.column, row, place)
        return int(_instants(np.array([value]), lone)[0])
    extra = 0
    if isinstance(value, datetime):
        extra = getattr(value, "nanosecond", 0)
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(value, pandas.Timestamp):
            value = value.to_pydatetime(warn=False)
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    else:
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    since = moment - _EPOCH
    whole = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    found: int = whole * 1_000 + extra
    if not INT_MIN <= found <= INT_MAX:
        raise place.error(
            row,
            f"the time {value} is beyond the years 1678 to 2262",
            "a timestamp counts nanoseconds in 64 bits",
        )
    return found


@dataclass(frozen=True, slots=True)
class _At(Place):
    """One row of a place, for a value that is looked at alone."""

    row: int
    place: Place

    def where(self, row: int) -> str:
        return self.place.where(self.row + row)


def _instants_of_texts(values: Sequence[Any] | Array, place: Place) -> Array:
    from gdatalog.values import timestamp_from_text

    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        moment = timestamp_from_text(value)
        if moment is None:
            raise place.error(row, f"expected timestamp, found {shown(value)}")
        found[row] = moment
    return found
