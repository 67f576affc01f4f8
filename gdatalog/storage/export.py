"""A table on its way out: pandas, Arrow, polars, NumPy, CuPy, or Python rows.

The dtypes are those of the columns' kinds (`kinds.py`). Without one they follow from the types, so
an empty table has them too: int64, float64, bool, `str` (pandas' string dtype), datetime64[ns,
UTC], timedelta64[ns], objects for dates. Python rows hold ints, floats, strs, bools, dates, and
pandas Timestamps and Timedeltas: Python's own have no nanoseconds, and would cut them off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.decimals import scale_of
from gdatalog.distribution import install
from gdatalog.errors import DeviceError
from gdatalog.storage import decimals
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.kinds import UTC, Kind, arrow_type_of, numpy_dtype_of
from gdatalog.storage.table import (
    DTYPES,
    Array,
    Column,
    NullableColumn,
    Table,
    TextColumn,
    TextSet,
)
from gdatalog.values import TypeName

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pandas.api.extensions import ExtensionDtype

Row = tuple[Any, ...]  # of Python values

PARTITION = 1 << 21  # rows of a partition of a dask DataFrame


def to_arrow(table: Table) -> pa.Table:
    """A pyarrow Table of int64, double, string, bool and timestamp[ns, UTC]."""
    if not table.columns:
        # A table without columns still has a number of rows: one, if the proposition holds.
        empty = pa.RecordBatch.from_struct_array(pa.array([{}] * table.length, pa.struct([])))
        return pa.Table.from_batches([empty], empty.schema)
    fields = []
    arrays = []
    for name, (found, column, kind) in zip(table.names, table.leaving, strict=True):
        values = _arrow_column(found, column, kind)
        fields.append(pa.field(name, values.type, nullable=isinstance(column, NullableColumn)))
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def arrow_room(length: int, dtype: np.dtype[np.generic]) -> Array:
    """An array in memory of Arrow's, which keeps what is let go of for the next table."""
    return np.frombuffer(pa.allocate_buffer(length * dtype.itemsize), dtype=dtype)


def _arrow_column(found: TypeName, column: Column, kind: Kind | None = None) -> pa.Array:
    """A column with the Arrow type of its kind, or of its type."""
    wanted = None if kind is None else arrow_type_of(kind)
    if wanted is not None and pa.types.is_dictionary(wanted):
        inner = Kind("", None if kind is None else kind.zone, wanted.value_type)
        coded = _arrow_column(found, column, inner).dictionary_encode()
        return coded.cast(pa.dictionary(wanted.index_type, wanted.value_type, wanted.ordered))
    present = column.values if isinstance(column, NullableColumn) else column
    if wanted is not None and found == "int" and pa.types.is_decimal(wanted):
        values = decimals.to_arrow(present, 0)
    else:
        values = _own_column(found, present)
    if isinstance(column, NullableColumn):
        nulls = pa.scalar(None, values.type)  # Arrow may widen decimals here
        values = pc.if_else(pa.array(column.missing), nulls, values).cast(values.type)
    return values if wanted is None or values.type == wanted else values.cast(wanted)


def _own_column(kind: TypeName, column: Array | TextColumn) -> pa.Array:
    if isinstance(column, TextColumn):
        if len(column) == 0:
            return pa.array([], pa.string())
        if column.spelled is not None and column.spelled.unicode:
            return _spelled(column.spelled, column.numbers)
        texts = pa.array(column.texts, pa.string())
        if isinstance(texts, pa.ChunkedArray):
            # An array of strings holds 2 GiB of text; there are more.
            return pa.array(column.decode(), pa.string())
        offsets: Array = np.frombuffer(texts.buffers()[1], dtype=np.int32)
        offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
        return _taken(texts, column.codes, offsets)
    if kind == "timestamp":
        return pa.array(column).cast(pa.timestamp("ns", tz="UTC"))
    if kind == "date":
        return pa.array(column.astype(np.int32)).cast(pa.date32())
    if kind == "duration":
        return pa.array(column).cast(pa.duration("ns"))
    if scale_of(kind):
        return decimals.to_arrow(column, scale_of(kind))
    return pa.array(column.astype(DTYPES[kind], copy=False))


