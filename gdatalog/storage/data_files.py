"""Reads Parquet files in batches of rows, and several files of any format as one relation.

A folder of Parquet files is one relation, and so are the files that match a pattern. Subfolders may
be named `column=value`, as Hive names them: the files do not contain that column.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from glob import glob, has_magic
from urllib.parse import unquote

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError
from gdatalog.records import dataclass, replace
from gdatalog.storage.columns import arrow_type
from gdatalog.storage.imported_later import pa, pq
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.pipes import is_special
from gdatalog.storage.places import DataPlace, FilePlace, SomeRows
from gdatalog.storage.raw import Raw, data_columns, index_warnings, raw_of_columns
from gdatalog.storage.table import Table
from gdatalog.values import INT_MAX, INT_MIN, TypeName

ROWS_AT_ONCE = 1 << 22  # most rows of a batch
LEAST_BYTES, MOST_BYTES = 1 << 23, 1 << 27  # bounds for the bytes of a batch
SHARE = 16  # a batch takes at most 1/16 of the free memory
ROWS = "gdatalog.rows"  # the number of rows in a file without columns


def damaged(name: str, error: BaseException) -> DataError:
    reason = (str(error) or type(error).__name__).splitlines()[0][:200]
    return DataError(f"{name}: the file is damaged or of another format: {reason}")


def raws_of_parquet(
    name: str, opened: Callable[[], pa.NativeFile], wanted: Sequence[str] | None
) -> Iterator[Raw]:
    """The rows of a file in batches, at least one: only the `wanted` columns, if the file has them
    all. `opened`: opens the file's bytes."""
    with _reading(name):
        file = pq.ParquetFile(opened())
        schema = file.schema_arrow
        there = data_columns(schema.names)
    if not there:
        with _reading(name):
            said = (file.read().schema.metadata or {}).get(ROWS.encode(), b"0")
        yield Raw((), (), int(said == b"1"))
        return
    only = wanted if wanted and set(wanted) <= set(there) else there
    warnings = index_warnings(schema, name)
    again = partial(raws_of_parquet, name, opened, wanted)
    before = 0
    if not current_watch().innermost.several:
        current_watch().innermost.new_rows = file.metadata.num_rows
    for table, share in _batches(name, file, [there[column] for column in only]):
        place = partial(_place, name, before)
        with current_watch().innermost.within(*share):
            raw = raw_of_columns(table, there)
            yield replace(raw, warnings=warnings, place=place, whole=again)
        before, warnings = before + table.num_rows, []


def _place(name: str, before: int, _: int, column: str) -> DataPlace:
    """A column of the rows after the first ones; errors count rows from the start of the file."""
    return SomeRows(name, column, FilePlace(name, column), range(before, INT_MAX))


@contextmanager
def _reading(name: str, gone: str | None = None) -> Iterator[None]:
    """Turns errors of reading into errors that say that the file is damaged. `gone`: the message if
    there is no file."""
    try:
        yield
    except TimeLimitError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, KeyError) as error:
        if gone is not None and isinstance(error, FileNotFoundError):
            raise DataError(f"{name}: {gone}") from None
        raise damaged(name, error) from error


