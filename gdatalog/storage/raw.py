"""Raw columns of any data, pandas and cuDF included, before they are matched and typed.

Each kind of data has its own function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gdatalog import cancellation
from gdatalog.cancellation import OBJECT, cancellable, current_watch
from gdatalog.errors import Caution, DataError, Span
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.device_columns import fetched, from_cudf, lies_on_device
from gdatalog.storage.imported_later import pa
from gdatalog.storage.load_options import Declared, LoadOptions
from gdatalog.storage.places import DataPlace, shown
from gdatalog.storage.table import Table
from gdatalog.values import plain

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 1 << 14  # rows that are taken from an iterator between two polls


# Columns that pandas and Dask write for an unnamed index, or level of an index.
_INDEX = re.compile(r"__index_level_(\d+)__|__null_dask_index__")
_ROW_NUMBERS = ("int64", "int32", "uint64", "uint32")


@dataclass(frozen=True, slots=True)
class Raw:
    """Columns as they were given: with names, or without (None); `length` is the number of rows.

    `source`: whether the columns hold values, cells of a text file, or JSON values. `place` returns
    the place of a column for errors, from its position and name. `header`: the span of a file's
    header. `warnings`: about data that is not loaded. `whole`: if this is one batch of several,
    reads all batches again. `table`: what the columns were, with
    their kinds.
    """

    names: tuple[str, ...] | None
    columns: tuple[Any, ...]
    length: int
    source: Literal["values", "text", "json"] = "values"
    place: Callable[[int, str], DataPlace] | None = None
    header: Span | None = None
    warnings: list[Caution] = field(default_factory=list)
    whole: Callable[[], Iterable[Raw]] | None = None
    table: Table | None = None


def default_name(position: int) -> str:
    """The name of an unnamed column."""
    return f"column{position}"


def at_hand(data: Any) -> int:
    """The number of rows that any thread may read; 0 if the data is generated while it is read, or
    belongs to one thread, as a cursor does."""
    if isinstance(data, dict):
        return sum(map(at_hand, data.values())) if all(map(at_hand, data.values())) else 0
    library = type(data).__module__.partition(".")[0]
    if library in ("networkx", "scipy"):
        return cancellation.LATE
    if library not in ("builtins", "pandas", "polars", "pyarrow", "numpy"):
        return 0
    try:
        return len(data)
    except TypeError:  # a generator or stream
        return 0


def bytes_on_device(data: Any) -> int:
    """The bytes of the columns of data that lie on a GPU."""
    if isinstance(data, Mapping):
        return sum(map(bytes_on_device, data.values()))
    if not lies_on_device(data):
        return 0
    if from_cudf(data) and hasattr(data, "memory_usage"):
        usage = data.memory_usage(index=False)
        return int(usage.sum() if hasattr(usage, "sum") else usage)
    return int(getattr(data, "nbytes", 0))


def raw_of_table(table: Table) -> Raw:
    """A table as raw data, so that it can be matched with a declaration."""
    from gdatalog.storage.export import to_arrow

    columns = tuple(to_arrow(table).columns)
    return Raw(table.names, columns, table.length, table=table)


def raw_of(data: Any, options: LoadOptions) -> Raw:
    """The columns of any data."""
    library = type(data).__module__.split(".")[0]
    if data is None or isinstance(data, bytes | bytearray | int | float | complex):
        if isinstance(data, bool):
            return Raw((), (), int(data))
        raise _not_data(data, options.what)
    if library == "polars" and hasattr(data, "collect"):
        data = data.collect()
    if library == "dask" and hasattr(data, "compute"):
        return raw_of(data.compute(), options)
    what, there, declared = options.what, options.there, options.declared
    wanted = declared.columns if declared is not None and options.columns is None else None
    if library in ("cudf", "modin", "pandas"):
        if library == "cudf" and there is not None and hasattr(data, "to_pandas"):
            return raw_of_cudf(data, wanted)
        if library != "pandas" and hasattr(data, "to_pandas"):
            data = data.to_pandas()
        found = raw_of_pandas(data, what, wanted)
        if found is not None:
            return found
    if library == "polars" and getattr(data, "name", None):  # a Series
        return replace(_arrow(data, what), names=(str(data.name),))
    if isinstance(data, np.ndarray):
        return _numpy(data, what)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _arrow(data, what)
    if hasattr(data, "__cuda_array_interface__"):
        if there is not None:
            return _numpy(there.asarray(data), what)
        if hasattr(data, "get"):
            return _numpy(data.get(), what)
    if hasattr(data, "tocoo") and hasattr(data, "shape"):
        return _sparse(data, options)
    if isinstance(data, Mapping):
        return _dict(data, what, there)
    if hasattr(data, "__array__"):
        return _numpy(np.asarray(data), what)
    if isinstance(data, Iterable):
        rows = _collected(data)
        return cancellable(len(rows) * OBJECT, lambda: raw_of_rows(rows, what), None)
    raise _not_data(data, what)


def _collected(data: Iterable[Any]) -> list[Any]:
    """The rows of an iterable, which may be generated only now."""
    if isinstance(data, list):
        return data
    found: list[Any] = []
    left = iter(data)
    while piece := list(islice(left, AT_ONCE)):
        found += piece
        current_watch().poll()
    return found


def _not_data(data: object, what: str) -> DataError:
    return DataError(
        f"{what}: cannot load {shown(data)}, of type {type(data).__name__}",
        hint="load a DataFrame, an Arrow table, an array, a list of tuples, or a file's path",
    )


def _numpy(data: Any, what: str) -> Raw:
    if data.dtype.names:
        if data.ndim != 1:
            raise DataError(f"{what}: a structured array has one dimension, found {data.ndim}")
        names = tuple(data.dtype.names)
        return Raw(names, tuple(data[name] for name in names), len(data))
    if data.ndim == 1:
        return Raw(None, (data,), len(data))
    if data.ndim == 2:
        return Raw(None, tuple(data[:, i] for i in range(data.shape[1])), len(data))
    raise DataError(
        f"{what}: an array has one or two dimensions, found {data.ndim}",
        hint="an array of two dimensions has a row for each tuple",
    )


def _arrow(data: Any, what: str) -> Raw:
    try:
        if isinstance(data, pa.Array | pa.ChunkedArray) and not pa.types.is_struct(data.type):
            return Raw(None, (data,), len(data))
        if isinstance(data, pa.RecordBatchReader):
            batches = []
            for batch in data:
                batches.append(batch)
                current_watch().poll()
            table = pa.Table.from_batches(batches, data.schema)
        elif isinstance(data, pa.ChunkedArray):
            table = _of_structs(data)
        elif hasattr(data, "__arrow_c_stream__"):
            values = pa.chunked_array(data)
            if not pa.types.is_struct(values.type):  # a polars Series, for instance
                return Raw(None, (values,), len(values))
            table = _of_structs(values)
        else:
            table = pa.table(data)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"{what}: cannot read the Arrow data: {error}") from error
    return raw_of_arrow(table, what)


def _of_structs(values: pa.ChunkedArray) -> pa.Table:
    if values.num_chunks == 0:
        return pa.schema(list(values.type)).empty_table()
    return pa.Table.from_struct_array(values)


def raw_of_arrow(table: pa.Table, what: str) -> Raw:
    """The columns of an Arrow table, except an unnamed index of pandas or Dask."""
    raw = raw_of_columns(table, data_columns(table.column_names))
    return replace(raw, warnings=index_warnings(table.schema, what))


def raw_of_columns(table: pa.Table, names: Mapping[str, str]) -> Raw:
    """Some columns of an Arrow table: `names` has the name of each, and its name in the table."""
    named = {of: name for name, of in names.items()}
    kept = [at for at, of in enumerate(table.column_names) if of in named]
    shown = tuple(named[table.column_names[at]] for at in kept)
    return Raw(shown, tuple(table.columns[at] for at in kept), table.num_rows)


def data_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns of a file or an Arrow table: the name of each, and its name in the data.

    A single unnamed index has row numbers and is left out. Several are the levels of an index,
    which are data.
    """
    unnamed = [name for name in names if _INDEX.fullmatch(name)]
    if len(unnamed) == 1 and len(names) > 1:
        return {name: name for name in names if name not in unnamed}
    return {_INDEX.sub(r"level_\1", name) if len(unnamed) > 1 else name: name for name in names}


