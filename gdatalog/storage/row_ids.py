"""A column of row numbers: with it rows that are equal stay apart, though a relation is a set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.errors import DataError
from gdatalog.storage.file_sets import Typed
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.raw import Declared
from gdatalog.storage.table import Table


def with_row_ids(
    read: Callable[[Declared | None], Table],
    options: LoadOptions,
    declared: Declared | None,
    what: str,
) -> Table:
    """The table that `read` makes, with a column of row numbers if the options name one: where the
    declaration has it, else in front."""
    name = options.row_id
    if name is None:
        return read(declared)
    at = 0
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
        declared = Typed(tuple(pairs), tuple(pairs.values()))
    table = read(declared)
    if name in table.names:
        raise DataError(
            f"{what}: the data has a column {name!r} already",
            hint="give the row numbers another name",
        )
    numbers = np.arange(options.first_row_id, options.first_row_id + table.length, dtype=np.int64)
    return Table(
        (*table.names[:at], name, *table.names[at:]),
        (*table.types[:at], "int", *table.types[at:]),
        (*table.columns[:at], numbers, *table.columns[at:]),
        table.length,
    )