def _spelled(texts: TextSet, codes: Array) -> pa.Array:
    """The texts of some numbers, copied from where their bytes are."""
    whole = texts.arrow(pa.large_string())
    return _taken(whole, codes, texts.ends[: len(whole) + 1])


def _taken(texts: pa.Array, codes: Array, offsets: Array) -> pa.Array:
    """The text of each code; in chunks, so that no chunk passes 2 GiB."""
    step = ((1 << 31) - 1) // max(1, int(np.max(np.diff(offsets), initial=1)))
    parts = [
        texts.take(pa.array(codes[at : at + step])).cast(pa.string())
        for at in range(0, len(codes), step)
    ]
    return parts[0] if len(parts) == 1 else pa.chunked_array(parts)


def to_pandas(table: Table, *, given: bool = False) -> pd.DataFrame:
    """A DataFrame of int64, float64, bool, `str` and datetime64[ns, UTC].

    `given`: nobody else has the table, so that its arrays can be the frame's.
    """
    import pandas as pd

    if not table.columns:
        return pd.DataFrame(index=pd.RangeIndex(table.length))
    series = [
        _pandas_column(found, column, not given)
        if kind is None
        else pandas_column(found, column, kind)
        for found, column, kind in table.leaving
    ]
    frame = pd.DataFrame(dict(enumerate(series)), copy=False)
    frame.columns = pd.Index(list(table.names))
    return frame


def dtypes_of(table: Table) -> list[str]:
    """The dtypes of the columns of `to_pandas`."""
    return [str(dtype) for dtype in to_pandas(table.take(np.arange(0))).dtypes]


def _pandas_column(kind: TypeName, column: Column, copy: bool) -> pd.Series:
    """A Series that owns its values: what its user writes into it stays there."""
    import pandas as pd

    if isinstance(column, NullableColumn):
        whole = _pandas_column(kind, column.values, True)
        if kind == "date" or scale_of(kind):
            objects: Array = whole.to_numpy(copy=True)
            objects[column.missing] = None
            return pd.Series(objects, dtype=object)
        own: Any = _NULLABLE.get(kind)
        return (whole if own is None else whole.astype(own)).mask(column.missing)
    if isinstance(column, TextColumn):
        mapped = {pa.string(): _str_dtype()}
        found: pd.Series = _own_column(kind, column).to_pandas(types_mapper=mapped.get)
        return found
    if kind == "timestamp":
        return pd.Series(column.view("datetime64[ns]"), copy=copy).dt.tz_localize("UTC")
    if kind == "date":  # pandas has no dtype for dates
        return pd.Series(column.astype("datetime64[D]").astype(object), dtype=object)
    if kind == "duration":
        return pd.Series(column.view("timedelta64[ns]"), copy=copy)
    if scale_of(kind):
        return pd.Series(decimals.to_python(column, scale_of(kind)), dtype=object)
    return pd.Series(column.astype(DTYPES[kind], copy=copy), copy=False)


# The dtypes of derived columns with nulls; others have a value for them.
_NULLABLE: dict[TypeName, str] = {"int": "Int64", "float": "Float64", "bool": "boolean"}


