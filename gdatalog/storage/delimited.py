"""Delimited text: CSV (RFC 4180), TSV and facts files become columns of cells.

A facts file has no quoting and no header; whatever stands between two delimiters is the value.
Arrow splits the bulk, and refuses what is not a table; then the file is read once more, record
by record, to say which line is wrong.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from gdatalog.errors import DataError, UsageError
from gdatalog.storage.cells import cell_value
from gdatalog.storage.columns import Place, shown
from gdatalog.storage.frames import Declared, Raw

_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_NAME = re.compile(r"[^\W\d][\w .:/()%-]*|_\w*")
_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
_SNIFFED = (",", "\t", ";", "|")
_SAMPLE = 100  # records that are looked at to tell delimiter and header
_MARK = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_END = "\0end\0"


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
                table = arrow_csv.read_csv(pa.BufferReader(data), read, parse, convert)
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
        other = next((d for d in _SNIFFED if record.text.count(d) == width - 1 > 0), None)
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


def check_delimiter(delimiter: str) -> str:
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise UsageError(
            f"a delimiter is one ASCII character, found {delimiter!r}",
            hint=r'"," or "\t", for instance',
        )
    return delimiter


def raw_of_text(
    name: str,
    data: bytes,
    *,
    delimiter: str | None,
    quoted: bool,
    header: bool | None,
    declared: Declared | None,
    picked: Sequence[int] | None = None,
) -> Raw:
    """The columns of a text; `picked` takes some of them by position."""
    arity = None if declared is None else len(declared.types)
    if data.startswith(_UTF16):
        raise DataError(f"{name}: the text is UTF-16", hint="save it as UTF-8")
    if arity == 0:
        return _proposition(name, data)
    if delimiter is None:
        delimiter = _sniff(name, data, quoted, declared)
    symbols = declared is not None and declared.types == ("symbol",)
    blank = symbols and not quoted and picked is None
    text = Delimited(name, data, check_delimiter(delimiter), quoted, blank)
    head = list(islice(text.records(), _SAMPLE))
    if not head:
        if declared is None:
            raise DataError(
                f"{name}: the file is empty, so the number of columns is not known",
                hint="declare the relation; then an empty file is an empty relation",
            )
        return Raw(None, (), 0)
    first = head[0]
    names = None
    if header is None:
        header = _has_header(head, declared)
    if header:
        names = tuple(field.strip() for field in first.fields)
        text = text.after(first)
    width = len(first.fields)
    if arity is not None and picked is None and width != arity:
        by_name = names is not None and declared is not None and set(declared.columns) <= set(names)
        if not by_name:
            raise text.wrong_width(first, arity)
    columns = text.columns(width)
    positions = list(range(width))
    if picked is not None:
        beyond = next((i for i in picked if not 0 <= i < width), None)
        if beyond is not None:
            raise DataError(f"{name}: there is no column {beyond}, the last is {width - 1}")
        positions = list(picked)
        columns = [columns[i] for i in positions]
        names = None
    length = len(columns[0])

    def place(position: int, column: str) -> Place:
        return CellPlace(name, column, text, positions[position])

    return Raw(names, tuple(columns), length, "text", place)


def _proposition(name: str, data: bytes) -> Raw:
    """A relation without columns: `()` on a line says that it is true."""
    lines = data.decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() not in ("", "()"):
            raise DataError(
                f"{name}:{number}: expected (), found {shown(line)}",
                hint="a relation without columns is true if its file holds (), false if empty",
            )
    return Raw((), (), sum(1 for line in lines if line.strip()))


# ---------------------------------------------------------------- what was not said


def _sniff(name: str, data: bytes, quoted: bool, declared: Declared | None) -> str:
    """The delimiter that cuts the first records into equally many fields, as declared if it was."""
    found = []
    for delimiter in _SNIFFED:
        try:
            text = Delimited(name, data, delimiter, quoted)
            head = list(islice(text.records(), _SAMPLE))
        except DataError:
            continue
        widths = {len(record.fields) for record in head}
        if widths and max(widths) > 1:
            even = len(widths) == 1
            fits = declared is None or len(declared.types) in widths
            if declared is not None:
                fits = fits or set(declared.columns) <= {f.strip() for f in head[0].fields}
            found.append((even and fits, fits, even, delimiter))
    if not found:
        return ","
    return max(found, key=lambda each: (*each[:3], -_SNIFFED.index(each[3])))[3]


def _has_header(head: Sequence[Record], declared: Declared | None) -> bool:
    """Whether the first record holds names rather than values."""
    first = [field.strip() for field in head[0].fields]
    if declared is not None and set(declared.columns) <= set(first):
        return True
    if len(set(first)) < len(first) or not all(_NAME.fullmatch(field) for field in first):
        return False
    rest = [record.fields for record in head[1:] if len(record.fields) == len(first)]
    if declared is not None:
        # Names other than the declared ones: where the first record cannot be a row, and the
        # next one can.
        typed = [i for i, kind in enumerate(declared.types) if kind != "symbol"]
        if len(first) != len(declared.types) or not typed:
            return False
        odd = all(cell_value(first[i], declared.types[i]) is None for i in typed)
        return odd and all(
            cell_value(row[i], declared.types[i]) is not None for row in rest[:1] for i in typed
        )
    if not rest:
        return not any(_typed(field) for field in first)
    if any(_typed(field) for field in first):
        return False
    if any(_typed(cell) for cell in rest[0]):
        return True
    # All is text: names do not come up again among the values.
    return not set(first) & {cell.strip() for row in rest for cell in row}


def _typed(cell: str) -> bool:
    """Whether a cell reads as something else than a symbol."""
    return any(cell_value(cell, kind) is not None for kind in ("int", "float", "bool", "timestamp"))
