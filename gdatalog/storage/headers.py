"""Finds whether a text file has a header.

With a declaration, the first line is a header if it has all declared names, or if it cannot be a
row and a line below can. Without one, a line of numbers alone is a row; a line with a cell of
another kind than the cells below it (`Order #` above numbers) is a header. If all columns hold
texts and all its cells are names, the line is a row if one of its cells occurs again below. Two
decisions are guesses, with a warning: a header if none occurs again; and a header if years stand
above other numbers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from gdatalog.errors import Caution, DataError, Note
from gdatalog.records import dataclass
from gdatalog.storage.cells import MISSING, Cells, arrow_texts, cell_value, is_big, kind_of
from gdatalog.storage.column_matching import respelled
from gdatalog.storage.delimited import Delimited, Record
from gdatalog.storage.imported_later import pc
from gdatalog.storage.load_options import Declared, LoadOptions
from gdatalog.storage.raw import default_name
from gdatalog.storage.table import TextColumn
from gdatalog.values import TypeName

_NAME = re.compile(r"[^\W\d][\w .:/()%-]*|_\w*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the first line is a header, and why. `guessed`: it may also be a row."""

    header: bool
    why: str
    guessed: bool = False


class ColumnKinds(Protocol):
    """The cells below the first line, by column."""

    def kind(self, at: int) -> TypeName:
        """The type of a column's cells."""

    def other_numbers(self, at: int) -> bool:
        """Whether a column of numbers holds one that is no year."""

    def come_again(self, fields: Sequence[str]) -> bool:
        """Whether one of some texts occurs in a column of texts."""


@dataclass(frozen=True, slots=True)
class CellsBelow:
    """The cells of a file that is read whole."""

    columns: Sequence[TextColumn | Cells]

    def kind(self, at: int) -> TypeName:
        column = self.columns[at]
        texts = isinstance(column, TextColumn) or kind_of(column[:100]) == "symbol"
        return "symbol" if texts else kind_of(column)

    def other_numbers(self, at: int) -> bool:
        return other_numbers(self.columns[at])

    def come_again(self, fields: Sequence[str]) -> bool:
        return come_again(self.columns, fields)


def verdict(
    first: Record, rows: Sequence[Sequence[str]], options: LoadOptions, below: ColumnKinds
) -> Verdict:
    """Decides whether the first line is a header. `rows`: some rows after it; `below`: all cells
    after it, which a declaration makes unnecessary."""
    declared = options.declared
    if options.header is not None:
        return Verdict(options.header, f"header={str(options.header).lower()}")
    fields = [field.strip() for field in first.fields]
    wanted = declared.columns if declared is not None else options.columns or ()
    there = set(respelled(fields, wanted)) & set(wanted)
    if wanted and there == set(wanted):
        return Verdict(True, "it has all names of the relation's columns")
    if declared is not None:
        return _as_declared(fields, rows, declared, bool(there))
    cells = [_kind_of_cell(field) for field in fields]
    names = all_names(fields) and {*cells} <= {"symbol", None}
    if all(cell == _NUMBER for cell in cells):
        return Verdict(False, "it holds numbers")
    if not any(fields):
        return Verdict(False, "it is blank")
    for at, (field, cell) in enumerate(zip(fields, cells, strict=True)):
        if cell is not None or (names and field):
            kind = below.kind(at)
            if kind != "symbol" and _GROUPS.get(kind, kind) != cell:
                return Verdict(True, f"below `{field}` stand values of type {kind}")
    if _years(fields, cells, below.kind, below.other_numbers):
        return _YEARS
    if not names:
        return Verdict(False, "it holds values")
    if not all(fields) or len(set(fields)) < len(fields) or below.come_again(fields):
        return Verdict(False, "all columns hold texts, and one of its own comes up again")
    return Verdict(True, "all columns hold texts and none of its own comes up again", True)


_NUMBER = "number"
_GROUPS = {"int": _NUMBER, "float": _NUMBER}
_YEAR = re.compile("19[0-9]{2}|20[0-9]{2}|2100")
_YEARS = Verdict(True, "its numbers are years and those below them are not", True)


def is_year(cell: str) -> bool:
    return _YEAR.fullmatch(cell) is not None


def _kind_of_cell(cell: str) -> str | None:
    """What a cell can be read as: a number, or a type; None if it is missing."""
    if cell in MISSING:
        return None
    kinds: tuple[TypeName, ...] = ("int", "float", "bool", "timestamp")
    found = next((kind for kind in kinds if cell_value(cell, kind) is not None), "symbol")
    return _NUMBER if is_big(cell) else _GROUPS.get(found, found)


