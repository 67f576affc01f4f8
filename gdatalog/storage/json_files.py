"""JSON files: a list of records, rows or values, or one of these on each line.

JSON has one kind of number and no times, so an int may be a declared float, and an ISO 8601 text
a declared timestamp.
"""

from __future__ import annotations

import json
from typing import Any

from gdatalog.errors import DataError, SourceText, Span
from gdatalog.records import dataclass, replace
from gdatalog.storage.delimited import bad_utf8
from gdatalog.storage.places import DataPlace, FilePlace, shown
from gdatalog.storage.raw import Raw, raw_of_rows


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
