"""Delimited text: CSV (RFC 4180), TSV and facts files become columns of cells.

A facts file has no quoting and no header: a value is everything between two delimiters. Arrow
splits the text, and rejects text that is not a table; then the file is read again, record by
record, to find the wrong line.

Plain text, unquoted columns of texts and ints, is split in one pass (`plain_text.py`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, SourceText, Span
from gdatalog.records import dataclass, replace
from gdatalog.storage.imported_later import pa
from gdatalog.storage.places import DataPlace
from gdatalog.storage.plain_text import ColumnLayout, cut_large
from gdatalog.storage.table import (
    TextColumn,
    TextSet,
)
from gdatalog.storage.text_functions import text_functions_for
from gdatalog.threads import Abandoned
from gdatalog.values import TypeName

_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
SNIFFED = (",", "\t", ";", "|")
MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
_END = "\0end\0"
FEW_BYTES = 1 << 16  # a text that is read without Arrow
LONG = 1 << 24  # bytes: splitting larger files reports progress
# The shares of progress of the steps of loading, for a large CSV file of ints, the slowest to read.
READING, CUTTING = (0.0, 0.05), (0.05, 0.4)


@dataclass(frozen=True, slots=True)
class Record:
    line: int  # counted from 1
    fields: list[str]
    text: str  # the source text, without its line break
    end: int  # offset of the byte after it


@dataclass(frozen=True, slots=True)
class Delimited:
    """A text and its format. Its rows begin at byte `start`, in line `first_line`."""

    name: str
    data: bytes
    delimiter: str
    quoted: bool
    blank_is_row: bool = False  # one column of symbols: an empty line is the empty text
    start: int = 0
    first_line: int = 1
    marks: bool = False  # empty cells are null unless they have quotes

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

        # The csv module's limit for a cell, 128 KiB, is global; raising it does no harm.
        csv.field_size_limit((1 << 31) - 1)
        line = self.first_line
        reader = csv.reader(chain(lines(), (_END,)), delimiter=self.delimiter)
        while True:
            try:
                fields = next(reader)
            except csv.Error as error:
                text = "".join(taken).rstrip("\r\n")
                span = self.span(Record(line, [], text, end))
                raise DataError(f"cannot be read: {error}", span) from error
            if fields == [_END]:
                return
            text = "".join(taken).rstrip("\r\n")
            if fields and fields[-1].endswith(_END):
                opened = Record(line, fields, text, end)
                raise DataError(
                    "a quote is opened here and never closed",
                    self.span(opened, len(fields) - 1),
                    hint='a quote inside a quoted value is doubled: "say ""hi"""',
                )
            if fields or self.blank_is_row:
                yield Record(line, fields or [""], text, end)
            line += len(taken)
            taken.clear()

    def record_of(self, row: int) -> Record:
        """The record of a row; rows count from 0."""
        rows = self.data[self.start :]
        quotes = self.quoted and b'"' in rows
        blank = rows.startswith((b"\n", b"\r")) or b"\n\n" in rows or b"\n\r" in rows
        plain = rows.count(b"\r") == rows.count(b"\r\n")
        if plain and (not quotes or no_break_in_quotes(rows)) and (self.blank_is_row or not blank):
            at = self.start
            for _ in range(row):
                at = self.data.index(b"\n", at) + 1
            return next(replace(self, start=at, first_line=self.first_line + row).records())
        return next(islice(self.records(), row, None))

    def span(self, record: Record, position: int | None = None) -> Span:
        """The place of a record in the file, or of one of its cells."""
        source = SourceText(self.name, record.text, record.line)
        if position is None:
            return Span(source, 0, len(record.text))
        start, cell, inside = 0, 0, False
        for at, char in enumerate(record.text):
            if char == '"' and self.quoted:
                inside = not inside
            elif char == self.delimiter and not inside:
                if cell == position:
                    return Span(source, start, at)
                start, cell = at + 1, cell + 1
        return Span(source, start, len(record.text))

    def columns(
        self, width: int, texts: Collection[int] = ()
    ) -> list[TextColumn | pa.ChunkedArray]:
        """The cells: `width` columns of Arrow strings. Columns in `texts` are `TextColumn`s if that
        is faster."""
        found: dict[int, TextColumn | pa.ChunkedArray] = {}
        length = len(self.data) - self.start
        kernels = text_functions_for(length) if texts else None
        if kernels is not None:
            kinds: list[TypeName | None] = [
                "symbol" if at in texts else None for at in range(width)
            ]
            layout = ColumnLayout(self.delimiter, tuple(kinds), self.quoted, self.blank_is_row)
            file = io.BytesIO(self.data)
            file.seek(self.start)
            with current_watch().innermost.within(*CUTTING):
                cut = cut_large(file, length, layout, TextSet(kernels))
            if cut is not None:
                found = dict(zip(sorted(texts), cut[0], strict=True))
        rest = [at for at in range(width) if at not in found]
        found |= zip(rest, self._arrow_columns(width, rest) if rest else (), strict=True)
        return [found[at] for at in range(width)]

    def few_columns(self, width: int) -> list[list[str]] | None:
        """The cells of a small text without quotes; None if it is another. Starting Arrow takes
        longer than splitting such a text."""
        length = len(self.data) - self.start
        if length > FEW_BYTES or (self.quoted and b'"' in self.data) or self.marks:
            return None
        if bad_utf8(self.name, self.data, self.first_line) is not None:
            return None  # Arrow's way raises the error
        columns: list[list[str]] = [[] for _ in range(width)]
        for record in self.records():
            if len(record.fields) != width:
                raise self.wrong_width(record, width)
            for column, cell in zip(columns, record.fields, strict=True):
                column.append(cell)
        return columns

    def _arrow_columns(self, width: int, wanted: Sequence[int]) -> list[pa.ChunkedArray]:
        import pyarrow.csv as arrow_csv

        names = [str(i) for i in range(width)]
        data = pa.py_buffer(self.data)[self.start :]
        if self.data.startswith(MARK, self.start):
            # Arrow drops a byte order mark. The file's own was dropped before; this one is part of
            # a value.
            data = pa.py_buffer(MARK + self.data[self.start :])
        blank = not self.blank_is_row and not self.data[self.start :].strip(b"\r\n")
        if blank or len(data) == 0:
            return [pa.chunked_array([], pa.string()) for _ in wanted]
        quotes = self.quoted and b'"' in self.data
        if quotes and self.data.count(b'"') % 2:
            for _ in self.records():  # raises if a quote is never closed
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
            null_values=[""] if self.marks else [],
            strings_can_be_null=self.marks,
            quoted_strings_can_be_null=False,
            include_columns=[names[at] for at in wanted],
        )
        # A row must fit into two blocks: try again with larger ones before giving up.
        for block_size in (1 << 20, 1 << 26, min(len(data) + 1, (1 << 31) - 1)):
            read = arrow_csv.ReadOptions(column_names=names, block_size=block_size)
            try:
                with current_watch().innermost.within(*CUTTING):
                    file = pa.PythonFile(_Slowly(data), "r") if len(data) > LONG else data
                    table = arrow_csv.read_csv(pa.input_stream(file), read, parse, convert)
                return list(table.columns)
            except (pa.ArrowException, ValueError) as error:
                if "straddl" not in str(error) or block_size > len(data):
                    raise self._why(width, error) from error
        raise DataError(f"{self.name}: a row is larger than 2 GiB")

    def _why(self, width: int, error: Exception) -> DataError:
        """The error for a file that Arrow has rejected."""
        header = len(_LINE.findall(self.data, 0, self.start))  # lines above the rows
        found = bad_utf8(self.name, self.data, self.first_line - header)
        if found is not None:
            return found
        for record in self.records():
            if len(record.fields) != width:
                return self.wrong_width(record, width)
        return DataError(f"{self.name}: cannot be read: {error}")

    def wrong_width(self, record: Record, width: int, hint: str | None = None) -> DataError:
        expected = f"{width} column{'s' if width != 1 else ''}"
        return DataError(
            f"expected {expected}, found {len(record.fields)}",
            self.span(record),
            hint=hint or self._why_so_many(record, width),
        )

    def _why_so_many(self, record: Record, width: int) -> str:
        by = _DELIMITERS.get(self.delimiter, f"{self.delimiter!r}")
        hint = f"columns are separated by {by} here"
        found = len(record.fields)
        other = next((d for d in (*SNIFFED, " ") if record.text.count(d) == width - 1 > 0), None)
        if other is not None and found == 1:
            return f"{hint}; this line has {_DELIMITERS[other]}: set delimiter={other!r}"
        if found == width + 1 and record.text.endswith(self.delimiter):
            return f"{hint}, and this line ends with one: remove it"
        if not self.quoted and '"' in record.text:
            return f"{hint}, and quotes mean nothing in a facts file"
        if self.quoted and found > width:
            return f"{hint}; put a value that contains one in double quotes"
        return hint

    def place(self, position: int, column: str) -> DataPlace:
        """A column, for errors."""
        return CellPlace(self.name, column, self, position)

    def after(self, header: Record) -> Delimited:
        """The rows below a header."""
        lines = len(_LINE.findall(self.data, self.start, header.end))
        return replace(self, start=header.end, first_line=self.first_line + lines)


