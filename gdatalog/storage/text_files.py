"""Text files: which delimiter, whether a header, and the raw columns below it.

What is not said is sniffed. With a declaration, the first record is a header if it holds all
declared names, in whatever case, or if it is all names, cannot be a row, and the next one can.
Without one, it is a header if it is all names and the next record has something else than texts;
where all is text, if none of its names comes up again as a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice

from gdatalog.errors import DataError, Source, Span, UsageError
from gdatalog.storage.cells import cell_value
from gdatalog.storage.delimited import SNIFFED, CellPlace, Delimited, Record
from gdatalog.storage.place import Place, shown
from gdatalog.storage.raw import Declared, Raw

_NAME = re.compile(r"[^\W\d][\w .:/()%-]*|_\w*")
_SAMPLE = 100  # records that are looked at to tell delimiter and header
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


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
    if arity == 0 or (arity is None and data.strip() == b"()"):
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
    head_text = text
    if header:
        names = _header_names(first, declared)
        text = text.after(first)
    width = len(first.fields)
    if arity is not None and picked is None and width != arity:
        by_name = names is not None and declared is not None and set(declared.columns) <= set(names)
        if not by_name:
            header_like = all(_NAME.fullmatch(field.strip()) for field in first.fields)
            said = first.fields if header_like and len(head) > 1 else names
            raise head_text.wrong_width(first, arity, _unlike(said, declared))
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


def _unlike(names: Sequence[str] | None, declared: Declared | None) -> str | None:
    """Which declared columns a header does not have: then they cannot be told by name."""
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
    """A relation without columns: a line, blank or `()`, says that it is true, as in Soufflé."""
    lines = data.decode(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip() not in ("", "()"):
            raise DataError(
                f"expected (), found {shown(line)}",
                Span(Source(name, line, number), 0, len(line)),
                hint="a relation without columns is true if its file has a line, () or a blank one,"
                " and false if the file is empty",
            )
    return Raw((), (), len(lines))


# ---------------------------------------------------------------- what was not said


def _sniff(name: str, data: bytes, quoted: bool, declared: Declared | None) -> str:
    """The delimiter that cuts the first records into equally many fields, as declared if it was."""
    arity = None if declared is None else len(declared.types)
    found = []
    for preference, delimiter in enumerate(reversed(SNIFFED)):
        try:
            head = list(islice(Delimited(name, data, delimiter, quoted).records(), _SAMPLE))
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


def _header_names(record: Record, declared: Declared | None) -> tuple[str, ...]:
    """The names in a record; those of a declaration where they differ in nothing but case."""
    names = tuple(field.strip() for field in record.fields)
    if declared is None or set(declared.columns) <= set(names):
        return names
    folded = [name.lower() for name in names]
    spelled = {name.lower(): name for name in declared.columns}
    if len(set(folded)) < len(folded) or len(spelled) < len(declared.columns):
        return names
    if not spelled.keys() <= set(folded):
        return names
    return tuple(spelled.get(name.lower(), name) for name in names)


def _has_header(head: Sequence[Record], declared: Declared | None) -> bool:
    """Whether the first record holds names rather than values."""
    first = _header_names(head[0], declared)
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
