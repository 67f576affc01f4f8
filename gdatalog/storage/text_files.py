"""Text files: delimited ones, with or without a header (`headers.py`), and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import Any, BinaryIO

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, SourceText, Span
from gdatalog.records import dataclass, replace
from gdatalog.storage.cells import Cells, arrow_texts, hold_texts
from gdatalog.storage.delimited import MARK, SNIFFED, CellPlace, Delimited, Record, bad_utf8
from gdatalog.storage.headers import (
    CellsBelow,
    all_names,
    header_names,
    tell,
    verdict,
)
from gdatalog.storage.imported_later import pa
from gdatalog.storage.load_options import Declared, LoadOptions, check_delimiter
from gdatalog.storage.places import DataPlace, FilePlace, shown
from gdatalog.storage.raw import Raw, raw_of_rows
from gdatalog.storage.table import TextColumn

SAMPLE = 100  # records from which delimiter and header are inferred
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def raw_of_text(
    data: bytes,
    options: LoadOptions,
    delimiter: str | None,
    quoted: bool,
    picked: Sequence[int] | None = None,
    first_line: int = 1,
) -> Raw:
    """The columns of a text; `picked` selects some by position. `first_line`: the number of its
    first line in the file."""
    name, declared = options.what, options.declared
    if data.startswith(UTF16):
        raise DataError(f"{name}: the text is UTF-16", hint="save it as UTF-8")
    if (declared is not None and not declared.types) or (
        declared is None and data.strip() == b"()"
    ):
        return _proposition(name, data)
    symbols = declared is not None and declared.types == ("symbol",)
    blank = symbols and not quoted and picked is None
    cut = check_delimiter(delimiter or sniffed(data, quoted, options))
    text = Delimited(name, data, cut, quoted, blank, first_line=first_line)
    head = list(islice(text.records(), SAMPLE))
    if not head:
        if declared is None:
            raise DataError(
                f"{name}: the file is empty, so the number of columns is not known",
                hint="declare the relation; then an empty file is an empty relation",
            )
        return Raw(None, (), 0)
    first, width = head[0], len(head[0].fields)
    below = text.after(first)
    texts = texts_among(head, options)
    columns = [] if options.header is False else _columns(below, width, texts)
    rows_below = [record.fields for record in head[1:]]
    found = verdict(first, rows_below, options, CellsBelow(columns))
    tell(found, first, options)
    names = header_names(first, text, options) if found.header else None
    if names is None and picked is None:
        check_width(text, head, declared)
    if not columns:
        columns = _columns(text, width, texts)
    elif not found.header:
        columns = [
            _with_first(field, column) for field, column in zip(first.fields, columns, strict=True)
        ]
    rows = below if found.header else text
    positions = list(range(width))
    if picked is not None:
        beyond = next((i for i in picked if not 0 <= i < width), None)
        if beyond is not None:
            raise DataError(f"{name}: there is no column {beyond}, the last is {width - 1}")
        positions = list(picked)
        columns = [columns[i] for i in positions]
        names = None

    def place(position: int, column: str) -> DataPlace:
        return CellPlace(name, column, rows, positions[position])

    header = text.span(first) if names is not None else None
    return Raw(names, tuple(columns), len(columns[0]), "text", place, header)


def check_width(text: Delimited, head: Sequence[Record], declared: Declared | None) -> None:
    """Raises if rows do not have as many columns as declared, from the first rows."""
    first = head[0]
    if declared is not None and len(first.fields) != len(declared.types):
        header_like = all_names([field.strip() for field in first.fields]) and len(head) > 1
        said = first.fields if header_like else None
        raise text.wrong_width(first, len(declared.types), _unlike(said, declared))


def texts_among(head: Sequence[Record], options: LoadOptions) -> list[int]:
    """The columns that hold texts, inferred from the first rows and the declaration; none if
    missing values are looked for among them."""
    if options.mends:
        return []
    first, *rows = head
    complete = [row.fields for row in rows if len(row.fields) == len(first.fields)]
    kinds = () if options.declared is None else options.declared.types
    as_declared = len(kinds) == len(first.fields)
    return [
        at
        for at in range(len(first.fields))
        if (as_declared and kinds[at] == "symbol") or hold_texts([row[at] for row in complete])
    ]


def _columns(text: Delimited, width: int, texts: Sequence[int]) -> Sequence[TextColumn | Cells]:
    return text.few_columns(width) or text.columns(width, texts)


def _with_first(cell: str, column: TextColumn | Cells) -> TextColumn | Cells:
    """A column of cells, with one cell added in front."""
    if isinstance(column, list):
        return [cell, *column]
    if isinstance(column, TextColumn):
        assert column.spelled is not None
        return TextColumn(np.append(column.spelled.add([cell]), column.numbers), column.spelled)

    return pa.chunked_array([arrow_texts([cell]), *column.chunks], pa.string())


def _unlike(names: Sequence[str] | None, declared: Declared | None) -> str | None:
    """The declared columns that a header lacks; if there are some, columns cannot be matched by
    name."""
    if names is None or declared is None:
        return None
    missing = [name for name in declared.columns if name not in names]
    others = [name for name in names if name not in declared.columns]
    near = [get_close_matches(name, others, 1, 0.6) for name in missing]
    if not any(near):
        return None
    said = ", ".join(f"`{name}`" for name in missing)
    meant = ", ".join(f"`{found[0]}`" for found in near if found)
    return f"the header has no {said}; is it {meant} there?"


def _proposition(name: str, data: bytes) -> Raw:
    """A relation without columns: a line, blank or `()`, means that it is true, as in Soufflé."""
    lines = data.decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() not in ("", "()"):
            raise DataError(
                f"expected (), found {shown(line)}",
                Span(SourceText(name, line, number), 0, len(line)),
                hint="a relation without columns is true if its file has a line, () or a blank one,"
                " and false if the file is empty",
            )
    return Raw((), (), len(lines))


# ---------------------------------------------------------------- what was not said


def sniffed(data: bytes, quoted: bool, options: LoadOptions) -> str:
    """The delimiter that gives the first records equally many fields, the declared number if there
    is one."""
    declared = options.declared
    arity = None if declared is None else len(declared.types)
    found = []
    for preference, delimiter in enumerate(reversed(SNIFFED)):
        try:
            head = list(islice(Delimited("", data, delimiter, quoted).records(), SAMPLE))
        except DataError:
            continue
        widths = {len(record.fields) for record in head}
        if not widths or (widths == {1} and arity != 1):
            continue
        names = {field.strip() for field in head[0].fields}
        by_name = declared is not None and set(declared.columns) <= names
        fits = arity is None or arity in widths
        even = len(widths) == 1
        found.append((by_name, fits and even, fits, even, preference, delimiter))
    return max(found)[-1] if found else ","


# Blocks of whole lines of a text file, read one after the other.


Block = tuple[int, int]  # its first byte in the file, and its end

PIECE = 1 << 24  # bytes of one read
LEAST_BYTES, MOST_BYTES = 1 << 23, 1 << 27  # bounds for the bytes of a block
SHARE = 16  # a block takes at most 1/16 of the free memory
_HEAD = 1 << 16  # bytes that are read to find the end of a line


def blocks_of(path: str) -> list[Block]:
    """The blocks of a file; one if it is small."""
    most = max(LEAST_BYTES, min(MOST_BYTES, current_watch().account.spare() // SHARE))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return [(0, size)]
        ends = [0]
        while ends[-1] < size:
            file.seek(min(size, ends[-1] + most))
            while (part := file.readline(_HEAD)) and not part.endswith(b"\n"):
                pass
            ends.append(file.tell())
        return list(pairwise(ends))


def report_size(size: int) -> None:
    """Tells progress of the bytes of the file that is loaded. Of several, all bytes are told of."""
    work = current_watch().innermost
    if work.stage == "loading" and size and not work.several:
        work.total, work.unit = size, "bytes"


def each_block(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks in turn, with progress."""
    work, size = current_watch().innermost, blocks[-1][1]
    for start, end in blocks:
        current_watch().poll()
        with work.within(start / size, end / size):
            yield start, end


def bytes_of_block(path: str, block: Block) -> bytes:
    """The text of a block, without the byte order mark of the file."""
    start, end = block
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    return data if start else data.removeprefix(MARK)


def lines_between(file: BinaryIO, start: int, end: int) -> int:
    """The number of lines that end between two positions of a file."""
    file.seek(start)
    count = 0
    while start < end and (piece := file.read(min(PIECE, end - start))):
        count += piece.count(b"\n")
        start += len(piece)
    return count


# JSON files: a list of records, rows or values, or one of these on each line.
#
# JSON has one kind of number and no times, so an int may be a declared float, and an ISO 8601 text
# a declared timestamp.


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
