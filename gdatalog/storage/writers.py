"""Writers: a table becomes a file, whole or not at all.

The format follows from the name, as for the readers. A file is written under another name in
the same folder and renamed when it is complete, so whatever stops the writing (a full disk, a
kill, Ctrl-C) leaves the former file, or none.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.storage.as_text import facts_bytes, facts_text, quoted, records, starts
from gdatalog.storage.export import to_arrow
from gdatalog.storage.load_options import check_delimiter
from gdatalog.storage.parquet import ROWS
from gdatalog.storage.readers import PACKED, TEXTS, format_of
from gdatalog.storage.table import Table
from gdatalog.storage.temporaries import beside
from gdatalog.watching import Work, watching

_GROUP = 1 << 20  # rows of a group in a Parquet file


def write_table(
    table: Table,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> None:
    """Write a table; .csv and .tsv by RFC 4180, with a header unless `header=False`."""
    name = os.fspath(path)
    kind = format or format_of(name)
    if kind == "facts":
        write_facts(table, name, delimiter=delimiter or "\t", header=bool(header))
        return
    if kind not in TEXTS and (delimiter is not None or header is not None):
        raise UsageError(f"{name}: delimiter and header have no meaning for {kind}")
    with _writing(table, name):
        _write_as(kind, table, name, delimiter, header)


def write_stream(
    tables: Iterable[Table], length: int, path: str | os.PathLike[str], *, format: str
) -> None:
    """Write tables of the same columns, which have so many rows together, into one file: Parquet,
    or CSV with a header. No more than one of them is here at a time; there is at least one."""
    name = os.fspath(path)
    with watching().work("writing", name, length, "rows") as work:

        def told() -> Iterator[Table]:
            for table in tables:
                yield table
                work.at(work.done + table.length)

        if format == "parquet":
            _check_not_packed(name, format)
            _write(name, lambda file: _write_parquet(told(), file))
        else:
            chunks = (quoted(table, ",", at == 0) for at, table in enumerate(told()))
            _write(name, lambda file: _write_texts(name, file, chain.from_iterable(chunks)))


def _write_parquet(tables: Iterable[Table], file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with contextlib.ExitStack() as stack:
        writer: Any = None
        for table in tables:
            data = to_arrow(table)
            if writer is None:
                writer = pq.ParquetWriter(file, data.schema, compression="zstd")
                stack.enter_context(writer)
            writer.write_table(data, row_group_size=_GROUP)


def _check_not_packed(name: str, kind: str) -> None:
    if name.lower().endswith(PACKED):
        raise UsageError(
            f"{name}: {kind} files are not packed again",
            hint="they are compressed inside; leave out the .gz or .zst",
        )


def _writing(table: Table, name: str) -> Work:
    return watching().work("writing", name, table.length, "rows")


def _write_as(
    kind: str, table: Table, name: str, delimiter: str | None, header: bool | None
) -> None:
    if kind in ("csv", "tsv"):
        cut = check_delimiter(delimiter or ("\t" if kind == "tsv" else ","))
        chunks = quoted(table, cut, header is not False)
        _write(name, lambda file: _write_texts(name, file, chunks))
    elif kind in ("json", "jsonl"):
        chunks = records(table, kind == "jsonl")
        _write(name, lambda file: _write_texts(name, file, chunks))
    elif kind in ("parquet", "arrow"):
        _check_not_packed(name, kind)
        _write(name, lambda file: _write_arrow(table, kind, file))
    else:
        raise UsageError(f"there is no format {kind!r}")


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a text, whole or not at all."""
    name = os.fspath(path)
    _write(name, lambda file: _write_texts(name, file, [text]))


def write_facts(
    table: Table,
    path: str | os.PathLike[str],
    *,
    delimiter: str = "\t",
    header: bool = False,
) -> None:
    """Write as Soufflé does: one row a line, tabs between, values verbatim."""
    name = os.fspath(path)
    stem = os.path.basename(name).split(".")[0]
    chunks: Iterable[str | bytes | memoryview] | None = None
    if not header:
        chunks = facts_bytes(table, stem, delimiter)
    if chunks is None:
        chunks = facts_text(table, stem, delimiter=delimiter, header=header)
    with _writing(table, name):
        _write(name, lambda file: _write_texts(name, file, chunks))


# ---------------------------------------------------------------- files


def _write_texts(name: str, file: BinaryIO, chunks: Iterable[str | bytes | memoryview]) -> None:
    with contextlib.ExitStack() as stack:
        packed: Any = file
        if name.lower().endswith(".gz"):
            # No time and no name inside: equal tables give equal files.
            packed = gzip.GzipFile("", "wb", 6, file, mtime=0)
            stack.enter_context(packed)
        elif name.lower().endswith(".zst"):
            import pyarrow as pa

            sink = stack.enter_context(pa.PythonFile(file, "w"))
            packed = stack.enter_context(pa.CompressedOutputStream(sink, "zstd"))
        for chunk in chunks:
            packed.write(chunk.encode() if isinstance(chunk, str) else chunk)


def _write_arrow(table: Table, kind: str, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = to_arrow(table)
    if kind == "parquet":
        if not table.columns:
            # Parquet counts no rows where there is no column.
            data = data.replace_schema_metadata({ROWS: str(table.length)})
        with pq.ParquetWriter(file, data.schema, compression="zstd") as writer:
            for part in _groups(table, data):
                writer.write_table(part, row_group_size=_GROUP)
        return
    with pa.ipc.new_file(file, data.schema) as writer:
        for part in _groups(table, data):
            writer.write_table(part)


def _groups(table: Table, data: Any) -> Iterator[Any]:
    if not table.columns or not table.length:
        yield data
        return
    for start in starts(table, _GROUP):
        yield data.slice(start, _GROUP)


def _write(name: str, fill: Callable[[BinaryIO], None]) -> None:
    """Fill a new file beside `name`, then let it take that name."""
    try:
        # A link is followed: the file that it names is replaced, not the link.
        target = os.path.realpath(name)
        folder = os.path.dirname(target)
        if os.path.isdir(target):
            raise DataError(f"{name}: this is a folder, not a file", hint="name a file in it")
        if os.path.exists(target) and not os.path.isfile(target):
            # A pipe or a device, /dev/stdout for instance, has nothing to rename.
            _fill_special(target, fill)
            return
        os.makedirs(folder, exist_ok=True)
        with beside(folder, _new_file) as temporary:
            with open(temporary, "r+b") as file:
                fill(file)
            if os.path.exists(target):
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
    except TimeLimitError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name}: cannot be written: {reason}") from error


def _new_file(path: str) -> None:
    with open(path, "xb"):
        pass


def _fill_special(target: str, fill: Callable[[BinaryIO], None]) -> None:
    whole = io.BytesIO()
    fill(whole)
    with open(target, "wb", buffering=0) as file:
        view = whole.getbuffer()
        while view:
            view = view[file.write(view) or 0 :]
