"""What the tests of loading share: declarations, and files that are written and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdatalog.errors import DataError
from gdatalog.records import replace
from gdatalog.storage import facts_files
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import PLAIN, LoadOptions
from gdatalog.storage.readers import read_tables
from gdatalog.storage.table import DTYPES, Column, NullableColumn, Table, TextColumn


@dataclass
class Decl:
    columns: tuple[str, ...]
    types: tuple[Any, ...]
    nullable: tuple[bool, ...] = ()
    declared: bool = True


def decl(**columns: str) -> Decl:
    """`int?` is nullable."""
    types = tuple(kind.removesuffix("?") for kind in columns.values())
    null = tuple(kind.endswith("?") for kind in columns.values())
    return Decl(tuple(columns), types, null if any(null) else ())


E = decl(src="int", dst="int")
S = decl(src="symbol", dst="symbol")


def split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that a user may give, and those of the functions that are tested."""
    given = {key: value for key, value in options.items() if key in LoadOptions.__slots__}
    return given, {key: value for key, value in options.items() if key not in given}


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def joined(tables: Sequence[Table]) -> Table:
    """One table of the rows of at least one table; all have the same columns."""
    first = tables[0]
    if len(tables) == 1:
        return first
    columns = tuple(
        _joined([table.columns[at] for table in tables]) for at in range(len(first.names))
    )
    length = sum(table.length for table in tables)
    null = tuple(isinstance(column, NullableColumn) for column in columns)
    return Table(first.names, first.types, columns, length, nullable=null if any(null) else ())


def _joined(parts: Sequence[Column]) -> Column:
    if any(isinstance(part, NullableColumn) for part in parts):
        values = _joined([p.values if isinstance(p, NullableColumn) else p for p in parts])
        masks = [
            part.missing if isinstance(part, NullableColumn) else np.zeros(len(part), np.bool_)
            for part in parts
        ]
        assert not isinstance(values, NullableColumn)
        return NullableColumn(values, np.concatenate(masks))
    texts = [part for part in parts if isinstance(part, TextColumn)]
    if not texts:
        return np.concatenate([part for part in parts if not isinstance(part, TextColumn)])
    places: dict[str, int] = {}
    codes = []
    for part in texts:
        known = [places.setdefault(text, len(places)) for text in part.texts.tolist()]
        codes.append(np.array(known, dtype=np.int32)[part.codes])
    whole = np.empty(len(places), dtype=object)
    whole[:] = list(places)
    return TextColumn(np.concatenate(codes), whole)


def read_table(
    path: str | Path, options: LoadOptions = PLAIN, declared: Any = None, **how: Any
) -> Table:
    """All rows of a file, or of files that are one relation."""
    options = replace(options, declared=options.declared if declared is None else declared)
    return joined(list(read_tables(path, options, **how)))


def _reader_of(data: Any) -> Callable[..., Table]:
    return read_table if isinstance(data, str | Path) else table_from


def read(
    content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any
) -> Table:
    given, how = split(o)
    return read_table(put(name, content), LoadOptions(**given), declared=declared, **how)


def rows(content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any) -> Any:
    return to_rows(read(content, declared, name, **o))


def refused(
    content: str | bytes, declared: Decl | None = None, name: str = "e.csv", **o: Any
) -> str:
    with pytest.raises(DataError) as caught:
        read(content, declared, name, **o)
    return told(caught.value)


def told(error: DataError) -> str:
    """Place, message, notes and hint; docs/errors.md has how rows are shown."""
    lines = [line for line in str(error).splitlines() if not re.match(r" +[0-9]* \| ", line)]
    return "\n".join(lines)


def read_facts(*given: Any) -> Table:
    return joined(list(facts_files.read_facts(*given)))


def read_input(*given: Any) -> Table:
    return joined(list(facts_files.read_input(*given)))


def facts(content: str | bytes, declared: Decl, name: str = "e.facts") -> Any:
    put(name, content)
    return to_rows(read_facts("e", ".", declared))


def facts_refused(content: str | bytes, declared: Decl, name: str = "e.facts") -> str:
    with pytest.raises(DataError) as caught:
        facts(content, declared, name)
    return told(caught.value)


def load(data: Any, **options: Any) -> Table:
    """A table whose columns are as the contract says."""
    given, how = split(options)
    table = _reader_of(data)(data, LoadOptions(**given), **how)
    assert len(table.names) == len(table.types) == len(table.columns)
    for kind, column in zip(table.types, table.columns, strict=True):
        assert len(column) == table.length
        if kind == "symbol":
            assert isinstance(column, TextColumn)
            assert len(set(column.texts)) == len(column.texts)
            assert all(type(text) is str for text in column.texts)
        else:
            narrow = [np.dtype(np.int32)] if kind in ("int", "date") else []
            assert column.dtype in (DTYPES[kind], *narrow)
    return table


def refused_data(data: Any, **options: Any) -> str:
    given, how = split(options)
    with pytest.raises(DataError) as caught:
        _reader_of(data)(data, LoadOptions(**given), **how)
    return str(caught.value)