def pandas_column(found: TypeName, column: Column, kind: Kind) -> pd.Series:
    """A Series of the dtype that the column had when it was loaded."""
    import pandas as pd

    dtype = kind.dtype
    wanted: Any
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        if not isinstance(column, NullableColumn):
            return _categorical(found, column, kind)
        there = np.flatnonzero(~column.missing)
        known: Any = _categorical(found, column.take(there).values, kind)
        codes = np.full(len(column), -1, dtype=np.int64)
        codes[there] = known.cat.codes
        return pd.Series(pd.Categorical.from_codes(codes, dtype=known.dtype))
    if isinstance(dtype, pa.DataType):
        if pa.types.is_dictionary(dtype):
            inner = pandas_column(found, column, Kind("", kind.zone, dtype.value_type))
            return inner.astype(pd.CategoricalDtype(ordered=dtype.ordered))
        wanted = numpy_dtype_of(kind)
    else:
        wanted = dtype
    if found == "date" and isinstance(wanted, np.dtype):
        wanted = None
    values = getattr(wanted, "pyarrow_dtype", None)
    if values is not None and pa.types.is_decimal(values):
        return pd.Series(pd.arrays.ArrowExtensionArray(_arrow_column(found, column, kind)))
    if isinstance(column, NullableColumn) and isinstance(wanted, np.dtype):
        if wanted.kind == "O":
            return pd.Series(python_values(found, column, kind), dtype=object)
        if wanted.kind in "iub":  # pandas' dtype of this width that has nulls
            wanted = pd.Series([], dtype=wanted).convert_dtypes().dtype
    series = _pandas_column(found, column, True)
    if kind.zone is not None:
        zone = kind.zone
        series = series.dt.tz_convert(zone) if zone else series.dt.tz_localize(None)
        if isinstance(wanted, np.dtype) and wanted.kind == "M":
            made: pd.Series = series.dt.as_unit(np.datetime_data(wanted)[0])
            return made
    return series if wanted is None else series.astype(wanted)


def _categorical(found: TypeName, column: Column, kind: Kind) -> pd.Series:
    """A categorical Series; values that are no categories yet follow these."""
    import pandas as pd

    dtype = kind.dtype
    inner = Kind("", kind.zone, dtype.categories.dtype)
    values = pandas_column(found, column, inner)
    more = values[~values.isin(dtype.categories)].drop_duplicates()
    if len(more):
        dtype = pd.CategoricalDtype(dtype.categories.append(pd.Index(more)), dtype.ordered)
    return values.astype(dtype)


def _str_dtype() -> ExtensionDtype:
    """pandas 3's default dtype of strings, and its equal in pandas 2."""
    import pandas as pd

    if int(pd.__version__.split(".")[0]) >= 3:
        return pd.StringDtype(na_value=np.nan)
    return pd.StringDtype("pyarrow")