class _Slowly(io.RawIOBase):
    """A text as a file, which reports progress while Arrow reads it in blocks."""

    def __init__(self, data: pa.Buffer) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._watch = current_watch()
        self._work = self._watch.innermost  # Arrow has threads of its own

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._watch.left:
            raise Abandoned
        end = len(self._data) if size < 0 else self._at + size
        part = bytes(self._data[self._at : end])
        self._at += len(part)
        self._work.share(self._at / len(self._data))
        return part


@dataclass(frozen=True, slots=True)
class CellPlace(DataPlace):
    """A column of a text file: errors name the line of a row."""

    file: Delimited
    position: int

    def error(self, row: int, message: str, hint: str | None = None) -> DataError:
        span = self.file.span(self.file.record_of(row), self.position)
        return DataError(f"column {self.position + 1} {self.column!r}: {message}", span, hint=hint)


def no_break_in_quotes(rows: bytes) -> bool:
    """Whether every line has an even number of quotes."""
    chars = np.frombuffer(rows, dtype=np.uint8)
    before = np.cumsum(chars == ord('"'), dtype=np.uint8)  # only its last bit is used
    return not bool((before[chars == ord("\n")] & 1).any())


def bad_utf8(name: str, data: bytes, first_line: int = 1) -> DataError | None:
    """The first position at which a text is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        start = max(data.rfind(b"\n", 0, error.start), data.rfind(b"\r", 0, error.start)) + 1
        line = len(_LINE.findall(data, 0, start)) + first_line
        found = _LINE.match(data, start)
        text = b"" if found is None else found.group().rstrip(b"\r\n")
        source = SourceText(name, text.decode(errors="replace"), line)
        at = len(data[start : error.start].decode())
        return DataError(
            f"the byte 0x{data[error.start]:02x} is not UTF-8",
            Span(source, at, at + 1),
            hint="save the file as UTF-8",
        )
    return None
