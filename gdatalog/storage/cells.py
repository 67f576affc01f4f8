"""Parses the cells of delimited files: columns of texts become typed columns.

If a column's type is declared, all of its cells must be of this type: ints in decimal (or 0x, 0b)
with a sign, floats as Python writes them, `true` and `false`, timestamps in ISO 8601. Spaces around
a number are allowed; symbols are kept verbatim. Otherwise the type is inferred from all cells of
the column: the first of int, float, bool and timestamp that fits, else symbol. Digits with leading
zeros (007) are identifiers, so their column is a symbol. Ints beyond 64 bits are errors, and so are
missing cells in a column of numbers.

Arrow parses most columns. A column that it rejects is parsed again cell by cell: `cell_value`
defines what a cell means, and finds the first wrong row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from gdatalog.decimals import DIGITS, decimal_from_text, scale_of
from gdatalog.errors import DataError, Note
from gdatalog.storage.column_arrays import arrow_numbers, empty_column, encoded
from gdatalog.storage.columns import Typed
from gdatalog.storage.decimals import from_texts
from gdatalog.storage.imported_later import pa, pc
from gdatalog.storage.places import DataPlace, MissingValue, shown
from gdatalog.storage.table import DTYPES, Array, TextColumn
from gdatalog.values import (
    INT_MAX,
    INT_MIN,
    TypeName,
    Value,
    date_from_text,
    duration_from_text,
    timestamp_from_text,
)

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "none", "NaT")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([,.' _\u00a0\u2009\u202f])[0-9]{3}(?:\1[0-9]{3})*")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?|[+-]?[0-9]+[eE][+-]?[0-9]+")
_WITH_MORE = re.compile(r"[^0-9+-]{0,3}([+-]?[0-9]+(?:\.[0-9]+)?) ?[^0-9]{1,12}|[^0-9+-]([0-9.]+)")
_DAY_FIRST = re.compile(r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{2,4}\b.*")
_YEAR_FIRST = re.compile(r"([0-9]{4})[./]([0-9]{1,2})[./]([0-9]{1,2})\b.*")


def why_unreadable(text: str, kind: TypeName) -> str | None:
    """The hint for a text that is not of this type.

    >>> why_unreadable("2,5", "float")
    'a decimal point is a dot: 2.5'
    """
    if text in MISSING:
        return None  # missing values are reported together
    if kind == "float" and text.lower().lstrip("+-") == "nan":
        return "a NaN is not a value"
    if len(text) > 1 and text[0] == text[-1] == '"':
        return "quotes mean nothing in a facts file: take them away, or read the file as .csv"
    if kind == "bool":
        if text.lower() in ("yes", "no", "y", "n", "t", "f", "0", "1", "on", "off"):
            other = "int" if text.isdigit() else "symbol"
            return f"a bool is written true or false; as it is, the column is {other}"
        return "a bool is written true or false"
    if kind == "date":
        return "a date is written 2026-11-20"
    if kind == "duration":
        return "a duration is written 3h, 7d, 1d12h or 1500ms"
    if scale_of(kind) and _POINT.fullmatch(text):
        return f"{kind} has at most {DIGITS} digits, {scale_of(kind)} of them after the point"
    if kind == "timestamp":
        return _time(text)
    if (kind == "float" or scale_of(kind)) and _COMMA.fullmatch(text):
        return f"a decimal point is a dot: {text.replace(',', '.')}"
    grouped = _GROUPED.fullmatch(text)
    if grouped is not None and not (kind == "float" and grouped[1] == "."):
        return f"write digits together: {text.replace(grouped[1], '')}"
    if kind == "int" and (_POINT.fullmatch(text) or _COMMA.fullmatch(text)):
        return "declare the column float if it holds fractions"
    found = _WITH_MORE.fullmatch(text)
    if found is not None:
        return f"write the number alone: {found[1] or found[2]}"
    return None


def _time(text: str) -> str:
    form = "a timestamp is written 2026-11-20 or 2026-11-20T08:30:00.5"
    year = _YEAR_FIRST.fullmatch(text)
    if year is not None:
        return f"{form}: here {year[1]}-{year[2]:0>2}-{year[3]:0>2}"
    if _DAY_FIRST.fullmatch(text):
        return f"{form}: the year first, then the month"
    if text.lstrip("-").isdigit():
        return f'{form}; of seconds since 1970 pandas.to_datetime(..., unit="s") makes times'
    return form


_INT = re.compile(r"[+-]?[0-9]+")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_IDENTIFIER = r"^\s*[+-]?0[0-9xXbB]"  # 007, 0x1f: digits, but hardly a number

# A column: an Arrow array of strings without nulls, or a list of few strings.
Cells: TypeAlias = "pa.ChunkedArray | list[str]"

MOST_COUNTED = 1000  # wrong cells of a column: parsing stops after so many
_BOOLS = {"true": True, "True": True, "TRUE": True}
_BOOLS |= {"false": False, "False": False, "FALSE": False}


def cells_column(
    cells: Cells | TextColumn,
    declared: TypeName | None,
    place: DataPlace,
    batch: bool = False,
) -> Typed:
    """A typed column, from cells or from a `TextColumn`.
    `batch`: whether the file may have other rows."""
    if isinstance(cells, TextColumn):
        if declared in (None, "symbol"):
            return "symbol", cells
        cells = as_arrow(cells)  # raises the error
    if len(cells) == 0:
        return declared or "symbol", empty_column(declared or "symbol")
    if declared is None:
        return _inferred(cells, place)
    if declared == "symbol":
        return declared, _encoded(cells)
    parts, bad = _read(cells, declared)
    if bad:
        raise _unreadable(bad[0], _cell(cells, bad[0]), declared, place, len(bad) - 1, batch)
    return declared, np.concatenate(parts)


def cell_value(text: str, kind: TypeName) -> Value | None:
    """The value of one cell; None if it is not of this type.

    >>> cell_value(" 12", "int"), cell_value("abc", "int"), cell_value("1e3", "float")
    (12, None, 1000.0)
    """
    if kind == "symbol":
        return text
    text = text.strip()
    if kind == "timestamp":
        return timestamp_from_text(text)
    if kind == "date":
        return date_from_text(text)
    if kind == "duration":
        return duration_from_text(text)
    if scale_of(kind):
        return decimal_from_text(text, scale_of(kind))
    if kind == "bool":
        return _BOOLS.get(text)
    if kind == "float":
        if _INFINITE.fullmatch(text):
            return float(text)
        value = float(text) if _FLOAT.fullmatch(text) else None
        return None if value is None or np.isinf(value) else value
    # Python limits the digits of an int; longer texts are too big anyway.
    if len(text) > 200:
        return None
    if _INT.fullmatch(text):
        number = int(text)
    elif _HEX.fullmatch(text):
        number = int(text, 0)
    else:
        return None
    return number if INT_MIN <= number <= INT_MAX else None


def _read(cells: Cells, kind: TypeName) -> tuple[list[Array], list[int]]:
    """The values of a column in parts, and the rows with wrong cells; not all rows if there are
    many."""
    found = _fast(cells, kind)
    if found is not None:
        return [found], []
    if isinstance(cells, list):
        values, wrong = _slow(cells, kind)
        return [values], wrong
    # Only the chunks that Arrow refuses are read cell by cell.
    parts = []
    start = 0
    bad: list[int] = []
    for chunk in cells.chunks:
        part = _fast(chunk, kind)
        if part is None:
            part, wrong = _slow(chunk.to_pylist(), kind)
            bad += (start + at for at in wrong)
            if len(bad) > MOST_COUNTED:
                break
        parts.append(part)
        start += len(chunk)
    return parts, bad


def _unreadable(
    row: int, cell: str, kind: TypeName, place: DataPlace, more: int, batch: bool
) -> DataError:
    text = cell.strip()
    if kind == "int" and _INT.fullmatch(text):
        return place.too_big(row, _Verbatim(text))
    hint = why_unreadable(text, kind)
    if row == 0 and hint is None and text == place.column:
        hint = "this line looks like a header: say that it is one, headers=true"
    error = place.error(row, f"expected {kind}, found {shown(cell)}", hint)
    if text in MISSING:
        error = MissingValue.of(error)
    if more > 0:
        # The other batches are not read for a count: they may be large, or have errors themselves.
        over = "more than " if more >= MOST_COUNTED else "at least " if batch else ""
        more = min(more, MOST_COUNTED)
        other = f"{more:,} other rows" if more > 1 else "one other row" if batch else "another row"
        error.notes = (Note(f"{over}{other} of this column cannot be read either"),)
    return error


class _Verbatim(str):
    """A text that an error shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _slow(texts: Iterable[str], kind: TypeName) -> tuple[Array, list[int]]:
    """Reads cell by cell: the values, and the first positions of texts that are not of the type."""
    values = []
    wrong = []
    for index, text in enumerate(texts):
        value = cell_value(text, kind)
        if value is not None:
            values.append(value)
        else:
            wrong.append(index)
            if len(wrong) > MOST_COUNTED:
                break
    if wrong:
        return np.empty(0), wrong
    found: Array = np.array(values, dtype=DTYPES[kind])
    return (found + 0.0 if kind == "float" else found), []