def _batches(
    name: str, file: pq.ParquetFile, columns: list[str]
) -> Iterator[tuple[pa.Table, tuple[float, float]]]:
    """The rows of a file in batches, which Arrow reads on all cores; and the share of all rows at
    which each batch starts and ends."""
    watch, size = current_watch(), file.metadata
    nbytes = sum(size.row_group(group).total_byte_size for group in range(size.num_row_groups))
    width = max(1, nbytes // max(1, size.num_rows))
    most = max(LEAST_BYTES, min(MOST_BYTES, watch.account.spare() // SHARE))
    rows = max(1, min(ROWS_AT_ONCE, most // width))
    batches = file.iter_batches(rows, columns=columns)
    done, total = 0, max(1, size.num_rows)
    while True:
        watch.poll()
        with _reading(name):
            batch = next(batches, None)
            if batch is None and done:
                return
            table = (
                file.schema_arrow.empty_table().select(columns)
                if batch is None
                else pa.Table.from_batches([batch])
            )
            table.validate(full=True)
        yield table, (done / total, min(1.0, (done + table.num_rows) / total))
        done += table.num_rows
        if batch is None:
            return


# ------------------------------------------------------------------------------ some groups


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
    with _reading(file.path, "there is no such file"):
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
    with _reading(path, "there is no such file any more"):
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
    return replace(raw, place=partial(_place, path, groups.first))


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


# Several files as one relation: a folder of Parquet files, or the files that match a pattern.


PARQUET = (".parquet", ".pq")
PACKED = (".gz", ".zst")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Folders with a log that says which files are valid, and the format that the log belongs to.
_LOGS = {"_delta_log": "Delta", "metadata/version-hint.text": "Iceberg"}

_NO_ROWS = np.empty(0, dtype=np.int64)

Key = tuple[str, int | str]


@dataclass(frozen=True, slots=True)
class File:
    """A file of the set; `keys` are the columns that its folders' names give."""

    path: str
    keys: tuple[Key, ...] = ()


def is_set(name: str) -> bool:
    """Whether a path stands for several files: it is a folder, or a pattern and no file."""
    return os.path.isdir(name) or (has_magic(name) and not os.path.exists(name))


def files_of(name: str) -> list[File]:
    """The files of a set, in order."""
    if os.path.isdir(name):
        found = list(_below(name))
        if not found:
            raise DataError(
                f"{name}: no Parquet file is in this folder",
                hint=f'a pattern names files of other formats: "{os.path.join(name, "*.csv")}"',
            )
    else:
        found = []
        hidden = os.path.basename(name).startswith("_")
        paths = glob(name, recursive=True)
        for path in sorted(paths, key=lambda path: (path.count(os.sep), path)):
            if os.path.isdir(path):
                found += _below(path)
            elif hidden or not os.path.basename(path).startswith("_"):
                found.append(path)
        if not found:
            raise DataError(f"{name}: no file has such a name")
    return _keyed(name, list(dict.fromkeys(found)))


def version_of(name: str) -> tuple[int, int]:
    """The version of what is at a path: for a file its modification time and size, for a pipe its
    identity."""
    if not is_set(name):
        return _version(os.stat(name))
    stats = [(file.path, os.stat(file.path)) for file in files_of(name)]
    whole = hash(tuple((path, *_version(stat)) for path, stat in stats))
    return whole, sum(stat.st_size for _, stat in stats)


def _version(stat: os.stat_result) -> tuple[int, int]:
    # Reading and writing a pipe changes its time, and its content is read only once.
    return (stat.st_ino, 0) if is_special(stat) else (stat.st_mtime_ns, stat.st_size)


def _below(folder: str) -> Iterator[str]:
    """The Parquet files in a folder and its subfolders, without the files that writers hide."""
    for log, whose in _LOGS.items():
        if os.path.exists(os.path.join(folder, log)):
            raise DataError(
                f"{folder}: this is a table of {whose}, whose log says which of its files count",
                hint=f"read it with a library for {whose}, and load the Arrow table",
            )
    shown = sorted(entry for entry in os.listdir(folder) if not entry.startswith(("_", ".")))
    paths = [os.path.join(folder, entry) for entry in shown]
    folders = [path for path in paths if os.path.isdir(path)]
    yield from (p for p in paths if p.lower().endswith(PARQUET) and not os.path.isdir(p))
    for path in folders:
        yield from _below(path)


# ----------------------------------------------------------------------------- folders' names


def _keyed(name: str, paths: Sequence[str]) -> list[File]:
    """Files with the columns that their folders' names give; if these differ between files, without
    any."""
    root = name if os.path.isdir(name) else _plain(name)
    pairs = [_keys(os.path.relpath(path, root)) for path in paths]
    names = [tuple(key for key, _ in each) for each in pairs]
    wrong = next((path for path, each in zip(paths, names, strict=True) if each != names[0]), None)
    if wrong is not None:
        raise DataError(
            f"{wrong}: the folders of this file name other columns than those of {paths[0]}",
            hint="column=value in a folder's name is a column: all files are to have the same",
        )
    ints = [all(_is_int(each[at][1]) for each in pairs) for at in range(len(names[0]))]
    found = []
    for path, each in zip(paths, pairs, strict=True):
        for key, text in each:
            if text == _NO_VALUE:
                raise DataError(
                    f"{path}: a value of the column {key!r} is missing",
                    hint="a relation has no missing values: leave that folder out by a pattern",
                )
        keys = tuple(
            (key, int(text) if whole else text)
            for (key, text), whole in zip(each, ints, strict=True)
        )
        found.append(File(path, keys))
    return found


def _plain(pattern: str) -> str:
    """The folder before the first part of a pattern that is not a plain name."""
    folder = os.path.dirname(pattern)
    while has_magic(folder):
        folder = os.path.dirname(folder)
    return folder or "."


def _keys(path: str) -> list[tuple[str, str]]:
    found = []
    for folder in os.path.dirname(path).split(os.sep):
        key, sign, value = folder.partition("=")
        if sign and key:
            found.append((unquote(key), unquote(value)))
    return found


def _is_int(text: str) -> bool:
    plain = text.removeprefix("-")
    return plain.isdecimal() and INT_MIN <= int(text) <= INT_MAX


# ------------------------------------------------------------------------------------- tables


def read_set(
    files: Sequence[File],
    options: LoadOptions,
    read: Callable[[File, LoadOptions], Iterable[Table]],
) -> Iterator[Table]:
    """The rows of all files, at least one table. The types are those of the first file with rows,
    unless they are given."""
    first: Table | None = None  # without its rows
    rows = False
    for number, file in enumerate(files):
        try:
            for table in read(file, options):
                if table.length:
                    yield table
                if first is None or (table.length and not rows):
                    first, rows = table.take(_NO_ROWS), table.length > 0
        except DataError as error:
            if number and first is not None and error.hint is None:
                pairs = zip(first.names, first.types, strict=True)
                told = ", ".join(f"{name}: {kind}" for name, kind in pairs)
                error.hint = f"the first file, {files[0].path}, has {told}"
            raise
        if rows and options.declared is None:
            assert first is not None
            declared = TypedColumns(first.names, first.types)
            options = replace(options, columns=first.names, declared=declared)
    assert first is not None
    if not rows:
        yield first
