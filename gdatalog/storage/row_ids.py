"""A column of row numbers: with it rows that are equal stay apart, though a relation is a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gdatalog.errors import DataError
from gdatalog.storage.file_sets import TypedColumns
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.raw import Declared
from gdatalog.storage.table import Table


def with_row_ids(
    read: Callable[[Declared | None], Iterable[Table]],
    options: LoadOptions,
    declared: Declared | None,
    what: str,
) -> Iterator[Table]:
    """The tables that `read` makes, whose rows follow each other, with a column of row numbers if
    the options name one: where the declaration has it, else in front."""
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
