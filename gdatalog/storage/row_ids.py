"""A column of row numbers keeps equal rows apart, although a relation is a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import replace
from gdatalog.storage.kinds import tidy
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.table import Table


def with_row_ids(
    read: Callable[[LoadOptions], Iterable[Table]], options: LoadOptions
) -> Iterator[Table]:
    """The tables that `read` returns, with a column of consecutive row numbers if the options name
    one: at its declared position, else in front."""
    name, declared, what = options.row_id, options.declared, options.what
    if name is None:
        yield from read(options)
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
    for table in read(replace(options, declared=declared)):
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
            tidy((*table.kinds[:at], None, *table.kinds[at:])) if table.kinds else (),
        )
