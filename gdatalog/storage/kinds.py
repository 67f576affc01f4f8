"""Kinds: the dtype with which a column was loaded, and which its values get when they leave.

A kind belongs to a column's schema; keys do not depend on it. None stands for the fixed dtype of a
type, which columns of rules, facts and text files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import dataclass, field
from gdatalog.storage.imported_later import pa
from gdatalog.values import TypeName

NAIVE = ""  # the zone of times without a zone
UTC = "UTC"
ROW_ID = "row_id"  # the name of a hidden column of row numbers


@dataclass(frozen=True, slots=True)
class Kind:
    """`dtype`: of NumPy, pandas or Arrow. `zone`: of timestamps, `NAIVE` if they have none; None
    for other types. Kinds with the same name are equal."""

    name: str
    zone: str | None = None
    dtype: Any = field(default=None, compare=False)


_FIXED: dict[TypeName, str] = {
    "int": "int64",
    "bool": "bool",
    "symbol": "str",
    "date": "object",
    "duration": "timedelta64[ns]",
}
_UNITS = ("s", "ms", "us", "ns")  # others only NumPy has
Kinds = tuple[Kind | None, ...]  # of all columns; empty: None for each
ROW_NUMBERS = Kind("row numbers")  # of a last column that is hidden unless a program names it


def shown_columns(kinds: Kinds, width: int) -> int:
    """How many of a relation's columns are shown: all but a hidden last one."""
    return width - (ROW_NUMBERS in kinds[-1:])


def kind_of(column: Any, found: TypeName) -> Kind | None:
    """The kind of a raw column that is loaded as this type."""
    library = type(column).__module__.partition(".")[0]
    if library == "polars":
        column = pa.chunked_array(column)
    arrow = library in ("polars", "pyarrow")
    dtype: Any = column.type if arrow else getattr(column, "dtype", None)
    times = found == "timestamp"
    if dtype is None:  # Python's values have one dtype; their times may have a zone
        return zoned(_zone_of_values(column)) if times else None
    of = type(dtype).__module__.partition(".")[0]
    if arrow and pa.types.is_null(dtype):
        return None
    if isinstance(dtype, np.dtype) and dtype.kind in "OTU":
        kept = dtype.kind == "O" and library == "pandas"
        zone = _zone_of_values(column) if times else None
        return Kind("object", zone, dtype) if kept else zoned(zone) if zone is not None else None
    if of not in ("numpy", "pandas", "pyarrow") or str(dtype) == _FIXED.get(found):
        return None
    counted = isinstance(dtype, np.dtype) and dtype.kind in "Mm" and found != "date"
    if counted and np.datetime_data(dtype)[0] not in _UNITS:
        return zoned(NAIVE) if times else None
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        inner = kind_of(categories, found)
        name = f"category {dtype.ordered} of {None if inner is None else inner.name}"
        return Kind(name, None if inner is None else inner.zone, dtype)
    return Kind(f"{of} {dtype}", _zone_of(dtype) if times else None, dtype)


def _zone_of(dtype: Any) -> str:
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    zone = getattr(getattr(dtype, "value_type", dtype), "tz", None)
    return NAIVE if zone is None else _zone_name(zone)


def _zone_of_values(values: Iterable[Any]) -> str:
    """The zone of Python's times: that of the first that has one."""
    zones = (value.tzinfo for value in values if isinstance(value, datetime))
    found = next((zone for zone in zones if zone is not None), None)
    return NAIVE if found is None else _zone_name(found)


def _zone_name(zone: Any) -> str:
    try:
        return zone if isinstance(zone, str) else str(pa.lib.tzinfo_to_string(zone))
    except (pa.ArrowException, ValueError, TypeError):
        return UTC


def zoned(zone: str) -> Kind:
    """The kind of derived timestamps: nanoseconds in a zone, or `NAIVE`."""
    dtype = pa.timestamp("ns", tz=zone or None)
    return Kind(f"pyarrow {dtype}", zone, dtype)


def joined(one: Kinds, other: Kinds, names: Sequence[str]) -> Kinds:
    """The kinds of rows of both; a column of two kinds keeps neither. Naive times and times with a
    zone are an error."""
    if one == other:
        return one
    return tidy(
        mine if mine == its else _common(mine, its, name)
        for name, (mine, its) in zip(names, zip_longest(one, other), strict=True)
    )


def _common(one: Kind | None, other: Kind | None, name: str) -> Kind | None:
    zones = {kind.zone for kind in (one, other) if kind is not None and kind.zone is not None}
    if len(zones) == 2 and NAIVE in zones:
        message = f"column {name!r} would hold times with a zone and times without one"
        hint = 'in pandas, .dt.tz_localize("Europe/Berlin") gives times a zone, and '
        raise DataError(message, hint=hint + ".dt.tz_localize(None) takes it away")
    return None if not zones else zoned(zones.pop() if len(zones) == 1 else UTC)


def tidy(kinds: Iterable[Kind | None]) -> Kinds:
    """The kinds of all columns; empty if each is None."""
    found = tuple(kinds)
    return found if any(found) else ()


def either(one: tuple[bool, ...], other: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which columns of rows of both are nullable."""
    if not one or not other:
        return one or other
    return tuple(mine or its for mine, its in zip(one, other, strict=True))


def zone_at(kinds: Sequence[Kind | None], at: int) -> str | None:
    """The zone of a column of timestamps; None if nothing says which it has."""
    kind = kinds[at] if kinds else None
    return None if kind is None else kind.zone


def arrow_type_of(kind: Kind) -> pa.DataType | None:
    """The Arrow type of a kind; None for that of the column's type."""
    dtype = getattr(kind.dtype, "pyarrow_dtype", kind.dtype)
    if isinstance(dtype, pa.DataType):
        return dtype
    if getattr(dtype, "categories", None) is not None:
        values = pa.Array.from_pandas(dtype.categories).type
        return pa.dictionary(pa.int32(), values, bool(dtype.ordered))
    numpy = numpy_dtype_of(kind)
    if kind.zone is not None:
        unit = "ns" if numpy is None else np.datetime_data(numpy)[0]
        return pa.timestamp(unit, tz=kind.zone or None)
    if numpy is None or numpy == "M8[D]":
        return None
    return pa.from_numpy_dtype(numpy.newbyteorder("="))


def numpy_dtype_of(kind: Kind) -> np.dtype[Any] | None:
    """The NumPy dtype of a kind's numbers, bools and times; None if it has none."""
    dtype = getattr(kind.dtype, "pyarrow_dtype", kind.dtype)
    if isinstance(dtype, pa.DataType):
        if pa.types.is_timestamp(dtype):
            return np.dtype(f"datetime64[{dtype.unit}]")
        if pa.types.is_duration(dtype):
            return np.dtype(f"timedelta64[{dtype.unit}]")
        plain = pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
        return np.dtype(dtype.to_pandas_dtype()) if plain else None
    # pandas' nullable and sparse dtypes have one of NumPy
    dtype = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))
    if not isinstance(dtype, np.dtype):
        unit = getattr(dtype, "unit", None)
        return None if unit is None else np.dtype(f"datetime64[{unit}]")
    return dtype if dtype.kind in "iufbMm" else None