def to_dask(table: Table) -> Any:
    """A dask DataFrame of what is here; the extra package `cluster` is needed."""
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise DeviceError(
            "to_dask() needs Dask, which cannot be imported",
            hint=f"{install('cluster')}; df() needs none",
        ) from error
    frame = to_pandas(table, given=True)
    parts = max(1, -(-table.length // PARTITION))
    return dd.from_pandas(frame, npartitions=parts, sort=False)  # type: ignore[no-untyped-call]  # dask has no types


def to_polars(table: Table) -> pl.DataFrame:
    """A polars DataFrame; the extra package `polars` is needed."""
    import polars as pl

    if not table.columns:
        return pl.DataFrame(height=table.length)
    given = to_arrow(table)
    for at, field in enumerate(given.schema):
        known = field.type
        if str(getattr(known, "tz", None) or "")[:1] in ("+", "-"):  # polars has names only
            known = pa.timestamp(known.unit, UTC)
        elif known == pa.date64():  # which polars reads as times
            known = pa.date32()
        elif pa.types.is_decimal256(known):  # which polars does not read
            known = pa.decimal128(38, known.scale)
        if known != field.type:
            given = given.set_column(at, field.with_type(known), given.column(at).cast(known))
    frame = pl.from_arrow(given, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def to_numpy(table: Table) -> Array:
    """A structured array: a field for each column, texts and times as objects and datetime64."""
    columns = [numpy_column(*each) for each in table.leaving]
    fields = [(name, column.dtype) for name, column in zip(table.names, columns, strict=True)]
    made: Array = np.empty(table.length, dtype=fields)
    for name, column in zip(table.names, columns, strict=True):
        made[name] = column
    return made


def numpy_column(found: TypeName, column: Column, kind: Kind | None = None) -> Array:
    """A column as a NumPy array of its kind's dtype, or of int64, float64, bool, objects (texts) or
    datetime64[ns]."""
    if isinstance(column, NullableColumn):
        values = numpy_column(found, column.values, kind)
        if values.dtype.kind not in _WITH_NULLS:
            values = values.astype(object)
        elif not values.flags.writeable or values is column.values:
            values = values.copy()
        values[column.missing] = _WITH_NULLS.get(values.dtype.kind)
        return values
    if isinstance(column, TextColumn):
        return column.decode()
    wanted = None if kind is None else numpy_dtype_of(kind)
    if scale_of(found):
        return np.array(decimals.to_python(column, scale_of(found)), dtype=object)
    values = column.astype(_TIMES[found]) if found in _TIMES else column
    return values if wanted is None else values.astype(wanted, copy=False)


_TIMES: dict[TypeName, str] = {
    "timestamp": "datetime64[ns]", "date": "datetime64[D]", "duration": "timedelta64[ns]",
}  # fmt: skip


# What stands for a null in arrays of these kinds; others become objects, with None.
_WITH_NULLS = {
    "f": np.nan, "M": np.datetime64("NaT", "ns"), "m": np.timedelta64("NaT", "ns"), "O": None,
}  # fmt: skip


def to_rows(table: Table) -> list[Row]:
    """One tuple of Python values a row."""
    if not table.columns:
        return [()] * table.length
    columns = [python_values(*each) for each in table.leaving]
    return list(zip(*columns, strict=True))


def named_rows(names: Sequence[str], rows: Iterable[Row]) -> Iterator[Row]:
    """The same rows as tuples that know their columns' names, by which pandas.DataFrame names its
    columns."""
    row: type[_NamedRow] = type("Row", (_NamedRow,), {"__slots__": (), "_fields": tuple(names)})
    return map(row, rows)


class _NamedRow(Row):
    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (tuple(self),)


def python_values(kind: TypeName, column: Column, of: Kind | None = None) -> list[Any]:
    """A column as Python values, None for nulls; timestamps as pandas Timestamps in the column's
    zone."""
    if isinstance(column, NullableColumn):
        found = python_values(kind, column.values, of)
        return [
            None if null else value
            for null, value in zip(column.missing.tolist(), found, strict=True)
        ]
    if isinstance(column, TextColumn):
        return list(column.decode().tolist())
    if kind == "timestamp":
        import pandas as pd

        zone = UTC if of is None or of.zone is None else of.zone
        times = pd.DatetimeIndex(column.view("datetime64[ns]"))
        return list(times.tz_localize(UTC).tz_convert(zone) if zone else times)
    if kind == "duration":
        import pandas as pd

        return list(pd.TimedeltaIndex(column.view("timedelta64[ns]")))
    if scale_of(kind):
        return list(decimals.to_python(column, scale_of(kind)))
    values: list[Any] = (column.astype("datetime64[D]") if kind == "date" else column).tolist()
    return values


def arrow_stream(empty: Table, tables: Iterable[Table], requested_schema: object = None) -> object:
    """The capsule of Arrow's stream interface, of tables with the columns of the empty one."""
    batches = (batch for table in tables for batch in to_arrow(table).to_batches())
    reader = pa.RecordBatchReader.from_batches(to_arrow(empty).schema, batches)
    return reader.__arrow_c_stream__(requested_schema)


def to_cupy(columns: Sequence[Array]) -> list[Any]:
    """Arrays copied to the GPU of this machine."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "to_cupy() needs CuPy, which cannot be imported",
            hint="gdatalog --doctor says which package this machine needs; to_numpy() needs none",
        ) from error
    try:
        return [cupy.asarray(column) for column in columns]
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"to_cupy() needs a GPU: {error}",
            hint="gdatalog --doctor says what is missing; to_numpy() needs none",
        ) from error
