"""Writers: tables become a file or a folder, whole or not at all.

The tables are blocks of one relation's rows, decoded when they are asked for: an answer that is
larger than memory is never decoded as a whole.

The format follows from the name, as for the readers. A file is written under another name in
the same folder and renamed when it is complete, so whatever stops the writing (a full disk, a
kill, Ctrl-C) leaves the former file, or none.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.storage.as_text import Piece, begun, facts_file, quoted, records, starts
from gdatalog.storage.data_files import ROWS
from gdatalog.storage.export import to_arrow
from gdatalog.storage.file_bytes import format_of
from gdatalog.storage.file_sets import PACKED
from gdatalog.storage.imported_later import pa, pq
from gdatalog.storage.load_options import FilePath, check_delimiter
from gdatalog.storage.readers import TEXTS
from gdatalog.storage.row_groups import rows_at_once
from gdatalog.storage.table import Table
from gdatalog.storage.temporary_files import beside

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MORE_SPACE = "free some space, or write to another disk"
_KEPT = 1 << 24  # bytes: output to a pipe is first kept in memory up to this, then in a file
_PIECE = 1 << 20  # bytes of one write to a pipe


def write_table(table: Table, path: FilePath, **how: Any) -> None:
    """Writes a table, as `write_tables` does."""
    write_tables([table], table.length, path, **how)


def write_tables(
    tables: Iterable[Table],
    length: int,
    path: FilePath,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    null: str | None = None,
) -> None:
    """Writes tables with the same columns, at least one, and `length` rows together; .csv and .tsv
    by RFC 4180, with a header unless `header=False`. `null`: the word for nulls in a text file."""
    name = os.fspath(path)
    kind = format or format_of(name)
    if kind not in TEXTS and (delimiter, header, null) != (None, None, None):
        raise UsageError(f"{name}: delimiter, header and null have no meaning for {kind}")
    with current_watch().work("writing", name, length, "rows"), naming(name):
        if kind in ("parquet", "arrow"):
            if name.lower().endswith(PACKED):
                raise UsageError(
                    f"{name}: {kind} files are not packed again",
                    hint="they are compressed inside; leave out the .gz or .zst",
                )
            _write(name, lambda file: _write_arrow(tables, kind, file))
            return
        pieces: Iterable[Piece]
        if kind == "facts":
            stem = os.path.basename(name).split(".")[0]
            cut, named = delimiter or "\t", bool(header)
            pieces = facts_file(tables, stem, delimiter=cut, header=named, null=null)
        elif kind in ("csv", "tsv"):
            cut = check_delimiter(delimiter or ("\t" if kind == "tsv" else ","))
            pieces = quoted(tables, cut, header is not False, null or "")
        elif kind in ("json", "jsonl"):
            pieces = records(tables, kind == "jsonl")
        else:
            raise UsageError(f"there is no format {kind!r}")
        pieces = begun(pieces)  # errors come before a folder or file is made
        _write(name, lambda file: _write_texts(name, file, pieces))


def write_text(text: str, path: FilePath) -> None:
    """Write a text, completely or not at all."""
    name = os.fspath(path)
    with naming(name):
        _write(name, lambda file: _write_texts(name, file, [text]))


def _write_texts(name: str, file: BinaryIO, chunks: Iterable[Piece]) -> None:
    with contextlib.ExitStack() as stack:
        packed: Any = file
        if name.lower().endswith(".gz"):
            # No time and no name inside: equal tables give equal files.
            packed = gzip.GzipFile("", "wb", 6, file, mtime=0)
            stack.enter_context(packed)
        elif name.lower().endswith(".zst"):
            sink = stack.enter_context(pa.PythonFile(file, "w"))
            packed = stack.enter_context(pa.CompressedOutputStream(sink, "zstd"))
        for chunk in chunks:
            packed.write(chunk.encode() if isinstance(chunk, str) else chunk)


def _write_arrow(tables: Iterable[Table], kind: str, file: BinaryIO) -> None:
    with contextlib.ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for table in tables:
            data = to_arrow(table)
            rows = rows_at_once(table.types)
            if kind == "parquet" and not table.columns:
                # Parquet counts no rows where there is no column.
                data = data.replace_schema_metadata({ROWS: str(table.length)})
            if writer is None:
                writer = stack.enter_context(_arrow_writer(kind, file, data.schema))
            if not table.columns or not table.length:
                writer.write_table(data)
                continue
            for start in starts(table, rows):
                writer.write_table(data.slice(start, rows), rows)


def _arrow_writer(kind: str, file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    if kind == "parquet":
        return pq.ParquetWriter(file, schema, compression="zstd")
    return pa.ipc.new_file(file, schema)


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Within, errors of the operating system become errors that name the file."""
    try:
        yield
    except TimeLimitError:
        raise
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno in _FULL
        raise DataError(
            f"{name}: cannot be written: {getattr(error, 'strerror', None) or error}",
            hint=_MORE_SPACE if full else None,
        ) from error


def _write(name: str, fill: Callable[[BinaryIO], None]) -> None:
    """Fills a new file in the same folder, then renames it to `name`."""
    # Follows links: the file that a link names is replaced, not the link.
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise DataError(f"{name}: this is a folder, not a file", hint="name a file in it")
    if os.path.exists(name) and not os.path.isfile(name):
        # A pipe or a device such as /dev/stdout cannot be replaced by renaming. A pipe that /dev/fd
        # names has no other name.
        _fill_special(name, fill)
        return
    os.makedirs(folder, exist_ok=True)
    with beside(folder, _new_file) as temporary:
        with open(temporary, "r+b") as file:
            fill(file)
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)


def _new_file(path: str) -> None:
    with open(path, "xb"):
        pass


def _fill_special(target: str, fill: Callable[[BinaryIO], None]) -> None:
    with SpooledTemporaryFile(_KEPT) as whole:
        fill(cast(BinaryIO, whole))
        whole.seek(0)
        with open(target, "wb", buffering=0) as file:
            while piece := whole.read(_PIECE):
                view = memoryview(piece)
                while view:
                    view = view[file.write(view) or 0 :]
