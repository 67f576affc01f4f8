"""Data frames and other Python data become tables, with a column of row numbers if asked for.

What it takes: DataFrames (pandas, polars, cuDF), whatever speaks Arrow (tables, batches,
streams, DuckDB relations), NumPy and CuPy arrays (of one or two dimensions, or structured),
rows (tuples, lists, records, single values), a dict of columns, scipy.sparse matrices (the
places of their nonzeros), and networkx graphs (their edges, in both directions if undirected).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cancellation import OBJECT, cancellable, current_watch
from gdatalog.errors import DataError, UsageError
from gdatalog.records import replace
from gdatalog.storage.arrays import empty_column
from gdatalog.storage.cells import cells_column
from gdatalog.storage.columns import column_from, object_column
from gdatalog.storage.file_sets import TypedColumns
from gdatalog.storage.headers import match_columns
from gdatalog.storage.load_options import (
    PLAIN,
    DataPlace,
    Declared,
    FilePlace,
    LoadOptions,
    MissingValue,
)
from gdatalog.storage.nulls import Mending, explained
from gdatalog.storage.raw import Raw, raw_of, raw_of_table
from gdatalog.storage.table import Column, Table
from gdatalog.values import TypeName, is_unicode

TYPING = (0.4, 0.9)  # its share of the progress of loading, see `delimited.py`


def table_from(
    data: Any,
    options: LoadOptions = PLAIN,
    *,
    declared: Declared | None = None,
    what: str = "data",
    there: Any = None,
) -> Table:
    """A table of `data`, whatever it is.

    The columns match the declared ones by name where all of these are there. Errors speak of the
    data as `what`, and count rows from 0. `there`: the functions of a device, on which columns
    stay that lie there; else they are copied to the host.

    >>> table_from([(1, "a"), (2, "b")]).types
    ('int', 'symbol')
    """
    loaded = partial(_table_from, data, options, what, there)
    return next(with_row_ids(loaded, options, declared, what))


def _table_from(
    data: Any, options: LoadOptions, what: str, there: Any, declared: Declared | None
) -> Iterator[Table]:
    if options.header is not None:
        raise UsageError(f"{what}: header is said of text files", hint="leave header= out")
    if isinstance(data, Table):
        data = raw_of_table(data)
    wanted = _wanted_arity(options.columns, declared)
    raw = (
        data
        if isinstance(data, Raw)
        else raw_of(data, wanted, options.columns, declared, what, there)
    )
    yield table_of(raw, options, declared, what, there)


def table_of(
    raw: Raw,
    options: LoadOptions,
    declared: Declared | None,
    what: str,
    there: Any = None,
) -> Table:
    """The columns that the user wants, each of its declared type or of its own."""
    columns = options.columns
    if options.findings is not None and columns is None and declared is None:
        options.findings.warnings += raw.warnings
    if not raw.columns and not raw.length:
        return _empty_table(columns, declared, raw.names is not None, what)
    arity = len(raw.columns)
    names, picked = match_columns(raw.names, arity, columns, declared, what, raw.header)
    unprintable = next((name for name in names if not is_unicode(name)), None)
    if unprintable is not None:
        raise DataError(f"{what}: the column name {unprintable!r} holds half a surrogate pair")
    wanted: Sequence[TypeName | None] = declared.types if declared else [None] * len(picked)
    try:
        return _typed(raw, names, picked, wanted, options, what, there)
    except MissingValue as error:
        raise explained(error, raw, names, picked, wanted) from None


def table_of_file(raw: Raw, options: LoadOptions, declared: Declared | None, name: str) -> Table:
    """The same of what a file holds."""
    if raw.place is None:
        raw = replace(raw, place=lambda _, column: FilePlace(name, column))
    with current_watch().innermost.within(*TYPING):
        return table_of(raw, options, declared, name)


def _typed(
    raw: Raw,
    names: Sequence[str],
    picked: Sequence[int],
    wanted: Sequence[TypeName | None],
    options: LoadOptions,
    what: str,
    there: Any,
) -> Table:
    types: list[TypeName] = []
    converted = []
    for name, at in zip(names, picked, strict=True):
        if len(raw.columns[at]) != raw.length:
            message = f"{what}: column {name!r} has {len(raw.columns[at])} rows, the first"
            hint = "all columns of a relation have one length"
            raise DataError(f"{message} {raw.length}", hint=hint)
    watch, work = current_watch(), current_watch().innermost
    # The number of rows of several files is unknown so far; that of a batch is counted elsewhere.
    if not work.several and raw.whole is None:
        work.new_rows = raw.length
    if work.stage == "loading" and work.total is None:
        work.total, work.unit = raw.length, "rows"
    mending = Mending.of(raw, names, picked, wanted, options) if options.mends else None
    length = raw.length if mending is None else mending.length
    for position, (name, origin) in enumerate(zip(names, picked, strict=True)):
        work.share(position / len(picked))
        watch.poll()
        place = DataPlace(what, name) if raw.place is None else raw.place(origin, name)
        typed = partial(_column, raw.source, wanted[position], there)
        column = raw.columns[origin]
        if mending is not None:
            kind, values = mending.column(position, column, place, typed)
        else:
            kind, values = typed(column, place)
        types.append(kind)
        converted.append(values)
    return Table(tuple(names), tuple(types), tuple(converted), length if picked else min(length, 1))


def _column(
    source: str, expected: TypeName | None, there: Any, column: Any, place: DataPlace
) -> tuple[TypeName, Column]:
    """One column's type and values."""
    if source == "text":
        return cells_column(column, expected, place)
    if source == "json":
        return object_column(column, expected, place, json=True)
    looked_at = len(column) * OBJECT if there is None and hasattr(column, "__len__") else 0
    return cancellable(looked_at, partial(column_from, column, expected, place, there), None)


