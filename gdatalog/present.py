"""Answers as people see them: a box on a terminal, a table in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from gdatalog.storage.table import Column, Texts
from gdatalog.values import TypeName, timestamp_to_text

if TYPE_CHECKING:
    from gdatalog.result import Result

WIDEST = 48  # a column's cells are cut behind this many characters
NARROWEST = 6  # but no shorter than this, to fit a terminal
NUMBERS = frozenset({"int", "float"})
LONGEST = 200  # a cell of a notebook's table is cut behind this many characters
FAINT = "opacity:0.65"
SHAPE = "font-variant-numeric:tabular-nums"  # digits below digits


def cells(kind: TypeName, column: Column) -> list[str]:
    """A column as texts, as a person would write its values."""
    if isinstance(column, Texts):
        return [str(text) for text in column.decode().tolist()]
    values: list[Any] = column.tolist()
    if kind == "bool":
        return ["true" if value else "false" for value in values]
    if kind == "timestamp":
        return [timestamp_to_text(value) for value in values]
    return [repr(value) for value in values]


def _rows(result: Result) -> list[list[str]]:
    table = result.table()
    columns = [cells(kind, col) for kind, col in zip(table.types, table.columns, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _cut(text: str, width: int) -> str:
    """The text on one line, at most `width` cells of a terminal wide."""
    plain = "".join(ch if ch.isprintable() else "\N{SYMBOL FOR NEWLINE}" for ch in text)
    if _width(plain) <= width:
        return plain
    room = width - 1
    for at, ch in enumerate(plain):
        room -= _width(ch)
        if room < 0:
            return plain[:at] + "…"
    return plain


def _width(text: str) -> int:
    """How many cells of a terminal a text takes: Chinese, for one, takes two a character."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(ch) else 2 if east_asian_width(ch) in "WF" else 1 for ch in text)


def count_line(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _fit(natural: list[int], width: int | None) -> tuple[list[int | None], int]:
    """Which columns a box of this width shows, None for those left out; how wide a cell may be.

    Wide columns are made narrower before any is left out, those in the middle first.
    """
    every: list[int | None] = list(range(len(natural)))
    widest = max(natural)
    if width is None:
        return every, min(widest, WIDEST)
    narrowest = min(widest, NARROWEST)
    for kept in range(len(every), 0, -1):
        places = every
        if kept < len(every):
            places = [*every[: (kept + 1) // 2], None, *every[len(every) - kept // 2 :]]
        sizes = [1 if at is None else natural[at] for at in places]
        for limit in range(widest, narrowest - 1, -1):
            if sum(min(size, limit) for size in sizes) + 3 * len(sizes) + 1 <= width:
                return places, limit
    return places, narrowest


def box(result: Result, most: int, width: int | None = None) -> str:
    """A table drawn with lines: the first and last rows, and how many there are."""
    if not result.columns:
        return "yes" if result else "no"
    first, last = result._picked(most)
    top, bottom = _rows(first), _rows(last) if len(last) else []
    rows = [*top, *bottom]
    natural = [
        max(1, *(min(_width(text), 10 * WIDEST) for text in (name, *(row[at] for row in rows))))
        for at, name in enumerate(result.columns)
    ]
    places, limit = _fit(natural, width)
    widths = [1 if at is None else min(natural[at], limit) for at in places]
    left_out = len(natural) - sum(at is not None for at in places)

    def line(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (size + 2) for size in widths) + right

    def row_text(row: Sequence[str]) -> str:
        parts = []
        for at, size in zip(places, widths, strict=True):
            text = "…" if at is None else _cut(row[at], size)
            pad = " " * (size - _width(text))
            number = at is not None and result.dtypes[at] in NUMBERS
            parts.append(pad + text if number else text + pad)
        return "│ " + " │ ".join(parts) + " │"

    out = [line("┌", "┬", "┐"), row_text(result.columns), line("├", "┼", "┤")]
    out += map(row_text, top)
    if bottom:
        out.append(row_text(["…"] * len(natural)))
        out += map(row_text, bottom)
    count = count_line(len(result))
    if left_out:
        count += f"; {left_out} of {len(natural)} columns do not fit"
    out += [line("└", "┴", "┘"), count]
    return "\n".join(out)


def html(result: Result, most: int) -> str:
    """A table for notebooks: names and types, the first and last rows, and how many there are."""
    if not result.columns:
        return f"<b>{'yes' if result else 'no'}</b>"
    first, last = result._picked(most)
    gap: list[list[str] | None] = [None] if len(last) else []
    rows = [*_rows(first), *gap, *(_rows(last) if len(last) else [])]
    table = html_table(result.columns, result.dtypes, rows)
    return f'{table}<small style="{FAINT}">{count_line(len(result))}</small>'


def html_table(
    names: Sequence[str],
    kinds: Sequence[str],
    rows: Sequence[Sequence[str] | None],
    *,
    types: bool = True,
) -> str:
    """Rows under names, and under the names their `types`; None is a gap. Numbers stand on the
    right.

    It has no colours of its own, so that it is as light or dark as the page; the class is the one
    by which notebooks know tables of data.
    """
    sides = ["right" if kind in NUMBERS else "left" for kind in kinds]
    styles = [f' style="text-align:{side}"' for side in sides]
    parts = [f'<table class="dataframe" style="{SHAPE}"><thead><tr>']
    for name, kind, style in zip(names, kinds, styles, strict=True):
        below = f'<br><small style="font-weight:normal;{FAINT}">{escape(kind)}</small>'
        parts.append(f"<th{style}>{escape(name)}{below if types else ''}</th>")
    parts.append("</tr></thead><tbody>")
    for row in rows:
        shown = ["…"] * len(styles) if row is None else [escape(_shortened(cell)) for cell in row]
        cells = zip(shown, styles, strict=True)
        parts.append(f"<tr>{''.join(f'<td{style}>{cell}</td>' for cell, style in cells)}</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
