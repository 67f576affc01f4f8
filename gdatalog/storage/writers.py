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
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.storage.as_text import Piece, begun, facts_file, quoted, records, starts
from gdatalog.storage.data_files import PACKED, ROWS
from gdatalog.storage.export import to_arrow
from gdatalog.storage.imported_later import pa, pq
from gdatalog.storage.load_options import FilePath, check_delimiter
from gdatalog.storage.readers import TEXTS, format_of
from gdatalog.storage.row_groups import rows_at_once
from gdatalog.storage.table import Table

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
) -> None:
    """Writes tables with the same columns, at least one, and `length` rows together; .csv and .tsv
    by RFC 4180, with a header unless `header=False`."""
    name = os.fspath(path)
    kind = format or format_of(name)
    if kind not in TEXTS and (delimiter is not None or header is not None):
        raise UsageError(f"{name}: delimiter and header have no meaning for {kind}")
    with current_watch().work("writing", name, length, "rows"), _naming(name):
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
            pieces = facts_file(tables, stem, delimiter=cut, header=named)
        elif kind in ("csv", "tsv"):
            cut = check_delimiter(delimiter or ("\t" if kind == "tsv" else ","))
            pieces = quoted(tables, cut, header is not False)
        elif kind in ("json", "jsonl"):
            pieces = records(tables, kind == "jsonl")
        else:
            raise UsageError(f"there is no format {kind!r}")
        pieces = begun(pieces)  # errors come before a folder or file is made
        _write(name, lambda file: _write_texts(name, file, pieces))


def write_text(text: str, path: FilePath) -> None:
    """Write a text, completely or not at all."""
    name = os.fspath(path)
    with _naming(name):
        _write(name, lambda file: _write_texts(name, file, [text]))


# ---------------------------------------------------------------- files


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
def _naming(name: str) -> Iterator[None]:
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


# Files and folders that are filled under a temporary name in the same folder.
#
# Their process holds a lock on each. A process that was killed leaves them behind; the next one
# that writes to that folder removes those without a lock.

_NAME = re.compile(r"\.gdatalog-[0-9a-f]{16}\.tmp")
_swept: set[str] = set()  # folders that this process has cleaned


@contextmanager
def beside(folder: str, make: Callable[[str], None]) -> Iterator[str]:
    """A new file or folder in `folder`, which `make` makes at a path. Removed at the end if it
    still exists."""
    _sweep(folder)
    while True:
        path = os.path.join(folder, f".gdatalog-{secrets.token_hex(8)}.tmp")
        make(path)
        held, taken = _lock(path)
        if not taken and os.path.exists(path):
            break
        if held is not None:  # another process has removed it as left behind
            os.close(held)
    try:
        yield path
    finally:
        _remove(path)
        if held is not None:
            os.close(held)


def _lock(path: str) -> tuple[int | None, bool]:
    """Locks a file or folder until the returned descriptor is closed; None if that is not possible.
    Also returns whether another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # on Windows nothing is removed
        return None, False
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
    except OSError:
        return None, False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        return None, isinstance(error, BlockingIOError)
    return opened, False


def _sweep(folder: str) -> None:
    """Removes the temporary files of processes that no longer exist."""
    if folder in _swept:
        return
    _swept.add(folder)
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        held, _ = _lock(path)
        if held is not None:
            _remove(path)
            os.close(held)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


# A folder of Parquet files instead of one file: written completely or not at all, too.
#
# It is filled under a temporary name in the same folder, and renamed when it is complete.

PART = re.compile(r"part-\d+\.parquet")


def names_a_folder(path: FilePath) -> bool:
    """Whether a path ends with a slash, and so names a folder."""
    name = os.fspath(path)
    return name.endswith("/") or name.endswith(os.sep)


def file_name(number: int) -> str:
    """The file name of a part."""
    return f"part-{number:05}.parquet"


def write_folder(path: FilePath, parts: Iterable[tuple[Iterable[Table], int]]) -> None:
    """Writes each part to a file of its own. A part is some tables and their number of rows; there
    is at least one."""
    with filled(path) as folder:
        for number, (tables, length) in enumerate(parts):
            write_tables(tables, length, os.path.join(folder, file_name(number)), format="parquet")


@contextmanager
def filled(path: FilePath) -> Iterator[str]:
    """A new folder, which is renamed to `path` once it is filled. An existing folder of parts is
    replaced; a folder with other files stays, and is an error."""
    name = os.fspath(path)
    target = os.path.realpath(name)
    _check(name, target)
    with _naming(name):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with beside(os.path.dirname(target), os.mkdir) as temporary:
            yield temporary
            _check(name, target)
            before = None
            if os.path.isdir(target):
                before = f"{target}-{secrets.token_hex(8)}.before"
                os.rename(target, before)
            os.rename(temporary, target)
            if before is not None:
                shutil.rmtree(before, ignore_errors=True)


def _check(name: str, target: str) -> None:
    if not os.path.exists(target):
        return
    if not os.path.isdir(target):
        raise DataError(f"{name}: this is a file, not a folder", hint="leave out the slash")
    other = next((entry for entry in os.listdir(target) if not PART.fullmatch(entry)), None)
    if other is not None:
        raise DataError(
            f"{name}: this folder has other files than parts that were written, {other!r}",
            hint="name a folder that is new, or that holds such parts only: it is replaced",
        )