def _wanted_arity(columns: Sequence[str] | None, declared: Declared | None) -> int | None:
    if declared is not None:
        return len(declared.types)
    return len(columns) if columns is not None else None


def _empty_table(
    columns: Sequence[str] | None, declared: Declared | None, is_frame: bool, what: str
) -> Table:
    """A table without rows, for any declaration."""
    if declared is not None:
        return _empty(declared.columns, declared.types)
    if columns is not None:
        unknown: TypeName = "symbol"
        return _empty(tuple(columns), tuple(unknown for _ in columns))
    if is_frame:
        return _empty((), ())
    raise DataError(
        f"{what}: there is no row, so the number of columns is not known",
        hint="declare the relation, or load a DataFrame whose columns have names and dtypes",
    )


def _empty(names: tuple[str, ...], types: tuple[TypeName, ...]) -> Table:
    return Table(names, types, tuple(empty_column(kind) for kind in types), 0)


# A column of row numbers keeps equal rows apart, although a relation is a set.


def with_row_ids(
    read: Callable[[Declared | None], Iterable[Table]],
    options: LoadOptions,
    declared: Declared | None,
    what: str,
) -> Iterator[Table]:
    """The tables that `read` returns, with a column of consecutive row numbers if the options name
    one: at its declared position, else in front."""
    name = options.row_id
    if name is None:
        yield from read(declared)
        return
    at, next_number = 0, options.first_row_id
    if declared is not None:
        pairs = dict(zip(declared.columns, declared.types, strict=True))
        if pairs.get(name) != "int":
            found = f"{name}: {pairs[name]}" if name in pairs else "no such column"
            raise DataError(
                f"{what}: the row numbers are to be the column {name!r}, and the relation has "
                f"{found}",
                hint=f"declare {name}: int",
            )
        at = declared.columns.index(name)
        del pairs[name]
        declared = TypedColumns(tuple(pairs), tuple(pairs.values()))
    for table in read(declared):
        if name in table.names:
            raise DataError(
                f"{what}: the data has a column {name!r} already",
                hint="give the row numbers another name",
            )
        numbers = np.arange(next_number, next_number + table.length, dtype=np.int64)
        next_number += table.length
        yield Table(
            (*table.names[:at], name, *table.names[at:]),
            (*table.types[:at], "int", *table.types[at:]),
            (*table.columns[:at], numbers, *table.columns[at:]),
            table.length,
        )
