"""Columns of Python values: all of one type, or an error that shows the first odd one.

An int may stand for a float among plain Python values, as a literal may in the language, if
the float is exactly that int.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import dataclass
from gdatalog.storage.arrays import empty_column, encoded, floats, instants
from gdatalog.storage.load_options import DataPlace, shown
from gdatalog.storage.table import Array, Column, TextColumn
from gdatalog.values import INT_MAX, INT_MIN, TypeName, is_unicode, timestamp_from_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
    place: DataPlace,
    *,
    json: bool = False,
) -> tuple[TypeName, Column]:
    """A column of Python values; `json`: an ISO 8601 text may stand for a declared timestamp."""
    if len(values) == 0:
        return declared or "symbol", empty_column(declared or "symbol")
    seen = set(map(type, values))
    if Decimal in seen:
        values = _without_decimals(values, place)
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
        return "float", floats(np.array(values, dtype=np.float64), place)
    if only == "bool":
        return "bool", np.array(values, dtype=np.bool_)
    if only == "symbol":
        return "symbol", _texts_of(values, place)
    return "timestamp", np.fromiter(
        (_instant(value, row, place) for row, value in enumerate(values)),
        dtype=np.int64,
        count=len(values),
    )


def _without_decimals(values: Sequence[Any] | Array, place: DataPlace) -> list[Any]:
    """The values, with ints in the place of decimals: those have no fraction."""
    found = []
    for row, value in enumerate(values):
        if isinstance(value, Decimal):
            if value.is_nan():
                raise place.missing(row, value)
            whole = as_int(value)
            if whole is None:
                raise odd_decimal(row, value, place)
            value = whole
        found.append(value)
    return found


def as_int(value: Decimal) -> int | None:
    """A decimal without a fraction, as an int."""
    whole = value.is_finite() and value == value.to_integral_value()
    return int(value) if whole else None


def odd_decimal(row: int, value: Decimal, place: DataPlace) -> DataError:
    """What is wrong with a decimal that is no int of 64 bits."""
    if as_int(value) is not None:
        return place.too_big(row, value)
    message = f"cannot store {shown(value)}, a decimal with a fraction"
    return place.error(row, message, "convert the column to float, or to text")


def _odd_one(
    values: Sequence[Any] | Array, declared: TypeName | None, place: DataPlace
) -> DataError:
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


def _integers_of(values: Sequence[Any] | Array, seen: set[type], place: DataPlace) -> Array:
    try:
        # NumPy's own scalars may wrap around in the conversion, Python's ints do not.
        plain = values if seen == {int} else [int(value) for value in values]
        return np.array(plain, dtype=np.int64)
    except OverflowError:
        row = next(r for r, value in enumerate(values) if not INT_MIN <= int(value) <= INT_MAX)
        raise place.too_big(row, values[row]) from None


def _check_exact(values: Sequence[Any] | Array, place: DataPlace) -> None:
    for row, value in enumerate(values):
        if not isinstance(value, float | np.floating) and abs(int(value)) > 1 << 53:
            raise place.error(row, f"the int {shown(value)} is not exact as a float")


def _texts_of(values: Sequence[Any] | Array, place: DataPlace) -> TextColumn:
    import pyarrow as pa

    try:
        return encoded(pa.array(values, type=pa.large_string()))
    except UnicodeEncodeError:
        row = next(r for r, value in enumerate(values) if not is_unicode(value))
        raise place.error(row, f"{shown(values[row])} holds half a surrogate pair") from None


def _instant(value: Any, row: int, place: DataPlace) -> int:
    """Nanoseconds since 1970 of a date or time; one without a zone is in UTC."""
    if isinstance(value, np.datetime64):
        lone = _At(place.what, place.column, row, place)
        return int(instants(np.array([value]), lone)[0])
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
class _At(DataPlace):
    """One row of a place, for a value that is looked at alone."""

    row: int
    place: DataPlace

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        return self.place.error(self.row + row, message, hint)


def _instants_of_texts(values: Sequence[Any] | Array, place: DataPlace) -> Array:
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        moment = timestamp_from_text(value)
        if moment is None:
            raise place.error(row, f"expected timestamp, found {shown(value)}")
        found[row] = moment
    return found
