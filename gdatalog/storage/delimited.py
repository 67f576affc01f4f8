"""Delimited text: CSV (RFC 4180), TSV and facts files become columns of cells.

A facts file has no quoting and no header; whatever stands between two delimiters is the value.
Arrow splits the bulk, and refuses what is not a table; then the file is read once more, record
by record, to say which line is wrong.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from gdatalog.errors import DataError
from gdatalog.storage.place import Place, shown
from gdatalog.storage.raw import CUTTING
from gdatalog.watching import Left, watching

_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
SNIFFED = (",", "\t", ";", "|")
_MARK = b"\xef\xbb\xbf"
_END = "\0end\0"
LONG = 1 << 24  # bytes, from which on it is worth telling how far the cutting is


@dataclass(frozen=True, slots=True)
class Record:
    line: int  # counted from 1
    fields: list[str]
    text: str  # as it stands in the file, without its line break
    end: int  # offset of the byte after it


@dataclass(frozen=True, slots=True)
class Delimited:
    """A text and how it is cut: `start` and `first_line` say where its rows begin."""

    name: str
    data: bytes
    delimiter: str
    quoted: bool
    blank_is_row: bool = False  # one column of symbols: an empty line is the empty text
    start: int = 0
    first_line: int = 1

    def records(self) -> Iterator[Record]:
        """The rows one by one: slow, for the head of a file and for errors."""
        if self.quoted and b'"' in self.data:
            yield from self._quoted_records()
            return
        end = self.start
        for number, found in enumerate(_LINE.finditer(self.data, self.start)):
            text = found.group().decode(errors="replace").rstrip("\r\n")
            end = found.end()
            if text or self.blank_is_row:
                yield Record(self.first_line + number, text.split(self.delimiter), text, end)

    def _quoted_records(self) -> Iterator[Record]:
        taken: list[str] = []
        end = self.start

        def lines() -> Iterator[str]:
            nonlocal end
            for found in _LINE.finditer(self.data, self.start):
                end = found.end()
                taken.append(found.group().decode(errors="replace"))
                yield taken[-1]

        # The csv module's limit on a cell, 128 KiB, is one for all readers; raising it harms none.
        csv.field_size_limit((1 << 31) - 1)
        line = self.first_line
        reader = csv.reader(chain(lines(), (_END,)), delimiter=self.delimiter)
        while True:
            try:
                fields = next(reader)
            except csv.Error as error:
                raise DataError(f"{self.name}:{line}: cannot be read: {error}") from error
            if fields == [_END]:
                return
            text = "".join(taken).rstrip("\r\n")
            if fields and fields[-1].endswith(_END):
                raise DataError(
                    f"{self.name}:{line}: a quote is opened here and never closed: {shown(text)}",
                    hint='a quote inside a quoted value is doubled: "say ""hi"""',
                )
            if fields:
                yield Record(line, fields, text, end)
            line += len(taken)
            taken.clear()

    def line_of(self, row: int) -> int:
        """The line of a row, which is counted from 0."""
        rows = self.data[self.start :]
        quotes = self.quoted and b'"' in rows
        blank = rows.startswith((b"\n", b"\r")) or b"\n\n" in rows or b"\n\r" in rows
        plain = not quotes and rows.count(b"\r") == rows.count(b"\r\n")
        if plain and (self.blank_is_row or not blank):
            return self.first_line + row
        return next(islice(self.records(), row, None)).line

    def columns(self, width: int) -> list[Any]:
        """The cells: `width` columns of strings."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        names = [str(i) for i in range(width)]
        data = pa.py_buffer(self.data)[self.start :]
        if self.data.startswith(_MARK, self.start):
            # Arrow drops a byte order mark; this one is part of a value, the file's is gone.
            data = pa.py_buffer(_MARK + self.data[self.start :])
        if not self.blank_is_row and not self.data[self.start :].strip(b"\r\n"):
            return [pa.chunked_array([], pa.string()) for _ in names]
        if len(data) == 0:
            return [pa.chunked_array([], pa.string()) for _ in names]
        quotes = self.quoted and b'"' in self.data
        if quotes and self.data.count(b'"') % 2:
            for _ in self.records():  # which finds a quote that is never closed
                pass
        parse = arrow_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char='"' if quotes else False,
            double_quote=quotes,
            newlines_in_values=quotes,
            ignore_empty_lines=not self.blank_is_row,
        )
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[],
            strings_can_be_null=False,
        )
        # A row must fit into two blocks: try again with larger ones before giving up.
        for block_size in (1 << 20, 1 << 26, min(len(data) + 1, (1 << 31) - 1)):
            read = arrow_csv.ReadOptions(column_names=names, block_size=block_size)
            try:
                with watching().innermost.within(*CUTTING):
                    file = pa.PythonFile(_Slowly(data), "r") if len(data) > LONG else data
                    table = arrow_csv.read_csv(pa.input_stream(file), read, parse, convert)
                return list(table.columns)
            except (pa.ArrowException, ValueError) as error:
                if "straddl" not in str(error) or block_size > len(data):
                    raise self._why(width, error) from error
        raise DataError(f"{self.name}: a row is larger than 2 GiB")

    def _why(self, width: int, error: Exception) -> DataError:
        """What is wrong with a file that Arrow refused."""
        found = bad_utf8(self.name, self.data)
        if found is not None:
            return found
        for record in self.records():
            if len(record.fields) != width:
                return self.wrong_width(record, width)
        return DataError(f"{self.name}: cannot be read: {error}")

    def wrong_width(self, record: Record, width: int) -> DataError:
        expected = f"{width} column{'s' if width != 1 else ''}"
        by = _DELIMITERS.get(self.delimiter, f"{self.delimiter!r}")
        hint = f"columns are separated by {by} here"
        other = next((d for d in SNIFFED if record.text.count(d) == width - 1 > 0), None)
        if other is not None and len(record.fields) == 1:
            hint += f"; this line has {_DELIMITERS[other]}: say so, delimiter={other!r}"
        elif not self.quoted and '"' in record.text:
            hint += ", and quotes mean nothing in a facts file"
        return DataError(
            f"{self.name}:{record.line}: expected {expected}, found {len(record.fields)}: "
            f"{shown(record.text)}",
            hint=hint,
        )

    def after(self, header: Record) -> Delimited:
        """The rows below a header."""
        lines = len(_LINE.findall(self.data, self.start, header.end))
        first = self.first_line + lines
        return Delimited(
            self.name,
            self.data,
            self.delimiter,
            self.quoted,
            self.blank_is_row,
            header.end,
            first,
        )


class _Slowly(io.RawIOBase):
    """A text as a file, from which Arrow reads block after block; so far it has come."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._watch, self._work = watching(), watching().innermost  # Arrow has threads of its own

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._watch.left:
            raise Left
        end = len(self._data) if size < 0 else self._at + size
        part = bytes(self._data[self._at : end])
        self._at += len(part)
        self._work.share(self._at / len(self._data))
        return part


@dataclass(frozen=True, slots=True)
class CellPlace(Place):
    """A column of a text file: its rows have lines."""

    file: Delimited
    position: int

    def where(self, row: int) -> str:
        line = self.file.line_of(row)
        return f"{self.what}:{line}: column {self.position + 1} {self.column!r}"


def bad_utf8(name: str, data: bytes) -> DataError | None:
    """Where a text is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = len(_LINE.findall(data, 0, error.start)) or 1
        if data[: error.start].endswith(b"\n"):
            line = data.count(b"\n", 0, error.start) + 1
        return DataError(
            f"{name}:{line}: the byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        )
    return None