def _fast(cells: Cells, kind: TypeName) -> Array | None:
    """The column as Arrow converts it; None if it has to be read cell by cell."""
    if isinstance(cells, list):
        found, wrong = _slow(cells, kind)
        return None if wrong else found
    if scale_of(kind):
        return from_texts(cells, scale_of(kind))
    targets = {"int": pa.int64(), "float": pa.float64(), "timestamp": pa.timestamp("ns")}
    if kind not in targets:
        return None
    if kind == "int" and pc.any(pc.starts_with(cells, "0x", ignore_case=True)).as_py():
        return None  # Arrow would wrap large ones around
    if kind == "timestamp":
        # Arrow also reads shorter times, which are not supported: 2026-11-20T08
        lengths = pc.unique(pc.binary_length(cells)).to_pylist()
        if not all(length is None or length == 10 or length >= 16 for length in lengths):
            return None
    try:
        typed = pc.cast(cells, targets[kind])
    except pa.ArrowInvalid:
        return None
    if kind == "timestamp":
        typed = typed.cast(pa.int64())
    values = arrow_numbers(typed)
    if kind == "float":
        return values + 0.0 if np.isfinite(values).all() else None
    return values


def _inferred(cells: Cells, place: DataPlace) -> Typed:
    """The first type that all cells can be read as; symbol if there is none."""
    sample = _listed(_there(cells[:100])) or _listed(_there(cells)[:100])
    for kind in _possible(sample):
        if kind in ("int", "float") and _has_identifier(cells):
            break
        values = _fast(cells, kind)
        if values is None:
            values = _patient(cells, kind, place)
        if values is not None:
            return kind, values
    return "symbol", _encoded(cells)