def index_warnings(schema: pa.Schema, what: str) -> list[Caution]:
    """A warning if a column is left out as an index, but has no row numbers."""
    left = set(schema.names).difference(data_columns(schema.names).values())
    odd = any(str(schema.field(name).type) not in _ROW_NUMBERS for name in left)
    return [index_warning(what)] if odd else []


def _sparse(data: Any, options: LoadOptions) -> Raw:
    if len(data.shape) != 2:
        raise DataError(
            f"{options.what}: a sparse matrix has two dimensions, found {len(data.shape)}"
        )
    stored = data.tocsr().tocoo()  # adds up repeated entries
    kept = stored.data != 0
    rows, cols, values = stored.row, stored.col, stored.data
    if not kept.all():
        rows, cols, values = rows[kept], cols[kept], values[kept]
    names = ("row", "col", "value")[: 3 if options.arity == 3 else 2]
    return Raw(own_names(names, options.declared), (rows, cols, values)[: len(names)], len(rows))


def own_names(names: tuple[str, ...], declared: Declared | None) -> tuple[str, ...] | None:
    """The default names; None, so that columns match by position, if the declaration has others."""
    return names if declared is None or set(declared.columns) <= set(names) else None


def _dict(data: Mapping[Any, Any], what: str, there: Any) -> Raw:
    columns: list[Any] = []
    for name, column in data.items():
        on_device = lies_on_device(column)
        scalar = isinstance(column, str | bytes | np.generic)
        if scalar or not (on_device or isinstance(column, Iterable)):
            raise DataError(
                f"{what}: a dict holds columns, but {str(name)!r} is {shown(column)}",
                hint=f"a single row is a list of one tuple: [({shown(column)}, ...)]",
            )
        if on_device and there is None:
            column = fetched(column)
        columns.append(column if hasattr(column, "__len__") else list(column))
    if not columns:
        return Raw(None, (), 0)
    return Raw(tuple(map(_label, data)), tuple(columns), len(columns[0]))


