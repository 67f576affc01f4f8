"""Kinds as JSON, for saved databases."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from gdatalog.storage.imported_later import pa
from gdatalog.storage.kinds import Kind, Kinds, tidy

Json = Any


def described(kinds: Kinds) -> list[Json]:
    """The kinds of columns, in lists and dicts of texts."""
    return [kind and {"name": kind.name, "zone": kind.zone, **_dtype(kind)} for kind in kinds]


def kinds_from(found: list[Json]) -> Kinds:
    """The kinds that `described` gave."""
    return tidy(each and Kind(each["name"], each["zone"], _dtype_from(each)) for each in found)


def _dtype(kind: Kind) -> dict[str, Json]:
    dtype = kind.dtype
    if dtype is None:
        return {}
    if isinstance(dtype, np.dtype):
        return {"numpy": dtype.str}
    if isinstance(dtype, pa.DataType):
        return {"arrow": _packed(dtype)}
    if hasattr(dtype, "pyarrow_dtype"):
        return {"pandas_arrow": _packed(dtype.pyarrow_dtype)}
    if hasattr(dtype, "categories"):
        categories = dtype.categories
        own = Kind("", kind.zone, categories.dtype)
        values = pa.Array.from_pandas(categories)
        return {
            "categories": _packed(values.type, values),
            "of": described((own,)),
            "ordered": dtype.ordered,
        }
    if hasattr(dtype, "na_value") and hasattr(dtype, "storage"):  # pandas' texts
        return {"texts": dtype.storage, "nan": dtype.na_value is np.nan}
    if hasattr(dtype, "tz"):
        return {"zoned": dtype.unit}
    return {"pandas": str(dtype)}


def _dtype_from(found: dict[str, Json]) -> Any:
    if "numpy" in found:
        return np.dtype(found["numpy"])
    if "arrow" in found:
        return _unpacked(found["arrow"]).schema.field(0).type
    import pandas as pd

    if "pandas_arrow" in found:
        return pd.ArrowDtype(_unpacked(found["pandas_arrow"]).schema.field(0).type)
    if "categories" in found:
        (own,) = kinds_from(found["of"])
        assert own is not None
        values = _unpacked(found["categories"]).read_all().column(0).to_pandas().astype(own.dtype)
        return pd.CategoricalDtype(pd.Index(values.array, dtype=own.dtype), found["ordered"])
    if "texts" in found:
        return pd.StringDtype(found["texts"], na_value=np.nan if found["nan"] else pd.NA)
    if "zoned" in found:
        return pd.DatetimeTZDtype(found["zoned"], pa.lib.string_to_tzinfo(found["zone"]))
    if "pandas" not in found:
        return None
    return pd.api.types.pandas_dtype(found["pandas"])


def _packed(dtype: pa.DataType, *values: pa.Array) -> str:
    """An Arrow type as text, and perhaps an array of it."""
    sink, schema = pa.BufferOutputStream(), pa.schema([("x", dtype)])
    with pa.ipc.new_stream(sink, schema) as stream:
        for each in values:
            stream.write_batch(pa.record_batch([each], schema=schema))
    return b64encode(sink.getvalue().to_pybytes()).decode()


def _unpacked(text: str) -> pa.RecordBatchReader:
    return pa.ipc.open_stream(b64decode(text))
