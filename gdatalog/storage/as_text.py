"""Writes tables as the text of a file, piece by piece.

The tables are blocks of one relation's rows, at least one, with the same columns. Each is decoded
when the text before it was taken.

Ints are decimal, floats the shortest text that reads back, bools `true` and `false`, timestamps ISO
8601 in UTC. A null is an empty cell, which a text never is: an empty text has quotes. A facts file
has no header and no quoting, and nulls only if a word stands for them; `()` means that a relation
without columns is true.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeVar

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, UsageError
from gdatalog.storage.load_options import check_delimiter
from gdatalog.storage.places import shown
from gdatalog.storage.table import Array, Column, NullableColumn, Table, TextColumn, TextSet
from gdatalog.storage.threads import ahead
from gdatalog.values import TypeName, text_of_key

_BATCH = 1 << 16  # rows in one batch of text
_LINES = 1 << 14  # rows in one batch of compiled code
_MARK = b"\xef\xbb\xbf"
_INFINITE = {"Infinity": '"inf"', "-Infinity": '"-inf"'}
_UNQUOTABLE = ("\t", "\n", "\r")


Piece = str | bytes | memoryview
Made = TypeVar("Made")


def begun(pieces: Iterable[Made]) -> Iterator[Made]:
    """The same pieces; makes the first one now, so that its errors come before any output."""
    rest = iter(pieces)
    return chain(list(islice(rest, 1)), rest)


def table_text(tables: Iterable[Table], format: str) -> Iterator[str]:
    """The text of tables as csv, tsv, json or jsonl, piece by piece."""
    if format in ("csv", "tsv"):
        return quoted(tables, "\t" if format == "tsv" else ",", True)
    if format in ("json", "jsonl"):
        return records(tables, format == "jsonl")
    raise UsageError(f"{format} is not a text format")


def facts_text(
    tables: Iterable[Table],
    relation: str,
    *,
    delimiter: str = "\t",
    header: bool = False,
    null: str | None = None,
) -> Iterator[str]:
    """The text of a facts file, piece by piece. A table that has no such text raises before its
    pieces. `null`: what stands for a null."""
    check_delimiter(delimiter)

    def checked() -> Iterator[Table]:
        for table in tables:
            for name, column in zip(table.names, table.columns, strict=True):
                values, missing = parted(column)
                if missing is not None and null is None:
                    raise _null(relation, name)
                if isinstance(values, TextColumn):
                    _check_verbatim(relation, name, values, delimiter)
                    if missing is not None:
                        _check_other(relation, name, values, missing, null)
            yield table

    return _delimited(checked(), delimiter, header, null=null or "")


def _delimited(
    tables: Iterable[Table],
    delimiter: str,
    header: bool,
    quote: Callable[[str], str] | None = None,
    null: str = "",
) -> Iterator[str]:
    for at, table in enumerate(tables):
        if not table.columns:
            yield "()\n" * table.length
            continue
        if header and at == 0:
            yield delimiter.join(map(quote, table.names) if quote else table.names) + "\n"
        for cells in _batches(table):
            written = []
            for kind, texts in zip(table.types, cells, strict=True):
                quotes = quote if kind == "symbol" else None
                written.append(
                    texts
                    if quotes is None and None not in texts
                    else [
                        null if text is None else text if quotes is None else quotes(text)
                        for text in texts
                    ]
                )
            yield "\n".join(map(delimiter.join, zip(*written, strict=True))) + "\n"


def facts_file(
    tables: Iterable[Table], relation: str, *, delimiter: str, header: bool, null: str | None = None
) -> Iterator[Piece]:
    """The content of a facts file, piece by piece; by compiled code if it is loaded."""
    check_delimiter(delimiter)
    first = not header
    for at, table in enumerate(tables):
        headed = header and at == 0
        pieces: Iterable[Piece] | None = None if headed else _compiled(table, relation, delimiter)
        if pieces is None:
            pieces = facts_text([table], relation, delimiter=delimiter, header=headed, null=null)
        for piece in pieces:
            # Readers drop one byte order mark, so a text that begins with one gets another.
            head = piece[:3] if first else ""
            if (head.encode() if isinstance(head, str) else bytes(head)).startswith(_MARK):
                yield _MARK
            first = False
            yield piece


def _compiled(table: Table, relation: str, delimiter: str) -> Iterator[memoryview] | None:
    """The lines of a table by compiled code; None if that is not loaded. Raises before the last
    piece if the format cannot represent a text."""
    spelled = {column.spelled for column in table.columns if isinstance(column, TextColumn)}
    if set(table.types) - {"symbol", "int"} or len(spelled) != 1 or any(table.nullable):
        return None
    texts = spelled.pop()
    return None if texts is None else _lines(table, relation, texts, delimiter)


def parted(column: Column) -> tuple[Array | TextColumn, Array | None]:
    """The values of a column, and a mask of its nulls if there are any."""
    if not isinstance(column, NullableColumn):
        return column, None
    return column.values, column.missing if column.missing.any() else None


def _lines(table: Table, relation: str, texts: TextSet, delimiter: str) -> Iterator[memoryview]:
    columns = [c.numbers if isinstance(c, TextColumn) else c for c, _ in map(parted, table.columns)]
    are_texts = [isinstance(column, TextColumn) for column in table.columns]

    def lines(start: int) -> memoryview | None:
        rows = [column[start : start + _LINES] for column in columns]
        return texts.lines(rows, are_texts, delimiter)

    found = ahead(lines, range(0, table.length, _LINES), table.length > _BATCH)
    for _, piece in zip(starts(table, _LINES), found, strict=True):
        if piece is None:
            # The slow path, which reads the texts one by one, raises the error.
            for text in facts_text([table], relation, delimiter=delimiter):
                text.encode()
            return
        yield piece


def _null(relation: str, name: str) -> DataError:
    message = f"{relation}: column {name!r} holds a null, which a facts file has no way to write"
    hint = f'.output {relation}(IO=file, null="NULL") writes this word, '
    return DataError(message, hint=hint + f'.output {relation}("{relation}.csv") an empty cell')


def _check_other(
    relation: str, name: str, column: TextColumn, missing: Array, null: str | None
) -> None:
    if null in column.texts and (column.decode()[~missing] == null).any():
        message = f"{relation}: column {name!r} holds the text {null!r}, which stands for a null"
        raise DataError(message, hint="give another null=")


def _check_verbatim(relation: str, name: str, column: TextColumn, delimiter: str) -> None:
    bad = [
        index
        for index, text in enumerate(column.texts)
        if any(ch in text for ch in (*_UNQUOTABLE, delimiter))
    ]
    if not bad:
        return
    # A table may have texts that occur in no row.
    found = next((index for index in bad if (column.codes == index).any()), None)
    if found is not None:
        raise DataError(
            f"{relation}: column {name!r} holds {shown(column.texts[found])}; a facts file has "
            "no way to write a tab or a newline inside a value",
            hint=f'.output {relation}("{relation}.parquet") keeps every value',
        )


def cell_texts(kind: TypeName, column: Column) -> list[Any]:
    """Each value of a column as text; None for a null."""
    if isinstance(column, NullableColumn):
        return [
            None if null else text
            for null, text in zip(
                column.missing.tolist(), cell_texts(kind, column.values), strict=True
            )
        ]
    if isinstance(column, TextColumn):
        texts: list[str] = column.decode().tolist()
        return texts
    made = text_of_key(kind)
    if made is not None:
        return list(map(made, column.tolist()))
    if kind == "bool":
        return ["true" if value else "false" for value in column.tolist()]
    return list(map(repr, column.tolist()))  # repr of a float is the shortest that reads back


def _batches(table: Table) -> Iterator[list[list[str | None]]]:
    """The columns' texts, some rows at a time."""
    for start in starts(table):
        yield [cell_texts(kind, _slice(column, start)) for kind, column in table.typed]


