"""Some row groups of Parquet files, for workers that read one file together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import dataclass, replace
from gdatalog.storage.columns import arrow_type
from gdatalog.storage.data_files import place_among, reading_parquet
from gdatalog.storage.file_sets import File
from gdatalog.storage.imported_later import pa, pq
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.raw import Raw, data_columns, raw_of_columns
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True)
class Footer:
    """The metadata of a file; `stamp` changes when the file does."""

    file: File
    stamp: tuple[int, int]
    types: tuple[tuple[str, TypeName | None], ...]  # of columns, those of folders last
    groups: tuple[tuple[int, int], ...]  # the rows and bytes of each group


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Consecutive row groups of a file. `first`: the number of rows before them."""

    file: File
    stamp: tuple[int, int]
    numbers: tuple[int, ...]
    first: int
    rows: int


def footer_of(file: File) -> Footer:
    with reading_parquet(file.path, "there is no such file"):
        stat = os.stat(file.path)
        with pq.ParquetFile(file.path) as opened:
            size, schema = opened.metadata, opened.schema_arrow
            groups = [size.row_group(number) for number in range(size.num_row_groups)]
            sizes = tuple((group.num_rows, group.total_byte_size) for group in groups)
            types: list[tuple[str, TypeName | None]] = [
                (name, arrow_type(schema.field(of).type))
                for name, of in data_columns(schema.names).items()
            ]
    for key, value in file.keys:
        types.append((key, "int" if isinstance(value, int) else "symbol"))
    return Footer(file, (stat.st_mtime_ns, stat.st_size), tuple(types), sizes)


def groups_of(footer: Footer, most_rows: int, most_bytes: int) -> Iterator[RowGroups]:
    """The file's row groups, joined as long as they have at most so many rows and bytes."""
    numbers: list[int] = []
    first = rows = size = 0
    for number, (more, nbytes) in enumerate(footer.groups):
        if rows and (rows + more > most_rows or size + nbytes > most_bytes):
            yield RowGroups(footer.file, footer.stamp, tuple(numbers), first, rows)
            numbers, first, rows, size = [], first + rows, 0, 0
        numbers.append(number)
        rows, size = rows + more, size + nbytes
    if rows:
        yield RowGroups(footer.file, footer.stamp, tuple(numbers), first, rows)


def typed_by(footers: Sequence[Footer], columns: Sequence[str] | None) -> TypedColumns | None:
    """The columns of some files, with the types of the first file that has rows; None if columns
    must be matched or typed by their values."""
    with_rows = [f for f in footers if any(rows for rows, _ in f.groups)] or list(footers)
    first = dict(with_rows[0].types)
    names = tuple(first) if columns is None else tuple(columns)
    if not set(names) <= first.keys() or len(set(names)) < len(names):
        return None
    types = [first[name] for name in names]
    known = tuple(kind for kind in types if kind is not None)
    return TypedColumns(names, known) if len(known) == len(names) else None


def raw_of_groups(groups: RowGroups, wanted: Sequence[str]) -> Raw:
    """The rows of some row groups: only the `wanted` columns, as far as the file has them."""
    path = groups.file.path
    with reading_parquet(path, "there is no such file any more"):
        stat = os.stat(path)
        if (stat.st_mtime_ns, stat.st_size) != groups.stamp:
            raise DataError(
                f"{path}: the file has changed since it was loaded", hint="load it again"
            )
        with pq.ParquetFile(path, memory_map=True) as file:
            there = data_columns(file.schema_arrow.names)
            named = {*there, *(key for key, _ in groups.file.keys)}.issuperset(wanted)
            only = [of for name, of in there.items() if name in wanted or not named]
            table = file.read_row_groups(list(groups.numbers), columns=only)
            table.validate(full=True)
    raw = with_keys(raw_of_columns(table, there), groups.file)
    return replace(raw, place=partial(place_among, path, groups.first))


def with_keys(raw: Raw, file: File) -> Raw:
    """The columns of a file, followed by those of its folders' names."""
    if not file.keys or raw.names is None:
        return raw
    names = tuple(key for key, _ in file.keys)
    both = next((name for name in names if name in raw.names), None)
    if both is not None:
        raise DataError(
            f"{file.path}: the column {both!r} is in the file, and in its folder's name"
        )
    columns = [_repeated(value, raw.length) for _, value in file.keys]
    whole = raw.whole
    return replace(
        raw,
        names=(*raw.names, *names),
        columns=(*raw.columns, *columns),
        whole=None if whole is None else lambda: (with_keys(part, file) for part in whole()),
    )


def _repeated(value: int | str, length: int) -> pa.Array:
    """A column with the same value in each row."""
    if isinstance(value, int):
        return np.full(length, value, dtype=np.int64)
    codes = np.zeros(length, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(codes, pa.array([value], pa.large_string()))
