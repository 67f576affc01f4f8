"""Data frames and other Python data on their way in: `table_from` makes a table of them.

What it takes: DataFrames (pandas, polars, cuDF), whatever speaks Arrow (tables, batches,
streams, DuckDB relations), NumPy and CuPy arrays (of one or two dimensions, or structured),
rows (tuples, lists, records, single values), a dict of columns, scipy.sparse matrices (the
places of their nonzeros), networkx graphs (their edges, in both directions if undirected), and
paths of files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from gdatalog.errors import DataError, meant
from gdatalog.storage.arrays import empty_column
from gdatalog.storage.cells import cells_column
from gdatalog.storage.columns import column_from
from gdatalog.storage.load_options import PLAIN, LoadOptions
from gdatalog.storage.objects import is_unicode, object_column
from gdatalog.storage.place import Place
from gdatalog.storage.raw import Declared, Raw, count_of_columns, listed, raw_of, raw_of_table
from gdatalog.storage.table import Table
from gdatalog.values import TypeName
from gdatalog.watching import OBJECT, patiently, watching


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
    if isinstance(data, str | os.PathLike):
        # Readers build on this file.
        from gdatalog.storage.readers import read_table

        return read_table(data, options, declared=declared)
    if isinstance(data, Table):
        data = raw_of_table(data)
    wanted = _wanted_arity(options.columns, declared)
    raw = (
        data
        if isinstance(data, Raw)
        else raw_of(data, wanted, options.columns, declared, what, there)
    )
    return table_of(raw, options, declared, what, there)


def table_of(
    raw: Raw,
    options: LoadOptions,
    declared: Declared | None,
    what: str,
    there: Any = None,
) -> Table:
    """The columns that are asked for, each of the type that was declared or that it has."""
    columns = options.columns
    if options.findings is not None and columns is None and declared is None:
        options.findings.warnings += raw.warnings
    if not raw.columns and not raw.length:
        return _empty_table(columns, declared, raw.names is not None, what)
    names, picked = _match(raw, columns, declared, what)
    unprintable = next((name for name in names if not is_unicode(name)), None)
    if unprintable is not None:
        raise DataError(f"{what}: the column name {unprintable!r} holds half a surrogate pair")
    types: list[TypeName] = []
    converted = []
    watch, work = watching(), watching().innermost
    if not work.several:  # of several files nobody knows yet how many rows they have
        work.new_rows = raw.length
    if work.stage == "loading" and work.total is None:
        work.total, work.unit = raw.length, "rows"
    for position, (name, origin) in enumerate(zip(names, picked, strict=True)):
        work.share(position / len(picked))
        watch.poll()
        expected = declared.types[position] if declared is not None else None
        place = Place(what, name) if raw.place is None else raw.place(origin, name)
        column = raw.columns[origin]
        if raw.source == "text":
            kind, values = cells_column(column, expected, place)
        elif raw.source == "json":
            kind, values = object_column(column, expected, place, json=True)
        else:
            typed = partial(column_from, column, expected, place, there)
            looked_at = raw.length * OBJECT if there is None else 0
            kind, values = patiently(looked_at, typed, None)
        if len(values) != raw.length:
            message = f"{what}: column {name!r} has {len(values)} rows, the first {raw.length}"
            raise DataError(message, hint="all columns of a relation have one length")
        types.append(kind)
        converted.append(values)
    length = raw.length if picked else min(raw.length, 1)
    return Table(tuple(names), tuple(types), tuple(converted), length)


def _wanted_arity(columns: Sequence[str] | None, declared: Declared | None) -> int | None:
    if declared is not None:
        return len(declared.types)
    return len(columns) if columns is not None else None


def _empty_table(
    columns: Sequence[str] | None, declared: Declared | None, is_frame: bool, what: str
) -> Table:
    """No columns and no rows: an empty relation of whatever was declared."""
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


def _match(
    raw: Raw, columns: Sequence[str] | None, declared: Declared | None, what: str
) -> tuple[Sequence[str], Sequence[int]]:
    """Names in the relation's order, and the positions of their columns in the data."""
    arity = len(raw.columns)
    names = raw.names
    picked: Sequence[int] = range(arity)
    if names is not None and columns is None:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise DataError(
                f"{what}: several columns are named {repeated[0]!r}",
                hint="rename them, or give all columns names: columns=[...]",
            )
    if columns is not None:
        if isinstance(columns, str):
            raise DataError(f"columns is a list of names, found {columns!r}")
        if names is not None and set(columns) <= set(names):
            picked = [names.index(name) for name in columns]
        elif len(columns) != arity:
            raise DataError(
                f"{what}: columns asks for {listed(columns)}, the data has "
                + (listed(names) if names is not None else count_of_columns(arity)),
                hint=_misspelt(columns, names),
            )
        names = tuple(columns)
        if len(set(names)) < len(names):
            raise DataError(f"{what}: columns names a column twice: {listed(columns)}")
    if declared is None:
        given = names if names is not None else tuple(f"column{i}" for i in range(arity))
        return given, picked
    expected = declared.columns
    if columns is None and names is not None and set(expected) <= set(names):
        picked = [names.index(name) for name in expected]
    elif len(picked) != len(expected):
        has = listed(names) if names is not None else count_of_columns(arity)
        raise DataError(
            f"{what}: the relation is declared with {_declared(declared)}, the data has {has}",
            hint=None
            if names is None
            else _misspelt(expected, names)
            or "columns=[...] selects columns of the data by their names",
        )
    return expected, picked


def _misspelt(columns: Sequence[str], names: Sequence[str] | None) -> str | None:
    """Which of the data's columns was meant by one that it has not."""
    for name in columns:
        if names is not None and name not in names and (near := meant(name, names)) is not None:
            return f"there is no column {name!r}: did you mean {near!r}?"
    return None


def _declared(declared: Declared) -> str:
    pairs = [f"{n}: {t}" for n, t in zip(declared.columns, declared.types, strict=True)]
    return listed(pairs)