def starts(table: Table, rows: int | None = None) -> Iterator[int]:
    """The start of each batch of rows; earlier batches have been written."""
    watch, size = current_watch(), rows or _BATCH
    for start in range(0, table.length, size):
        watch.poll()
        yield start
        if watch.innermost.stage == "writing":
            watch.innermost.done += min(size, table.length - start)


def _slice(column: Column, start: int) -> Any:
    if isinstance(column, NullableColumn):
        missing = column.missing[start : start + _BATCH]
        return NullableColumn(_slice(column.values, start), missing)
    if isinstance(column, TextColumn):
        return TextColumn(column.codes[start : start + _BATCH], column.texts)
    return column[start : start + _BATCH]


def quoted(tables: Iterable[Table], delimiter: str, header: bool, null: str = "") -> Iterator[str]:
    # Quotes cells with delimiters or line breaks, with characters that a reader may take for quotes
    # or strip, and the empty text, which alone would not be a row.
    special = (delimiter, '"', "\n", "\r")

    def quote(text: str) -> str:
        if text != null and text[:1] not in ("", "\ufeff") and not any(c in text for c in special):
            return text
        return '"' + text.replace('"', '""') + '"'

    return _delimited(tables, delimiter, header, quote, null)


def records(tables: Iterable[Table], lines: bool) -> Iterator[str]:
    """JSON records: one on each line, or in a list. JSON has no infinity, so it is a text, which
    `load` reads back: "inf" or "-inf"."""
    between, last = ("", "\n") if lines else (",\n", "")
    before = "" if lines else "[\n"
    for table in tables:
        for rows in _records(table):
            yield before + ("\n" if lines else ",\n").join(rows) + last
            before = between
    if not lines:
        yield "[]\n" if before == "[\n" else "\n]\n"


def _records(table: Table) -> Iterator[Iterator[str]]:
    """The records of a table, in batches."""
    if not table.columns:
        yield from [iter(["{}"])] * table.length
        return
    names = [json.dumps(name, ensure_ascii=False) for name in table.names]
    for start in starts(table):
        cells = [_json_texts(kind, _slice(column, start)) for kind, column in table.typed]
        yield (
            "{" + ", ".join(map(": ".join, zip(names, row, strict=True))) + "}"
            for row in zip(*cells, strict=True)
        )


def _json_texts(kind: TypeName, column: Column) -> list[str]:
    if isinstance(column, NullableColumn):
        return [
            "null" if null else text
            for null, text in zip(
                column.missing.tolist(), _json_texts(kind, column.values), strict=True
            )
        ]
    if kind == "symbol" or text_of_key(kind) is not None:
        return [json.dumps(text, ensure_ascii=False) for text in cell_texts(kind, column)]
    if kind == "float":
        assert not isinstance(column, TextColumn)
        return [_INFINITE.get(text, text) for text in map(json.dumps, column.tolist())]
    return cell_texts(kind, column)
