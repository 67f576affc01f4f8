"""Writers: a table becomes a file, whole or not at all.

The format follows from the name, as for the readers. A file is written under another name in
the same folder and renamed when it is complete, so whatever stops the writing (a full disk, a
kill, Ctrl-C) leaves the former file, or none.

Texts: ints in decimal, floats as the shortest text that reads back, bools `true` and `false`,
timestamps ISO 8601 in UTC. A facts file has no header and no quoting; `()` says that a
relation without columns is true.

Above 300 lines, for all formats are written here, and safely.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

from gdatalog.errors import DataError, TimeLimitError, UsageError
from gdatalog.storage.export import to_arrow
from gdatalog.storage.parquet import ROWS
from gdatalog.storage.place import shown
from gdatalog.storage.readers import PACKED, TEXTS, format_of
from gdatalog.storage.table import Column, Table, Texts
from gdatalog.storage.temporaries import beside
from gdatalog.storage.text_files import check_delimiter
from gdatalog.values import TypeName, timestamp_to_text
from gdatalog.watching import Work, watching

_BATCH = 1 << 16  # rows that are turned into text at a time
_GROUP = 1 << 20  # rows of a group in a Parquet file
_UNQUOTABLE = ("\t", "\n", "\r")


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
            chunks = (_quoted(table, ",", at == 0) for at, table in enumerate(told()))
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
        chunks = _quoted(table, cut, header is not False)
        _write(name, lambda file: _write_texts(name, file, chunks))
    elif kind in ("json", "jsonl"):
        chunks = _json(table, kind == "jsonl")
        _write(name, lambda file: _write_texts(name, file, chunks))
    elif kind in ("parquet", "arrow"):
        _check_not_packed(name, kind)
        _write(name, lambda file: _write_arrow(table, kind, file))
    else:
        raise UsageError(f"there is no format {kind!r}")


def table_text(table: Table, format: str) -> Iterator[str]:
    """The text of a table as csv, tsv, json or jsonl, piece by piece."""
    if format in ("csv", "tsv"):
        return _quoted(table, "\t" if format == "tsv" else ",", True)
    if format in ("json", "jsonl"):
        return _json(table, format == "jsonl")
    raise UsageError(f"{format} is not a text format")


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
    chunks = facts_text(table, stem, delimiter=delimiter, header=header)
    with _writing(table, name):
        _write(name, lambda file: _write_texts(name, file, chunks))


def facts_text(
    table: Table, relation: str, *, delimiter: str = "\t", header: bool = False
) -> Iterator[str]:
    """The text of a facts file, piece by piece; an error before the first piece if it has none."""
    check_delimiter(delimiter)
    for name, column in zip(table.names, table.columns, strict=True):
        if isinstance(column, Texts):
            _check_verbatim(relation, name, column, delimiter)
    return _facts_text(table, delimiter, header)


def _facts_text(table: Table, delimiter: str, header: bool) -> Iterator[str]:
    if not table.columns:
        yield "()\n" * table.length
        return
    if header:
        yield delimiter.join(table.names) + "\n"
    first = not header
    for cells in _batches(table):
        text = "\n".join(map(delimiter.join, zip(*cells, strict=True))) + "\n"
        # Readers drop one byte order mark: a text that begins with one gets another.
        yield "\ufeff" + text if first and text.startswith("\ufeff") else text
        first = False


def _check_verbatim(relation: str, name: str, column: Texts, delimiter: str) -> None:
    bad = [
        index
        for index, text in enumerate(column.texts)
        if any(ch in text for ch in (*_UNQUOTABLE, delimiter))
    ]
    if not bad:
        return
    # A table may know texts that none of its rows holds.
    found = next((index for index in bad if (column.codes == index).any()), None)
    if found is not None:
        raise DataError(
            f"{relation}: column {name!r} holds {shown(column.texts[found])}; a facts file has "
            "no way to write a tab or a newline inside a value",
            hint=f'.output {relation}("{relation}.parquet") keeps every value',
        )


# ---------------------------------------------------------------- texts


def cell_texts(kind: TypeName, column: Column) -> list[str]:
    """Each value of a column as text."""
    if isinstance(column, Texts):
        texts: list[str] = column.decode().tolist()
        return texts
    if kind == "timestamp":
        return [timestamp_to_text(value) for value in column.tolist()]
    if kind == "bool":
        return ["true" if value else "false" for value in column.tolist()]
    return list(map(repr, column.tolist()))  # repr of a float is the shortest that reads back


def _batches(table: Table) -> Iterator[list[list[str]]]:
    """The columns' texts, some rows at a time."""
    for start in _starts(table):
        yield [
            cell_texts(kind, _slice(column, start))
            for kind, column in zip(table.types, table.columns, strict=True)
        ]


def _starts(table: Table, rows: int | None = None) -> Iterator[int]:
    """Where each batch of so many rows begins; those before it have been written."""
    watch = watching()
    for start in range(0, table.length, rows or _BATCH):
        if watch.innermost.stage == "writing":
            watch.innermost.done = start
        watch.poll()
        yield start


def _slice(column: Column, start: int) -> Column:
    if isinstance(column, Texts):
        return Texts(column.codes[start : start + _BATCH], column.texts)
    return column[start : start + _BATCH]


def _quoted(table: Table, delimiter: str, header: bool) -> Iterator[str]:
    if not table.columns:
        yield "()\n" * table.length
        return
    # Quoted: what would end the cell, what a reader may take for a quote or strip, and the
    # empty text, which alone on a line would be no row at all.
    special = (delimiter, '"', "\n", "\r")

    def quote(text: str) -> str:
        if text and text[0] != "\ufeff" and not any(ch in text for ch in special):
            return text
        return '"' + text.replace('"', '""') + '"'

    if header:
        yield delimiter.join(map(quote, table.names)) + "\n"
    for cells in _batches(table):
        safe = [
            list(map(quote, texts)) if kind == "symbol" else texts
            for kind, texts in zip(table.types, cells, strict=True)
        ]
        yield "\n".join(map(delimiter.join, zip(*safe, strict=True))) + "\n"


def _json(table: Table, lines: bool) -> Iterator[str]:
    """Records: one a line, or in a list. Floats are never NaN; infinity is Python's Infinity."""
    names = [json.dumps(name, ensure_ascii=False) for name in table.names]
    first = True
    if not lines:
        yield "["
    if not table.columns:
        yield "{}\n" if lines and table.length else "{}" if table.length else ""
    for start in _starts(table) if table.columns else ():
        cells = [
            _json_texts(kind, _slice(column, start))
            for kind, column in zip(table.types, table.columns, strict=True)
        ]
        rows = (
            "{" + ", ".join(map(": ".join, zip(names, row, strict=True))) + "}"
            for row in zip(*cells, strict=True)
        )
        if lines:
            yield "\n".join(rows) + "\n"
        else:
            yield ("\n" if first else ",\n") + ",\n".join(rows)
        first = False
    if not lines:
        yield "]\n" if first else "\n]\n"


def _json_texts(kind: TypeName, column: Column) -> list[str]:
    if kind in ("symbol", "timestamp"):
        return [json.dumps(text, ensure_ascii=False) for text in cell_texts(kind, column)]
    if kind == "float":
        return list(map(json.dumps, column.tolist() if not isinstance(column, Texts) else []))
    return cell_texts(kind, column)


# ---------------------------------------------------------------- files


def _write_texts(name: str, file: BinaryIO, chunks: Iterable[str]) -> None:
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
            packed.write(chunk.encode())


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
    for start in _starts(table, _GROUP):
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
