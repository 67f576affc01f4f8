"""Readers: the rows of a file as tables."""

from __future__ import annotations

import difflib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.records import replace
from gdatalog.storage.delimited import MARK, READING
from gdatalog.storage.file_sets import PACKED, File, files_of, is_set, read_set
from gdatalog.storage.frames import table_of_file, with_row_ids
from gdatalog.storage.load_options import (
    PLAIN,
    Declared,
    LoadOptions,
)
from gdatalog.storage.parquet import damaged, raws_of_parquet, with_keys
from gdatalog.storage.raw import raw_of_arrow
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import (
    PIECE,
    raw_of_json,
    raw_of_json_lines,
    raw_of_text,
    report_size,
)

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "csv",
    ".facts": "facts",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
TEXTS = ("csv", "tsv", "facts")


def read_tables(
    path: str | os.PathLike[str],
    options: LoadOptions = PLAIN,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    declared: Declared | None = None,
) -> Iterator[Table]:
    """The tables of a file, or of several files that are one relation: all Parquet files of a
    folder, or the files that match a pattern. There is at least one table, and all have the same
    columns. Options that are not given follow from the name and the content."""
    name = os.fspath(path)
    said = partial(_read_file, format=format, delimiter=delimiter, quoting=quoting)

    def loaded(declared: Declared | None) -> Iterator[Table]:
        if not is_set(name):
            return said(File(name), options, declared)
        files = files_of(name)
        work, ends = current_watch().innermost, [0, *accumulate(map(_size_of, files))]
        if work.stage == "loading" and ends[-1]:
            work.total, work.unit = ends[-1], "bytes"
        stretches = iter(pairwise(ends))

        def read(file: File, options: LoadOptions, declared: Declared | None) -> Iterator[Table]:
            start, end = next(stretches)
            if ends[-1] and len(files) > 1:
                work.stretch(start / ends[-1], end / ends[-1])
            return said(file, options, declared)

        return read_set(files, options, declared, read)

    return with_row_ids(loaded, options, declared, name)


def _size_of(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:  # reading it raises the error
        return 0


def _read_file(
    file: File,
    options: LoadOptions,
    declared: Declared | None,
    *,
    format: str | None,
    delimiter: str | None,
    quoting: bool | None,
) -> Iterator[Table]:
    name, columns = file.path, options.columns
    if format is None:
        if not os.path.exists(name) and not os.path.splitext(name)[1]:
            raise _missing(name)  # a file or a folder
        format = format_of(name)
    elif format not in FORMATS.values():
        known = ", ".join(sorted(set(FORMATS.values())))
        raise UsageError(f"there is no format {format!r}", hint=f"formats are {known}")
    if format not in TEXTS and (delimiter, options.header, quoting) != (None, None, None):
        raise UsageError(f"{name}: delimiter, header and quoting have no meaning for {format}")
    if format == "parquet":
        wanted = columns if columns is not None else declared.columns if declared else None
        for raw in raws_of_parquet(name, _source_of(name), wanted):
            yield table_of_file(with_keys(raw, file), options, declared, name)
        return
    facts = format == "facts"
    if format in TEXTS:
        from gdatalog.storage.large_texts import tables_of_large

        delimiter = delimiter or (None if format == "csv" else "\t")
        quoting = not facts if quoting is None else quoting
        if facts and options.header is None:
            options = replace(options, header=False)
        tables = tables_of_large(file, delimiter, quoting, declared, options)
        if tables is not None:
            yield from tables
            return
    data = read_bytes(name)
    if format == "arrow":
        raw = raw_of_arrow(_arrow(name, data), name)
    elif format == "json":
        raw = raw_of_json(name, data)
    elif format == "jsonl":
        raw = raw_of_json_lines(name, data)
    else:
        assert quoting is not None
        raw = raw_of_text(
            name,
            data.removeprefix(MARK),
            delimiter=delimiter,
            quoted=quoting,
            declared=declared if columns is None else None,
            options=options,
        )
    yield table_of_file(with_keys(raw, file), options, declared, name)


def _source_of(name: str) -> Callable[[], Any]:
    """What Arrow opens: the path, or the content of a compressed file or a pipe."""
    import pyarrow as pa

    if name.lower().endswith(PACKED) or not os.path.isfile(name):
        return partial(pa.BufferReader, read_bytes(name))
    with _reading(name), open(name, "rb") as file:  # raises if it cannot be read
        size = os.fstat(file.fileno()).st_size
        report_size(size)
    # Arrow keeps what it reads of a file until it closes it; mapped pages take no memory.
    return partial(pa.memory_map if size else pa.OSFile, name)


# ---------------------------------------------------------------- bytes


def format_of(name: str, default: str | None = None) -> str:
    """The format of a file, by its name."""
    plain = name
    for ending in PACKED:
        if plain.lower().endswith(ending):
            plain = plain[: -len(ending)]
    found = FORMATS.get(os.path.splitext(plain)[1].lower(), default)
    if found is None:
        known = " ".join(FORMATS)
        raise UsageError(
            f"{name}: the name does not tell the format",
            hint=f"known are {known}, each also as .gz or .zst; or say format=...",
        )
    return found


def read_bytes(name: str) -> bytes:
    """The whole content of a file, decompressed."""
    with _reading(name):
        report_size(os.stat(name).st_size)  # 0 for a pipe, whose size is unknown
        with current_watch().innermost.within(*READING):
            data = _read(name)
    try:
        if name.lower().endswith(".gz"):
            return gzip.decompress(data)
        if name.lower().endswith(".zst"):
            return _unpacked_zst(data)
    except (OSError, EOFError, zlib.error, MemoryError, ValueError) as error:
        raise damaged(name, error) from error
    return data


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Within, errors of the operating system become errors that name the file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(name) from None
    except IsADirectoryError:
        raise DataError(
            f"{name}: this is a folder, not a file",
            hint=f'name a file in it, or several: "{os.path.join(name, "*.csv")}"',
        ) from None
    except TimeLimitError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name}: cannot be read: {reason}") from error


def _read(name: str) -> bytes:
    """The content of a file, which may be longer than its reported size, or a pipe."""
    work = current_watch().innermost
    with open(name, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= PIECE:
            return file.readall()
        parts = []
        while part := file.read(PIECE):
            parts.append(part)
            work.share(len(parts) * PIECE / size)
            current_watch().poll()
    return b"".join(parts)


def _unpacked_zst(data: bytes) -> bytes:
    import pyarrow as pa

    if not data:
        raise EOFError("the file is empty")
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read()
    return found


def _missing(name: str) -> DataError:
    what = "file" if os.path.splitext(name)[1] else "file or folder"
    return DataError(f"{name}: there is no such {what}", hint=similar(name.rstrip("/")))


def similar(name: str) -> str | None:
    """A hint: files with a similar name in the same folder, or that the folder does not exist."""
    folder, base = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f"there is no folder {folder!r} either"
    # Compares the parts before the dot, because all facts files have the same ending.
    stems = {file.split(".")[0]: file for file in sorted(there, reverse=True)}
    close = difflib.get_close_matches(base.split(".")[0], stems, n=1, cutoff=0.6)
    return f"did you mean {os.path.join(folder, stems[close[0]])!r}?" if close else None


# ---------------------------------------------------------------- Arrow


def _arrow(name: str, data: bytes) -> Any:
    import pyarrow as pa

    try:
        is_file = data.startswith(b"ARROW1")
        open_it = pa.ipc.open_file if is_file else pa.ipc.open_stream
        table = open_it(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise damaged(name, error) from error
    return table