def raw_of_rows(rows: Sequence[Any], what: str) -> Raw:
    """Rows: tuples, lists, arrays, records (dicts), or single values."""
    if not rows:
        return Raw(None, (), 0)
    first = rows[0]
    if isinstance(first, Mapping):
        return _records(rows, what)
    if isinstance(first, list | tuple | np.ndarray | np.void):
        return _tuples(rows, what)
    odd = next((i for i, row in enumerate(rows) if isinstance(row, list | tuple | dict)), None)
    if odd is not None:
        raise _uneven(odd, rows[odd], "a single value", what)
    return Raw(None, (rows,), len(rows))


def _tuples(rows: Sequence[Any], what: str) -> Raw:
    width = len(rows[0])
    kinds = (list, tuple, np.ndarray, np.void)
    alike = all(issubclass(kind, kinds) for kind in set(map(type, rows)))
    if not alike or set(map(len, rows)) != {width}:
        bad = next(
            i for i, row in enumerate(rows) if not issubclass(type(row), kinds) or len(row) != width
        )
        raise _uneven(bad, rows[bad], count_of_columns(width), what)
    names = getattr(rows[0], "_fields", None)  # of a namedtuple
    if width == 0:
        return Raw(None, (), len(rows))
    # One list with strides instead of zip(*rows), which would pass all rows as arguments.
    flat = list(chain.from_iterable(rows))
    return Raw(names, tuple(flat[i::width] for i in range(width)), len(rows))


def _records(rows: Sequence[Any], what: str) -> Raw:
    names = tuple(rows[0])
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise _uneven(position, row, "a record", what)
        if len(row) != len(names) or any(name not in row for name in names):
            raise DataError(
                f"{what}: row {position} has the keys {_keys(row)}, the first has {_keys(names)}",
                hint="all records have the same keys",
            )
    columns = tuple([row[name] for row in rows] for name in names)
    return Raw(tuple(map(_label, names)), columns, len(rows))


def _label(name: object) -> str:
    """The name of a column from its label, perhaps a member of an enumeration."""
    return str(plain(name))


def _keys(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in islice(names, 20)) or "of no column"


def _uneven(position: int, row: object, expected: str, what: str) -> DataError:
    return DataError(
        f"{what}: row {position} is {shown(row)}, the first has {expected}"
        if expected != "a single value"
        else f"{what}: row {position} is {shown(row)}, the first is a single value",
        hint="all rows of a relation have one length",
    )


def listed(names: Sequence[str]) -> str:
    shown_names = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{count_of_columns(len(names))} ({shown_names})" if names else count_of_columns(0)


