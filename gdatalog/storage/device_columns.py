"""Loads columns that are on a device: CuPy's arrays, cuDF's, and others with CUDA's interface.

Valid numbers, bools and timestamps are typed on the device. All other columns (texts, dates with
a time zone, missing or invalid values) are copied to the host, which also raises the errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, TypeName

_TYPES: dict[str, TypeName] = {"i": "int", "u": "int", "f": "float", "b": "bool", "M": "timestamp"}
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def from_cudf(data: object) -> bool:
    """Whether an object is cuDF's: a frame, a series, an index."""
    return type(data).__module__.split(".")[0] == "cudf"


def lies_on_device(data: object) -> bool:
    """Whether an object is a CUDA array, or a column of cuDF."""
    return from_cudf(data) or hasattr(data, "__cuda_array_interface__")


def fetched(raw: Any) -> Any:
    """A column copied to the host."""
    if from_cudf(raw):
        return raw.to_pandas()
    return raw.get() if hasattr(raw, "get") else raw


def device_column(raw: Any, declared: TypeName | None, xp: Any) -> tuple[TypeName, Array] | None:
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


def _instants(values: Array, unit: str) -> Array | None:
    """Nanoseconds; None unless all fit 64 bits and none is missing."""
    factor = _NANOSECONDS.get(unit)
    if factor is None:
        return None
    low, high = int(values.min()), int(values.max())
    if low <= -(INT_MAX // factor) or high >= INT_MAX // factor:
        return None
    return values * factor
