"""Data frames and other Python data become tables.

Supported data: DataFrames (pandas, polars, cuDF), objects with Arrow's interface (tables, batches,
streams, DuckDB relations), NumPy and CuPy arrays (of one or two dimensions, or structured),
rows (tuples, lists, records, single values), a dict of columns, scipy.sparse matrices (the
positions of nonzeros), and networkx graphs (their edges, in both directions if undirected).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cancellation import OBJECT, cancellable, current_watch
from gdatalog.errors import DataError, UsageError
from gdatalog.records import replace
from gdatalog.storage.cells import cells_column
from gdatalog.storage.column_arrays import empty_column
from gdatalog.storage.column_matching import match_columns
from gdatalog.storage.columns import column_from, object_column
from gdatalog.storage.kinds import Kind, kind_of, tidy
from gdatalog.storage.load_options import PLAIN, LoadOptions
from gdatalog.storage.missing import (
    Mending,
    Picked,
    Typing,
    check_nullable,
    explained,
    unmarked,
    with_nulls,
)
from gdatalog.storage.networks import Nodes, is_graph, raw_of_edges, raw_of_nodes
from gdatalog.storage.places import DataPlace, FilePlace, MissingValue
from gdatalog.storage.raw import Raw, raw_of, raw_of_table
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Column, NullableColumn, Table, TextColumn
from gdatalog.values import TypeName, is_unicode

TYPING = (0.4, 0.9)  # where conversion begins and ends in the progress of loading a file


def table_from(data: Any, options: LoadOptions = PLAIN) -> Table:
    """The table of any supported data.

    Columns match the declared ones by name if the data has all these names, else by position.
    Errors count rows from 0.

    >>> table_from([(1, "a"), (2, "b")]).types
    ('int', 'symbol')
    """
    if options.header is not None:
        raise UsageError(f"{options.what}: header is for text files", hint="leave header= out")
    if isinstance(data, Table):
        data = raw_of_table(data)

    def read(options: LoadOptions) -> list[Table]:
        return [table_of(_raw(data, options), options)]

    return next(with_row_ids(read, options))


def _raw(data: Any, options: LoadOptions) -> Raw:
    if isinstance(data, Raw):
        return data
    if isinstance(data, Nodes):
        return raw_of_nodes(data, options)
    return raw_of_edges(data, options) if is_graph(data) else raw_of(data, options)


def table_of(raw: Raw, options: LoadOptions) -> Table:
    """The columns that the user wants, each of its declared type or of its own."""
    declared = options.declared
    if options.findings is not None and options.columns is None and declared is None:
        options.findings.warnings += raw.warnings
    if not raw.columns and not raw.length:
        return _empty_table(options, raw.names is not None)
    names, places = match_columns(raw.names, len(raw.columns), options, raw.header)
    unprintable = next((name for name in names if not is_unicode(name)), None)
    if unprintable is not None:
        raise DataError(
            f"{options.what}: the column name {unprintable!r} holds half a surrogate pair"
        )
    types: Sequence[TypeName | None] = (
        declared.types if declared is not None else [None] * len(places)
    )
    picked = list(zip(names, places, types, strict=True))
    try:
        return _typed(raw, picked, options)
    except MissingValue as error:
        raise explained(error, raw, picked, options) from None


def table_of_file(raw: Raw, options: LoadOptions) -> Table:
    """As `table_of`, for a file: errors name it, and progress is reported."""
    if raw.place is None:
        raw = replace(raw, place=lambda _, column: FilePlace(options.what, column))
    with current_watch().innermost.within(*TYPING):
        return table_of(raw, options)


def _typed(raw: Raw, picked: Picked, options: LoadOptions) -> Table:
    types: list[TypeName] = []
    kinds: list[Kind | None] = []
    converted = []
    for name, at, _ in picked:
        if len(raw.columns[at]) != raw.length:
            message = f"{options.what}: column {name!r} has {len(raw.columns[at])} rows, the first"
            hint = "all columns of a relation have one length"
            raise DataError(f"{message} {raw.length}", hint=hint)
    watch, work = current_watch(), current_watch().innermost
    # The number of rows of several files is unknown so far; that of a batch is counted elsewhere.
    if not work.several and raw.whole is None:
        work.new_rows = raw.length
    if work.stage == "loading" and work.total is None:
        work.total, work.unit = raw.length, "rows"
    mending = Mending.of(raw, picked, options) if options.mends else None
    declared, keep = options.declared, options.nulls == "keep"
    strict = declared is not None and declared.declared  # others have no nulls
    said = () if declared is None else declared.nullable
    null: list[bool] = []
    for position, (name, at, wanted) in enumerate(picked):
        work.share(position / len(picked))
        watch.poll()
        place = DataPlace(options.what, name) if raw.place is None else raw.place(at, name)
        typed: Typing = partial(_column, raw, wanted, options.there)
        nullable = bool(said) and said[position]
        if keep and (nullable or not strict):
            marked = nullable and wanted == "symbol"
            typed = partial(with_nulls, raw.source, options.null, marked, typed)
            nullable = nullable or (
                raw.table is not None and True in raw.table.nullable[at : at + 1]
            )
        column = raw.columns[at]
        if mending is not None:
            kind, values = mending.column(position, column, place, typed)
        else:
            kind, values = typed(column, place)
        if nullable and isinstance(values, np.ndarray | TextColumn):
            values = NullableColumn(values, np.zeros(len(values), dtype=np.bool_))
        null.append(type(values) is NullableColumn)
        if isinstance(values, NullableColumn):
            check_nullable(values, kind, place)
        types.append(kind)
        kinds.append(_kind(raw, at, kind))
        converted.append(values)
    length = raw.length if mending is None else mending.length
    names = tuple(name for name, _, _ in picked)
    rows = length if picked else min(length, 1)
    nulls = tuple(null) if True in null else ()
    return Table(names, tuple(types), tuple(converted), rows, tidy(kinds), nulls)


def _kind(raw: Raw, at: int, found: TypeName) -> Kind | None:
    """The kind of a column that is loaded as this type."""
    table = raw.table
    if table is not None and table.kinds and table.types[at] == found:
        return table.kinds[at]
    return kind_of(raw.columns[at], found) if raw.source == "values" else None


def _column(
    raw: Raw, wanted: TypeName | None, there: Any, column: Any, place: DataPlace
) -> tuple[TypeName, Column]:
    """One column's type and values."""
    if raw.source == "text":
        column = unmarked(column)
        return cells_column(column, wanted, place, raw.whole is not None)
    if raw.source == "json":
        return object_column(column, wanted, place, json=True)
    looked_at = len(column) * OBJECT if there is None and hasattr(column, "__len__") else 0
    return cancellable(looked_at, partial(column_from, column, wanted, place, there), None)


def _empty_table(options: LoadOptions, is_frame: bool) -> Table:
    """A table without rows, for any declaration."""
    if options.declared is not None:
        return _empty(options.declared.columns, options.declared.types)
    if options.columns is not None:
        unknown: TypeName = "symbol"
        return _empty(tuple(options.columns), (unknown,) * len(options.columns))
    if is_frame:
        return _empty((), ())
    raise DataError(
        f"{options.what}: there is no row, so the number of columns is not known",
        hint="declare the relation, or load a DataFrame whose columns have names and dtypes",
    )


def _empty(names: tuple[str, ...], types: tuple[TypeName, ...]) -> Table:
    return Table(names, types, tuple(empty_column(kind) for kind in types), 0)