def _years(
    fields: Sequence[str],
    cells: Sequence[str | None],
    kind: Callable[[int], TypeName],
    other_numbers: Callable[[int], bool],
) -> bool:
    """Whether the numbers of a line are different years, and stand above other numbers."""
    numbers = [at for at, cell in enumerate(cells) if cell == _NUMBER]
    years = {fields[at] for at in numbers if is_year(fields[at])}
    return (
        0 < len(numbers) < len(fields)
        and len(years) == len(numbers)
        and all(kind(at) in _GROUPS and other_numbers(at) for at in numbers)
    )


def other_numbers(column: TextColumn | Cells) -> bool:
    """Whether a column of numbers, as cells, holds one that is no year."""
    if isinstance(column, TextColumn):
        return False
    if isinstance(column, list):
        cells = map(str.strip, column)
        return not all(_YEAR.fullmatch(cell) or cell in MISSING for cell in cells)
    years = pc.match_substring_regex(column, rf"^\s*({_YEAR.pattern})\s*$")
    missing = pc.is_in(pc.utf8_trim_whitespace(column), arrow_texts(MISSING))
    return not pc.all(pc.or_(years, missing)).as_py()


def all_names(fields: Sequence[str]) -> bool:
    """Whether all cells are names. Some columns, such as an index, may have none."""
    return any(fields) and all(not field or _NAME.fullmatch(field) for field in fields)


def _as_declared(
    fields: Sequence[str], below: Sequence[Sequence[str]], declared: Declared, some: bool
) -> Verdict:
    as_wide = len(fields) == len(declared.types)
    typed = [at for at, kind in enumerate(declared.types) if kind != "symbol"]

    def fits(row: Sequence[str], at: int) -> bool:
        return cell_value(row[at], declared.types[at]) is not None

    if some and not (as_wide and any(fits(fields, at) for at in typed)):
        return Verdict(True, "it has names of the relation's columns")
    rows = [row for row in below if len(row) == len(fields)]
    odd = as_wide and bool(typed) and any(fields) and not any(fits(fields, at) for at in typed)
    if odd and any(all(fits(row, at) for at in typed) for row in rows):
        return Verdict(True, "it is no row of the declared types")

    def others(at: int) -> bool:
        return any(fits(row, at) and not is_year(row[at].strip()) for row in rows)

    cells = [_kind_of_cell(field) for field in fields]
    if as_wide and _years(fields, cells, declared.types.__getitem__, others):
        return _YEARS
    return Verdict(False, "it has no name of the relation's columns")


def come_again(cells: Sequence[TextColumn | Cells], fields: Sequence[str]) -> bool:
    """Whether one of these texts occurs in some columns."""
    for column in cells:
        if isinstance(column, list):
            if not set(fields).isdisjoint(column):
                return True
            continue
        if isinstance(column, TextColumn):
            assert column.spelled is not None
            if np.isin(column.numbers, column.spelled.add(fields)).any():
                return True
            continue

        if pc.any(pc.is_in(column, arrow_texts(fields))).as_py():
            return True
    return False


def tell(found: Verdict, first: Record, options: LoadOptions) -> None:
    """Reports the decision to the log and the prompt, and as a warning if it is a guess."""
    what = "is the header" if found.header else "is a row"
    log = logging.getLogger("gdatalog")
    log.info("%s: the first line %s: %s", options.what, what, found.why)
    if options.findings is None:
        return
    options.findings.header = found.header
    if found.guessed:
        line = first.text if len(first.text) <= 60 else first.text[:57] + "..."
        options.findings.guess = Caution(
            f"{options.what}: the first line, `{line}`, is taken for the header, for {found.why}",
            hint="header=false takes it for a row, header=true for the header",
        )


def header_names(first: Record, text: Delimited, options: LoadOptions) -> tuple[str, ...]:
    """The names of a header, spelled as in the declaration. No name may occur twice."""
    fields = [field.strip() for field in first.fields]
    declared = options.declared
    names = respelled(fields, declared.columns) if declared is not None else fields
    filled = tuple(name or default_name(at) for at, name in enumerate(names))
    if options.columns is None:
        places: dict[str, int] = {}
        for at, name in enumerate(filled):
            before = places.setdefault(name, at)
            if before != at:
                raise DataError(
                    f"two columns are named {name!r}",
                    text.span(first, at),
                    notes=[Note("the other one is here", text.span(first, before))],
                    hint="rename one; or name all columns, columns=[...]; header=false takes this "
                    "line for a row",
                )
    return filled
