"""The arrays of tables, on the host or on a device: integers, floats, nanoseconds, encoded texts.

Each comes from an array of a kindred type, or an error says which of its values does not fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gdatalog.storage.load_options import DataPlace
from gdatalog.storage.table import DTYPES, Array, Column, TextColumn
from gdatalog.values import INT_MAX, TypeName


def empty_column(kind: TypeName) -> Column:
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
    """Whether an array that came from elsewhere need not be copied."""
    return isinstance(values.base, _Borrowed)


def floats(values: Array, place: DataPlace) -> Array:
    # Adding 0.0 turns -0.0 into 0.0, and copies, so the caller's array is not changed.
    result = values.astype(np.float64, copy=False) + 0.0
    bad = np.isnan(result)
    if bad.any():
        raise place.missing(int(bad.argmax()), math.nan)
    return result


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


def arrow_numbers(values: Any) -> Array:
    """The numbers of an Arrow column without nulls; its own `to_numpy` would import pandas."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return np.from_dlpack(values)


_FEW = 100_000  # texts: so few are decoded one by one, without importing pandas


def encoded(values: Any) -> TextColumn:
    """An Arrow column of strings without nulls, as codes and distinct texts."""
    import pyarrow as pa

    try:
        values = values.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # string views, before pyarrow 18
        values = pa.array(values.to_pylist(), pa.large_string())
    if isinstance(values, pa.ChunkedArray):
        # Concatenated before they are encoded: unifying many dictionaries takes far longer.
        values = values.combine_chunks()
    found = values.dictionary_encode()
    if len(found.dictionary) <= _FEW:
        texts = np.array(found.dictionary.to_pylist(), dtype=object)
    else:
        texts = found.dictionary.to_numpy(zero_copy_only=False)
    return TextColumn(arrow_numbers(found.indices), texts)


# Columns on a device that are loaded: CuPy's arrays, cuDF's, and others with CUDA's interface.
#
# Plainly valid columns are typed and checked on the device. All others (texts, dates with a time
# zone, missing or invalid values) are copied to the host, where errors are raised.

_TYPES: dict[str, TypeName] = {"i": "int", "u": "int", "f": "float", "b": "bool", "M": "timestamp"}
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def from_cudf(data: Any) -> bool:
    """Whether an object is cuDF's: a frame, a series, an index."""
    return type(data).__module__.split(".")[0] == "cudf"


def lies_on_device(data: Any) -> bool:
    """Whether an object is a CUDA array, or a column of cuDF."""
    return from_cudf(data) or hasattr(data, "__cuda_array_interface__")


def fetched(raw: Any) -> Any:
    """A column copied to the host."""
    if from_cudf(raw):
        return raw.to_pandas()
    return raw.get() if hasattr(raw, "get") else raw


def device_column(raw: Any, declared: TypeName | None, xp: Any) -> tuple[TypeName, Any] | None:
    """A column of `xp`'s arrays; None if the host has to convert it."""
    dtype = raw.dtype
    kind = dtype.kind if isinstance(dtype, np.dtype) else ""
    found = _TYPES.get(kind)
    if found is None or (declared is not None and declared != found):
        return None
    if from_cudf(raw):
        if raw.null_count:
            return None
        raw = (raw.astype("int64") if kind == "M" else raw).to_cupy()
    elif kind == "M":
        return None
    values = xp.asarray(raw)
    if values.ndim != 1 or len(values) == 0:
        return None
    if found == "float":
        made = values.astype(xp.float64) + 0.0  # -0.0 + 0.0 is 0.0
        return None if bool(xp.isnan(made).any()) else (found, made)
    if found == "timestamp":
        made = _instants(values, np.datetime_data(dtype)[0])
        return None if made is None else (found, made)
    if kind == "u" and dtype.itemsize == 8 and int(values.max()) > INT_MAX:
        return None
    narrow = found == "int" and np.can_cast(dtype, np.int32)
    return found, values.astype(xp.bool_ if found == "bool" else xp.int32 if narrow else xp.int64)


def _instants(values: Any, unit: str) -> Any:
    """Nanoseconds; None unless all fit 64 bits and none is missing."""
    factor = _NANOSECONDS.get(unit)
    if factor is None:
        return None
    low, high = int(values.min()), int(values.max())
    if low <= -(INT_MAX // factor) or high >= INT_MAX // factor:
        return None
    return values * factor


def device_keys(column: Any, kind: TypeName, xp: Any) -> Array:
    """The keys of a column of values."""
    keys: Array
    if kind == "float":
        bits = column.view(xp.int64)
        keys = bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)
    else:
        keys = column.astype(xp.int32) if kind == "bool" else column
    return keys