def kind_of(cells: Cells, identifiers: bool = False) -> TypeName:
    """The type of a column, inferred from all cells that are not missing. `identifiers`: digits
    with leading zeros are texts."""
    kinds = Kinds()
    kinds.see(cells)
    return kinds.kind(identifiers)


class Kinds:
    """Infers the type of a column whose cells arrive block by block."""

    def __init__(self) -> None:
        self._possible: list[TypeName] | None = None  # None: no cells so far
        self._identifiers = False

    def see(self, cells: Cells) -> None:
        if self._possible == []:
            return
        plain = _possible(_listed(cells[:100]))[:1]
        if plain and plain[0] in ("int", "float") and _fast(cells, plain[0]) is not None:
            there = cells  # none is missing
        else:
            there = _there(cells)
        if not len(there):
            return
        known = _possible(_listed(there[:100]))
        if self._possible is not None:
            known = [kind for kind in known if kind in self._possible]
        ints = "int" in known and _all_read(there, "int")  # ints are floats, too
        self._possible = [
            kind
            for kind in known
            if (ints if kind == "int" else (ints and kind == "float") or _all_read(there, kind))
        ]
        if {"int", "float"} & {*self._possible} and not self._identifiers:
            self._identifiers = _has_identifier(there)

    def kind(self, identifiers: bool = False) -> TypeName:
        """The inferred type. `identifiers`: digits with leading zeros are texts."""
        found: TypeName = self._possible[0] if self._possible else "symbol"
        texts = identifiers and self._identifiers and found in ("int", "float")
        return "symbol" if texts else found


