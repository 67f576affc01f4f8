"""Parameters: their types, and their values as the engine reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from gdatalog.decimals import DIGITS, decimal_type, digits_after, exact_float, scale_of
from gdatalog.errors import DataError
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import encode_column, float_to_key
from gdatalog.storage.places import DataPlace, MissingValue, shown
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, NullableColumn, TextColumn
from gdatalog.values import (
    INT_MAX,
    INT_MIN,
    ListOf,
    ParamType,
    TypeName,
    Value,
    is_unicode,
    meant_as,
    nanoseconds_of,
    plain,
)

_ARRAYS = ("__arrow_c_array__", "__arrow_c_stream__", "__array__")


@dataclass(frozen=True, slots=True)
class _ListPlace(DataPlace):
    """The place of a list's value, for errors."""

    def where(self, row: int) -> str:
        return f"the parameter ${self.column}: value {row}"

    def missing(self, row: int, found: object) -> MissingValue:
        hint = f"leave it out: [x for x in {self.column} if x is not None], or .dropna()"
        return MissingValue.of(self.error(row, f"a value is missing ({shown(found)})", hint))


@dataclass(frozen=True, slots=True, eq=False)
class GivenList:
    """A list of values of one type; `digest` identifies the values."""

    name: str
    kind: TypeName
    column: Array | TextColumn
    digest: bytes = field(repr=False)

    @staticmethod
    def of(name: str, given: Any) -> GivenList:
        if hasattr(given, "columns") and hasattr(given, "shape"):
            raise DataError(
                f"the parameter ${name} is a table, and a list has one column",
                hint='give one of its columns, as in params={"' + name + '": df["id"]}',
            )
        many = given if any(hasattr(given, kind) for kind in _ARRAYS) else list(given)
        from gdatalog.storage.columns import column_from

        kind, column = column_from(many, None, _ListPlace("the parameter", name))
        assert not isinstance(column, NullableColumn)
        if isinstance(column, np.ndarray):
            column = column.copy()
        return GivenList(name, kind, column, digest_of(kind, column))

    @property
    def type(self) -> ListOf:
        unknown = len(self) == 0 and self.kind == "symbol"  # the default without values
        return ListOf(None if unknown else self.kind, empty=len(self) == 0)

    def __len__(self) -> int:
        return len(self.column)

    def values(self) -> list[Value]:
        column = self.column
        return list((column.decode() if isinstance(column, TextColumn) else column).tolist())

    def keys(self, kind: TypeName, symbols: SymbolTable) -> Array:
        """The values as keys: of their own type, of float for ints, or of timestamp for dates."""
        if len(self) == 0:
            return np.empty(0, dtype=np.int32)
        if kind == "float":
            return float_to_key(np.asarray(self.column, dtype=np.float64))
        if scale_of(kind) != scale_of(self.kind):
            size = 10 ** (scale_of(kind) - scale_of(self.kind))
            counts = np.asarray(self.column, dtype=np.int64)
            # others are beyond all decimals of this type
            fitting: Array = counts[np.abs(counts) < 10**DIGITS // size] * size
            return fitting
        if self.kind == "date" and kind == "timestamp":
            from gdatalog.storage.column_arrays import moments

            days = self.column
            assert isinstance(days, np.ndarray)
            return moments(days, _ListPlace("the parameter", self.name))
        return encode_column(self.column, self.kind, symbols)


def value_as(kind: TypeName, name: str, value: Any) -> Value:
    """A parameter's value as one of the type with which the rules read it."""
    if kind not in ("float", "date") and not scale_of(kind):
        return value  # type: ignore[no-any-return]  # it is a value of that type
    found: Value | None = meant_as(kind, value)
    if found is None:
        raise DataError(f"the parameter ${name} has more digits than {kind}: {value}")
    return found


def holds_many(value: object) -> bool:
    """Whether a value is a collection, and not a scalar, a text or a mapping."""
    if isinstance(value, str | bytes | bytearray | Mapping):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Collection) or any(hasattr(value, kind) for kind in _ARRAYS)


def digest_of(kind: TypeName, column: Array | TextColumn) -> bytes:
    from hashlib import blake2b

    found = blake2b(kind.encode(), digest_size=16)
    if isinstance(column, TextColumn):
        found.update(np.ascontiguousarray(column.codes, dtype=np.int64).tobytes())
        found.update(repr(list(column.texts)).encode())
    else:
        found.update(str(column.dtype).encode())
        found.update(column.tobytes())
    return found.digest()


def parameter(name: str, value: object) -> tuple[ParamType, Value | GivenList]:
    """A parameter's type and value, from scalars of Python, NumPy or pandas, or from a collection
    of them."""
    if isinstance(value, GivenList):
        return value.type, value
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, timedelta | np.timedelta64):  # also a subclass of np.integer
        return "duration", int(GivenList.of(name, [value]).values()[0])
    if isinstance(value, (int, np.integer)):
        number = int(plain(value))
        if not INT_MIN <= number <= INT_MAX:
            raise DataError(f"the parameter ${name} does not fit into 64 bits: {number}")
        return "int", number
    if isinstance(value, (float, np.floating)):
        quantity = float(plain(value))
        if quantity != quantity:
            raise DataError(f"the parameter ${name} is NaN, which is not a value")
        return "float", quantity
    if isinstance(value, str):
        if not is_unicode(value):
            raise DataError(f"the parameter ${name} holds half a surrogate pair: {value!r}")
        return "symbol", plain(value)
    if isinstance(value, (date, np.datetime64)):
        if value != value:
            raise DataError(f"the parameter ${name} is NaT, which is not a value")
        when = _nanoseconds(value)
        if not INT_MIN < when <= INT_MAX:  # the least value means NaT
            raise DataError(f"the parameter ${name} is no time from 1677 to 2262: {value}")
        # a day may stand for a timestamp, too
        day = not isinstance(value, datetime) and getattr(value, "dtype", "M8[D]") == "M8[D]"
        return "date" if day else "timestamp", when
    if type(value).__module__ == "decimal":
        return _decimal(name, value)
    if holds_many(value):
        many = GivenList.of(name, value)
        return many.type, many
    raise _no_value(name, value)


def _decimal(name: str, value: Any) -> tuple[TypeName, Value]:
    """An int, or a float that remembers all digits."""
    digits = digits_after(value)
    if digits > DIGITS:
        wrong = f"more than {DIGITS} digits after the point" if value.is_finite() else "no value"
        raise DataError(f"the parameter ${name} has {wrong}: {value}")
    return decimal_type(digits), exact_float(str(value)) if digits else int(value)


def _no_value(name: str, value: object) -> DataError:
    found = "None" if value is None else f"of type {type(value).__name__}"
    hint = "parameters are ints, floats, strings, bools, times, durations and decimals, and lists "
    hint += "of these"
    return DataError(f"the parameter ${name} cannot be {found}", hint=hint)


def _nanoseconds(value: date | np.datetime64) -> int:
    """A time as nanoseconds since 1970; times without a zone are UTC."""
    if not isinstance(value, np.datetime64):
        return nanoseconds_of(value)
    seconds = int(value.astype("datetime64[s]").astype(np.int64))
    near = abs(seconds) < INT_MAX // 10**9
    return int(value.astype("datetime64[ns]").astype(np.int64)) if near else seconds * 10**9
