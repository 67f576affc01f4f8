"""Answers as people see them: a box on a terminal, a table in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from gdatalog.storage.table import Column, Texts
from gdatalog.values import TypeName, timestamp_to_text

if TYPE_CHECKING:
    from gdatalog.result import Result

WIDEST = 48  # a column's cells are cut behind this many characters
NUMBERS = frozenset({"int", "float"})


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
    plain = "".join(ch if ch.isprintable() else "\N{SYMBOL FOR NEWLINE}" for ch in text)
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def count_line(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def box(result: Result, most: int, width: int | None = None) -> str:
    """A table drawn with lines: the first and last rows, and how many there are."""
    if not result.columns:
        return "yes" if result else "no"
    first, last = result._picked(most)
    top, bottom = _rows(first), _rows(last) if len(last) else []
    limit = WIDEST
    if width is not None:
        limit = max(6, min(WIDEST, (width - 3 * len(result.columns) - 1) // len(result.columns)))
    rows = [[_cut(cell, limit) for cell in row] for row in (*top, *bottom)]
    names = [_cut(name, limit) for name in result.columns]
    widths = [
        max(len(name), *(len(row[at]) for row in rows), 1) if rows else len(name)
        for at, name in enumerate(names)
    ]

    def line(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (size + 2) for size in widths) + right

    def row_text(row: list[str]) -> str:
        placed = (
            cell.rjust(size) if kind in NUMBERS else cell.ljust(size)
            for cell, size, kind in zip(row, widths, result.dtypes, strict=True)
        )
        return "│ " + " │ ".join(placed) + " │"

    out = [line("┌", "┬", "┐"), row_text(names), line("├", "┼", "┤")]
    out += map(row_text, rows[: len(top)])
    if bottom:
        out.append(row_text([_cut("…", size) for size in widths]))
        out += map(row_text, rows[len(top) :])
    out += [line("└", "┴", "┘"), count_line(len(result))]
    return "\n".join(out)


def html(result: Result, most: int) -> str:
    """A table for notebooks."""
    if not result.columns:
        return f"<b>{'yes' if result else 'no'}</b>"
    first, last = result._picked(most)
    parts = ["<table><thead><tr>"]
    parts += [f"<th>{escape(name)}</th>" for name in result.columns]
    parts.append("</tr></thead><tbody>")
    align = ["right" if kind in NUMBERS else "left" for kind in result.dtypes]

    def add(rows: list[list[str]]) -> None:
        for row in rows:
            parts.append("<tr>")
            parts.extend(
                f'<td style="text-align:{side}">{escape(cell)}</td>'
                for cell, side in zip(row, align, strict=True)
            )
            parts.append("</tr>")

    add(_rows(first))
    if len(last):
        parts.append(f'<tr><td colspan="{len(align)}">…</td></tr>')
        add(_rows(last))
    parts.append(f"</tbody></table><small>{count_line(len(result))}</small>")
    return "".join(parts)
