"""A column of row numbers keeps equal rows apart, although a relation is a set.

It has the name that the user gives; or it is the last column, and hidden: atoms and answers leave
it out unless they name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import replace
from gdatalog.storage.kinds import ROW_ID, ROW_NUMBERS, tidy
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.table import Table


def with_row_ids(
    read: Callable[[LoadOptions], Iterable[Table]], options: LoadOptions
) -> Iterator[Table]:
    """The tables that `read` returns, with a column of consecutive row numbers if the options name
    one: at its declared position, else in front, or behind if it is hidden."""
    name, declared, what = options.row_id, options.declared, options.what
    if name is None:
        yield from read(options)
        return
    hidden = name is True
    name = name if isinstance(name, str) else ROW_ID
    at, next_number = 0, options.first_row_id
    if declared is not None and not (hidden and ROW_ID not in declared.columns):
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
        null = declared.nullable and (*declared.nullable[:at], *declared.nullable[at + 1 :])
        declared = TypedColumns(tuple(pairs), tuple(pairs.values()), null, declared.declared)
    for table in read(replace(options, declared=declared)):
        if name in table.names:
            raise DataError(
                f"{what}: the data has a column {name!r} already",
                hint="give the row numbers another name",
            )
        numbers = np.arange(next_number, next_number + table.length, dtype=np.int64)
        next_number += table.length
        at = len(table.names) if hidden else at
        kinds = table.kinds or (None,) * len(table.names)
        yield Table(
            (*table.names[:at], name, *table.names[at:]),
            (*table.types[:at], "int", *table.types[at:]),
            (*table.columns[:at], numbers, *table.columns[at:]),
            table.length,
            tidy((*kinds[:at], ROW_NUMBERS if hidden else None, *kinds[at:])),
            table.nullable and (*table.nullable[:at], False, *table.nullable[at:]),
        )
