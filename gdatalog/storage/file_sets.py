"""Several files as one relation: a folder of Parquet files, or the files that match a pattern.

Subfolders may be named `column=value`, as Hive names them: the files do not contain that column.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import glob, has_magic
from urllib.parse import unquote

import numpy as np

from gdatalog.errors import DataError
from gdatalog.records import dataclass, replace
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.pipes import is_special
from gdatalog.storage.table import Table
from gdatalog.values import INT_MAX, INT_MIN

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
