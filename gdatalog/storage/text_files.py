"""Delimited text files, with or without a header (`headers.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice

import numpy as np

from gdatalog.errors import DataError, SourceText, Span
from gdatalog.storage.cells import Cells, arrow_texts, hold_texts
from gdatalog.storage.delimited import SNIFFED, CellPlace, Delimited, Record
from gdatalog.storage.headers import (
    CellsBelow,
    all_names,
    header_names,
    tell,
    verdict,
)
from gdatalog.storage.imported_later import pa
from gdatalog.storage.load_options import Declared, LoadOptions, check_delimiter
from gdatalog.storage.missing import unmarked
from gdatalog.storage.places import DataPlace, shown
from gdatalog.storage.raw import Raw
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
    marks = options.marks and quoted
    blank = options.blank_is_row(quoted) and picked is None
    cut = check_delimiter(delimiter or sniffed(data, quoted, options))
    text = Delimited(name, data, cut, quoted, blank, first_line=first_line, marks=marks)
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
    found = verdict(first, rows_below, options, CellsBelow(list(map(unmarked, columns))))
    tell(found, first, options)
    names = header_names(first, text, options) if found.header else None
    if names is None and picked is None:
        check_width(text, head, declared)
    if not columns or (marks and not found.header):
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
    if options.mends or options.marks or options.null is not None:
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
