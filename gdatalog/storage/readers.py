"""Readers: the rows of a file as tables.

A JSON file is a list of records, rows or values, or has one of these on each line. JSON has one
kind of number and no times, so an int may be a declared float, and an ISO 8601 text a declared
timestamp.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, SourceText, Span, UsageError
from gdatalog.records import dataclass, replace
from gdatalog.storage.data_files import damaged, raws_of_parquet
from gdatalog.storage.delimited import MARK, bad_utf8
from gdatalog.storage.file_bytes import file_errors, format_of, missing_file, read_bytes
from gdatalog.storage.file_sets import PACKED, File, files_of, is_set, read_set
from gdatalog.storage.frames import table_of_file
from gdatalog.storage.imported_later import pa
from gdatalog.storage.large_files import by_position, tables_of_large
from gdatalog.storage.line_blocks import report_size
from gdatalog.storage.load_options import PLAIN, FilePath, KeptPipes, LoadOptions
from gdatalog.storage.parquet_groups import with_keys
from gdatalog.storage.places import DataPlace, FilePlace, shown
from gdatalog.storage.raw import Raw, raw_of_arrow, raw_of_rows
from gdatalog.storage.row_ids import with_row_ids
from gdatalog.storage.table import Table
from gdatalog.storage.text_files import raw_of_text


def _text(name: str, data: bytes) -> str:
    wrong = bad_utf8(name, data)
    if wrong is not None:
        raise wrong
    return data.decode("utf-8-sig")


def raw_of_json(name: str, data: bytes) -> Raw:
    found = _parsed(name, _text(name, data), 1)
    if isinstance(found, dict) and all(isinstance(column, list) for column in found.values()):
        lengths = {len(column) for column in found.values()}
        if len(lengths) == 1:
            return Raw(tuple(found), tuple(found.values()), lengths.pop(), "json")
    if not isinstance(found, list):
        raise DataError(
            f"{name}: expected a list of records or rows, found {shown(found)}",
            hint='such as [{"src": 1, "dst": 2}] or [[1, 2]]',
        )
    return replace(raw_of_rows(found, name), source="json")


def raw_of_json_lines(name: str, data: bytes) -> Raw:
    rows = []
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(_text(name, data).split("\n"), 1):
        if line.strip():
            rows.append(_parsed(name, line, number))
            lines.append((number, line))

    def place(position: int, column: str) -> DataPlace:
        return _LinePlace(name, column, lines)

    return replace(raw_of_rows(rows, name), source="json", place=place)


@dataclass(frozen=True, slots=True)
class _LinePlace(FilePlace):
    """A column of a file with one line for each row."""

    lines: list[tuple[int, str]]

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        number, text = self.lines[row]
        span = Span(SourceText(self.what, text, number), 0, len(text))
        return DataError(f"column {self.column!r}: {message}", span, hint=hint)


def _parsed(name: str, text: str, first_line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        span = Span(SourceText(name, text, first_line), error.pos, error.pos + 1)
        raise DataError(f"not JSON: {error.msg}", span) from None
    except (ValueError, RecursionError) as error:  # very long numbers, very deep nesting
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        span = Span(SourceText(name, text, first_line), 0, 1)
        raise DataError(f"cannot be read: {reason}", span) from None


TEXTS = ("csv", "tsv", "facts")


def read_tables(
    path: FilePath, options: LoadOptions = PLAIN, delimiter: str | None = None
) -> Iterator[Table]:
    """The tables of a file, or of several files that are one relation: all Parquet files of a
    folder, or the files that match a pattern. There is at least one table, and all have the same
    columns. Options that are not given follow from the name and the content."""
    name = os.fspath(path)
    options = replace(options, what=name)
    if not is_set(name):
        return with_row_ids(partial(_read_file, File(name), delimiter=delimiter), options)
    return with_row_ids(partial(_read_files, name, delimiter=delimiter), options)


def _read_files(name: str, options: LoadOptions, delimiter: str | None) -> Iterator[Table]:
    files = files_of(name)
    work, ends = current_watch().innermost, [0, *accumulate(map(_size_of, files))]
    if work.stage == "loading" and ends[-1]:
        work.total, work.unit = ends[-1], "bytes"
    stretches = iter(pairwise(ends))

    def read(file: File, options: LoadOptions) -> Iterator[Table]:
        start, end = next(stretches)
        if ends[-1] and len(files) > 1:
            work.stretch(start / ends[-1], end / ends[-1])
        return _read_file(file, replace(options, what=file.path), delimiter)

    return read_set(files, options, read)


def _size_of(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:  # reading it raises the error
        return 0


def _read_file(file: File, options: LoadOptions, delimiter: str | None) -> Iterator[Table]:
    name, columns, declared = file.path, options.columns, options.declared
    if not os.path.exists(name) and not os.path.splitext(name)[1]:
        raise missing_file(name)  # a file or a folder
    format = format_of(name)
    if format not in TEXTS and (delimiter, options.header) != (None, None):
        raise UsageError(f"{name}: delimiter and header have no meaning for {format}")
    if format == "parquet":
        wanted = columns if columns is not None else declared.columns if declared else None
        for raw in raws_of_parquet(name, _source_of(name, options.pipes), wanted):
            yield table_of_file(with_keys(raw, file), options)
        return
    quoted = format != "facts"
    if format in TEXTS:
        if columns is not None:  # names are trimmed
            options = replace(options, columns=[column.strip() for column in columns])
        delimiter = delimiter or (None if format == "csv" else "\t")
        if not quoted and options.header is None:
            options = replace(options, header=False)
        tables = tables_of_large(file, delimiter, quoted, options)
        if tables is not None:
            yield from tables
            return
    data = read_bytes(name, options.pipes)
    if format == "arrow":
        raw = raw_of_arrow(_arrow(name, data), name)
    elif format == "json":
        raw = raw_of_json(name, data)
    elif format == "jsonl":
        raw = raw_of_json_lines(name, data)
    else:
        raw = raw_of_text(data.removeprefix(MARK), by_position(options), delimiter, quoted)
    yield table_of_file(with_keys(raw, file), options)


def _source_of(name: str, pipes: KeptPipes | None) -> Callable[[], pa.NativeFile]:
    """What Arrow opens: the path, or the content of a compressed file or a pipe."""
    if name.lower().endswith(PACKED) or not os.path.isfile(name):
        return partial(pa.BufferReader, read_bytes(name, pipes))
    with file_errors(name), open(name, "rb") as file:  # raises if it cannot be read
        size = os.fstat(file.fileno()).st_size
        report_size(size)
    # Arrow keeps what it reads of a file until it closes it; mapped pages take no memory.
    return partial(pa.memory_map if size else pa.OSFile, name)


def _arrow(name: str, data: bytes) -> pa.Table:
    try:
        is_file = data.startswith(b"ARROW1")
        open_it = pa.ipc.open_file if is_file else pa.ipc.open_stream
        table = open_it(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise damaged(name, error) from error
    return table
