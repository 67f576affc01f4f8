"""Formats answers as a box on a terminal, or as a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol, Self

from gdatalog.cancellation import current_watch
from gdatalog.decimals import DECIMALS
from gdatalog.progress import amount
from gdatalog.storage.as_text import cell_texts
from gdatalog.storage.table import Table
from gdatalog.terminal_text import cut, visible, visible_html, width

WIDEST = 48  # maximum width of a column
NARROWEST = 6  # minimum width when a box is fitted to a terminal
AT_ONCE = 10_000  # rows formatted at a time
LOOKED_AT = 2000  # characters of a text considered for a cell
NUMBERS = frozenset({"int", "float", *DECIMALS})
LONGEST = 200  # maximum characters of a cell in a notebook's table
FAINT = "opacity:0.65"
SHAPE = "font-variant-numeric:tabular-nums"  # digits of equal width


class ShownRows(Protocol):
    """The interface of results that can be shown."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def dtypes(self) -> tuple[str, ...]: ...
    @property
    def limit(self) -> int | None: ...
    def __len__(self) -> int: ...
    def table(self) -> Table: ...
    def _part(self, start: int, stop: int) -> Self: ...
    def _picked(self, n: int) -> tuple[Self, Self]: ...


NULL = "null"  # a missing value


def _rows(result: ShownRows) -> list[list[str | None]]:
    """The rows as texts; None for a null."""
    table = result.table()
    columns = [cell_texts(kind, col) for kind, col in zip(table.types, table.columns, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def text_rows(result: ShownRows) -> Iterator[list[str]]:
    """The rows as texts, formatted in batches; the call can be cancelled between these."""
    for start in range(0, len(result), AT_ONCE):
        current_watch().poll()
        whole = len(result) <= AT_ONCE
        for row in _rows(result if whole else result._part(start, start + AT_ONCE)):
            yield [NULL if cell is None else cell for cell in row]


def box_lines(
    result: ShownRows, most: int, columns: int | None = None, took: str | None = None
) -> Iterator[str]:
    """A table with lines: the first and last rows, `most` in all, the number of rows and the time.

    `columns` is the terminal's width. For a file it is None, and only very long cells are cut. An
    iterator of its lines, because a file's box is as long as the answer.
    """
    told = [f"limit {result.limit:,}"] if result.limit is not None else []
    told += [] if took is None else [took]
    took = f" ({', '.join(told)})" if told else ""
    if not result.columns:
        yield ("yes" if result else "no") + took
        return
    first, last = result._picked(most)
    longest_text = max(LOOKED_AT, columns or 0)

    def line(text: str) -> str:
        return visible(text if len(text) <= longest_text else text[:longest_text] + "…")

    def rows_of(part: ShownRows) -> Iterator[list[str]]:
        return ([line(cell) for cell in row] for row in text_rows(part))

    names = [line(name) for name in result.columns]
    longest = [0] * len(names)
    for row in chain(rows_of(first), rows_of(last)):
        longest = [max(size, width(cell)) for size, cell in zip(longest, row, strict=True)]
    # Texts may be cut, numbers not: a part of a number is another number.
    least = [
        1 if kind == "symbol" else size for kind, size in zip(result.dtypes, longest, strict=True)
    ]
    natural = [max(1, width(name), size) for name, size in zip(names, longest, strict=True)]
    places, sizes = _fit(natural, least, columns)
    left_out = len(natural) - sum(at is not None for at in places)

    def ruler(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (size + 2) for size in sizes) + right

    def row_text(row: Sequence[str]) -> str:
        parts = []
        for at, size in zip(places, sizes, strict=True):
            text = cut("…" if at is None else row[at], size)
            pad = " " * (size - width(text))
            number = at is not None and result.dtypes[at] in NUMBERS
            parts.append(pad + text if number else text + pad)
        return "│ " + " │ ".join(parts) + " │"

    yield from (ruler("┌", "┬", "┐"), row_text(names), ruler("├", "┼", "┤"))
    yield from map(row_text, rows_of(first))
    if len(first) + len(last) < len(result):
        yield row_text(["…"] * len(natural))
    yield from map(row_text, rows_of(last))
    count = amount(len(result), "rows")
    if left_out:
        count += f"; {left_out} of {len(natural)} columns do not fit"
    yield from (ruler("└", "┴", "┘"), count + took)


def _fit(
    natural: list[int], least: list[int], columns: int | None
) -> tuple[list[int | None], list[int]]:
    """The columns of a box that fit the terminal, None for a gap, and their widths: the natural
    width, at least `least`, if there is room.

    Wide columns are narrowed before columns are left out, those in the middle first.
    """
    every: list[int | None] = list(range(len(natural)))

    def sizes_of(places: list[int | None], limit: int) -> list[int]:
        return [1 if at is None else max(least[at], min(natural[at], limit)) for at in places]

    widest = max(natural)
    if columns is None:
        return every, sizes_of(every, min(widest, WIDEST))
    narrowest = min(widest, NARROWEST)
    for kept in range(len(every), 0, -1):
        places = every
        if kept < len(every):
            places = [*every[: (kept + 1) // 2], None, *every[len(every) - kept // 2 :]]
        for limit in range(min(widest, columns), narrowest - 1, -1):
            sizes = sizes_of(places, limit)
            if sum(sizes) + 3 * len(sizes) + 1 <= columns:
                return places, sizes
    return places, sizes_of(places, narrowest)


def html(result: ShownRows, most: int) -> str:
    """An HTML table for notebooks: names and types, the first and last rows, and their number."""
    if not result.columns:
        return f"<b>{'yes' if result else 'no'}</b>"
    first, last = result._picked(most)
    rows = [*_rows(first), *([None, *_rows(last)] if len(last) else [])]
    table = html_table(result.columns, result.dtypes, rows)
    limit = "" if result.limit is None else f" (limit {result.limit:,})"
    return f'{table}<small style="{FAINT}">{amount(len(result), "rows")}{limit}</small>'


def html_table(
    names: Sequence[str],
    kinds: Sequence[str],
    rows: Sequence[Sequence[str | None] | None],
    *,
    types: bool = True,
) -> str:
    """An HTML table with a header of names and `types`; a row of None is a gap, a cell of None a
    null. Numbers are right-aligned.

    It sets no colours, so it follows the page's theme; notebooks style its class as data.
    """
    sides = ["right" if kind in NUMBERS else "left" for kind in kinds]
    wrapped = ["" if kind == "symbol" else ";white-space:nowrap" for kind in kinds]
    styles = [
        f' style="text-align:{side}{wrap}"' for side, wrap in zip(sides, wrapped, strict=True)
    ]
    parts = [f'<table class="dataframe" style="{SHAPE}"><thead><tr>']
    for name, kind, style in zip(names, kinds, styles, strict=True):
        below = f'<br><small style="font-weight:normal;{FAINT}">{visible_html(kind)}</small>'
        parts.append(f"<th{style}>{visible_html(name)}{below if types else ''}</th>")
    parts.append("</tr></thead><tbody>")
    for row in rows:
        shown = ["…"] * len(styles) if row is None else list(map(_html_cell, row))
        cells = zip(shown, styles, strict=True)
        parts.append(f"<tr>{''.join(f'<td{style}>{cell}</td>' for cell, style in cells)}</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def _html_cell(text: str | None) -> str:
    return (
        f'<span style="{FAINT}">{NULL}</span>' if text is None else visible_html(_shortened(text))
    )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