def _there(cells: Cells) -> pa.ChunkedArray:
    """The cells that are not missing."""
    if isinstance(cells, list):
        return [cell for cell in cells if cell.strip() not in MISSING]
    blank = pc.is_in(pc.utf8_trim_whitespace(cells), arrow_texts(MISSING))
    return cells.filter(pc.invert(blank))


def _all_read(cells: Cells, kind: TypeName) -> bool:
    return _fast(cells, kind) is not None or all(
        cell_value(cell, kind) is not None or (kind == "int" and is_big(cell))
        for cell in _listed(cells)
    )


def _possible(sample: Sequence[str]) -> list[TypeName]:
    """All types but symbol that these cells can be read as."""
    kinds: tuple[TypeName, ...] = ("int", "float", "bool", "timestamp")
    return [
        kind
        for kind in kinds
        if sample and all(cell_value(cell, kind) is not None or is_big(cell) for cell in sample)
    ]


def hold_texts(sample: Sequence[str]) -> bool:
    """Whether a column with these cells, some of which may be missing, is a column of texts."""
    there = [cell for cell in sample if cell.strip() not in MISSING]
    return bool(there) and not _possible(there)


def _listed(cells: Cells) -> list[str]:
    return cells if isinstance(cells, list) else cells.to_pylist()


def _cell(cells: Cells, row: int) -> str:
    return cells[row] if isinstance(cells, list) else cells[row].as_py()


def _encoded(cells: Cells) -> TextColumn:
    if not isinstance(cells, list):
        return encoded(cells)
    codes: dict[str, int] = {}
    numbers = [codes.setdefault(cell, len(codes)) for cell in cells]
    texts = np.empty(len(codes), dtype=object)
    texts[:] = list(codes)
    return TextColumn(np.array(numbers, dtype=np.int32), texts)


def arrow_texts(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array. `pyarrow.array` would import pandas, which takes longer than reading
    a small file."""
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    buffers = pa.py_buffer(ends), pa.py_buffer(b"".join(data))
    return pa.StringArray.from_buffers(len(data), *buffers)


def as_arrow(cells: TextColumn) -> pa.ChunkedArray:
    """A column of texts as a pyarrow array, as it was before its type was inferred."""
    return pa.chunked_array([pa.array(cells.decode().tolist(), pa.string())])


def is_big(cell: str) -> bool:
    """Whether a cell is an int, of any size."""
    return _INT.fullmatch(cell.strip()) is not None


def _has_identifier(cells: Cells) -> bool:
    if isinstance(cells, list):
        return any(re.match(_IDENTIFIER, cell, re.ASCII) for cell in cells)
    # The regular expression is slow, and few cells begin like this.
    suspects = pc.starts_with(cells, "0")
    for start in ("-", "+", " "):
        suspects = pc.or_(suspects, pc.starts_with(cells, start))
    few = cells.filter(suspects)
    return bool(pc.any(pc.match_substring_regex(few, _IDENTIFIER)).as_py())


def _patient(cells: Cells, kind: TypeName, place: DataPlace) -> Array | None:
    """A column cell by cell: its values, or None if it is of another type.

    An error if it is of this type but for cells that are missing, or for ints that are too big.
    """
    parts, bad = _read(cells, kind)
    big: int | None = None
    for row in bad:
        text = _cell(cells, row)
        if kind == "int" and is_big(text):
            big = row if big is None else big
        elif text.strip() not in MISSING:
            return None
    if len(bad) > MOST_COUNTED and not _all_read(_there(cells), kind):
        return None
    if big is not None:
        raise place.too_big(big, _Verbatim(_cell(cells, big).strip()))
    if bad:
        message = f"found {shown(_cell(cells, bad[0]))} in a column of type {kind}"
        raise MissingValue.of(place.error(bad[0], message))
    return np.concatenate(parts)