def count_of_columns(number: int) -> str:
    return "no columns" if number == 0 else f"{number} column{'s' if number > 1 else ''}"


# DataFrames of pandas and cuDF, Series and indexes as raw columns.
#
# An index with a name or several levels is data: its levels are the first columns. An unnamed index
# of integers has row numbers, and is left out; other unnamed indexes are left out with a warning.


Wanted = Sequence[str] | None  # names of the declared columns, if these are to be matched


def raw_of_pandas(data: Any, what: str, wanted: Wanted) -> Raw | None:
    """A DataFrame, Series, index or extension array; None for anything else."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        positions = range(data.shape[1])
        # A frame without column names has numbers instead.
        numbered = isinstance(data.columns, pd.RangeIndex)
        names = [None if numbered else _name_of(name) for name in data.columns]
        columns = [data.iloc[:, i] for i in positions]
        return _with_index(data, names, columns, what, wanted)
    if isinstance(data, pd.Series):
        return _with_index(data, [_name_of(data.name)], [data], what, wanted)
    if isinstance(data, pd.Index):
        levels = index_columns(data)
        return _raw([name for name, _ in levels], [column for _, column in levels], wanted)
    return Raw(None, (pd.Series(data),), len(data)) if hasattr(data, "__array__") else None


def _with_index(
    data: pd.DataFrame | pd.Series,
    names: list[str | None],
    columns: list[pd.Series],
    what: str,
    wanted: Wanted,
) -> Raw:
    """The columns of a frame or Series, after those of its index if that is data."""
    import pandas as pd

    index = data.index
    if _name_of(index.name) is None and index.nlevels == 1:
        raw = _raw(names, columns, wanted, len(data))
        if isinstance(index, pd.RangeIndex) or index.dtype.kind in "iu" or not len(index):
            return raw
        raw.warnings.append(index_warning(what))
        return raw
    levels = index_columns(index)
    return _raw([name for name, _ in levels] + names, [c for _, c in levels] + columns, wanted)


def _name_of(label: Any) -> str | None:
    """The name of a pandas label; None if it is missing, for which pandas has NaN, too."""
    import pandas as pd

    return None if pd.api.types.is_scalar(label) and pd.isna(label) else _label(label)


def index_columns(index: pd.Index) -> list[tuple[str | None, pd.Series]]:
    """The levels of an index with their names. If there are several, unnamed levels are
    numbered."""
    import pandas as pd

    if index.nlevels == 1:
        return [(_name_of(index.name), pd.Series(index))]
    names = [_name_of(name) or f"level_{at}" for at, name in enumerate(index.names)]
    return [(name, pd.Series(index.get_level_values(at))) for at, name in enumerate(names)]


def index_warning(what: str) -> Caution:
    return Caution(
        f"{what}: the index has no name and is not loaded",
        hint='name it to load it as a column, df.rename_axis("name"), or drop it, '
        "df.reset_index(drop=True)",
    )


def _raw(
    names: Sequence[str | None], columns: Sequence[Any], wanted: Wanted, length: int | None = None
) -> Raw:
    """Raw data. Unnamed columns get numbered names, with two exceptions, in which all columns match
    by position: no column has a name, or each name equals the `wanted` one at its position."""
    rows = len(columns[0]) if length is None else length
    if None in names:
        others = wanted if wanted is not None and len(wanted) == len(names) else [""] * len(names)
        pairs = zip(names, others, strict=True)
        if all(name is None or name.lower() == other.lower() for name, other in pairs):
            return Raw(None, tuple(columns), rows)
    labels = tuple(default_name(at) if name is None else name for at, name in enumerate(names))
    return Raw(labels, tuple(columns), rows)


def raw_of_cudf(data: Any, wanted: Wanted) -> Raw:
    """The columns of a frame, or a Series, which stay on the device."""
    index = getattr(data, "index", None)
    levels = getattr(index, "nlevels", 1)
    if index is not None and (levels > 1 or getattr(index, "name", None) is not None):
        data = data.reset_index()
    if not hasattr(data, "columns"):
        return _raw([_name_of(data.name)], [data], wanted)
    names = list(data.columns)
    numbered = names == list(range(len(names)))
    labels = [None if numbered or isinstance(name, int) else _name_of(name) for name in names]
    return _raw(labels, [data[name] for name in names], wanted, len(data))
