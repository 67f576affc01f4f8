"""A tree for a terminal: lines that guide the eye down, numbers in columns at the right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from gdatalog.report.tree import Node, Table
from gdatalog.report.words import about

WIDTH = 100
NARROWEST = 40  # what labels have of it at the least
GAP = 2  # between columns
BARS = "▁▂▃▄▅▆▇█"
WIDEST = 60  # bars of a row
SHARES = "▏▎▍▌▋▊▉█"
SHARE_WIDTH = 5
STAYS = "\N{NO-BREAK SPACE}"  # where a line is not broken


@dataclass(frozen=True, slots=True)
class Row:
    """A line before it is laid out: guides before it, and before what of it goes on below.

    `cells` are numbers at the right, by column; without them a line may be as long as all.
    """

    text: str
    first: str
    rest: str
    cells: dict[str, str]
    whole: bool = False  # never broken: part of a table


def text(root: Node, width: int = WIDTH) -> str:
    """The tree as lines of at most this width, where single words are not longer.

    >>> leaf = Node("level", "y in E(x, [y])", estimate=1234.0)
    >>> rule = Node("rule", "p(x) <- E(x, y).", children=(leaf,))
    >>> print(text(Node("plan", "on cpu", children=(rule,))))
    on cpu             expected
    p(x) <- E(x, y).
    └ y in E(x, [y])     ~1,200
    """
    rows = [*_rows(root)]
    names = [name for name in _COLUMNS if any(name in row.cells for row in rows)]
    widths = {
        name: max(len(_TITLES[name]), *(len(row.cells.get(name, "")) for row in rows))
        for name in names
    }
    right = sum(size + GAP for size in widths.values())
    most = max(NARROWEST, width - right)
    laid = [(row, _broken(row, most if row.cells else max(most, width))) for row in rows]
    numbered = [len(line) for row, lines in laid if row.cells for line in lines]
    left = max([len(lines[0]) for row, lines in laid[:1]] + numbered, default=0)
    out = []
    titles = {name: _TITLES[name] for name in names}
    for at, (row, lines) in enumerate(laid):
        cells = row.cells or (titles if at == 0 else {})
        first, *others = lines
        if cells and len(first) > left:  # a first line that is longer than what has numbers
            first, others = first, [*others]
        out += [_line(first, cells, widths, left), *(line.rstrip() for line in others)]
    return "\n".join(out)


_TITLES = {
    "estimate": "expected",
    "actual": "bindings",
    "tried": "tried",
    "seconds": "ms",
    "share": "share",
    "bar": "",
    "marks": "",
}
_COLUMNS = tuple(_TITLES)
_LEFT = frozenset({"bar", "marks"})


def _line(first: str, cells: dict[str, str], widths: dict[str, int], left: int) -> str:
    parts = [first.ljust(left)]
    for name, size in widths.items():
        cell = cells.get(name, "")
        parts.append(" " * GAP + (cell.ljust(size) if name in _LEFT else cell.rjust(size)))
    return "".join(parts).rstrip()


def _cells(node: Node) -> dict[str, str]:
    cells = {}
    if node.estimate is not None:
        cells["estimate"] = about(node.estimate)
    if node.actual is not None:
        cells["actual"] = f"{node.actual:,}"
    if node.tried:
        cells["tried"] = f"{node.tried:,}"
    if node.seconds is not None:
        cells["seconds"] = f"{node.seconds * 1000:,.1f}"
    if node.share is not None:
        cells["share"] = f"{node.share:.0%}"
        cells["bar"] = share_bar(node.share)
    if node.marks:
        cells["marks"] = "◀ " + ", ".join(node.marks)
    return cells


def _rows(root: Node) -> Iterator[Row]:
    """The root, and what is below it at the same margin."""
    cells = {k: v for k, v in _cells(root).items() if k not in ("seconds", "share", "bar")}
    yield Row(root.label, "", "  ", cells)
    yield from (Row(detail, "  ", "  ", {}) for detail in root.details)
    for child in root.children:
        yield from _below(child, "", "")


def _below(node: Node, first: str, rest: str) -> Iterator[Row]:
    """A node with its guides: before its own line, and before all that comes after it."""
    beside = rest + ("│ " if node.children else "  ")
    label = f"{node.label}: {sparkline(node.series)}" if node.series else node.label
    folded = node.kind == "index"  # short: all on one line
    if folded and node.details:
        label = f"{label}: {', '.join(node.details)}"
    yield Row(label, first, beside + "  ", {} if folded else _cells(node))
    for detail in () if folded else node.details:
        yield Row(detail, beside, beside + "  ", {})
    if node.table is not None:
        yield from (Row(line, beside, beside, {}, True) for line in table_lines(node.table))
    for at, child in enumerate(node.children):
        last = at == len(node.children) - 1
        yield from _below(child, rest + ("└ " if last else "├ "), rest + ("  " if last else "│ "))


def _broken(row: Row, width: int) -> list[str]:
    """A row in lines: between words, and not inside of brackets if that can be."""
    if row.whole or len(row.first) + len(row.text) <= width:
        return [row.first + row.text]
    room = max(20, width - len(row.rest), width - len(row.first))
    kept = _within.sub(lambda found: found[0].replace(" ", STAYS), row.text)
    lines = wrap(kept, max(20, width - max(len(row.first), len(row.rest))), break_long_words=False,
                 break_on_hyphens=False)  # fmt: skip
    if any(len(line) > room for line in lines):
        lines = wrap(row.text, room, break_long_words=False, break_on_hyphens=False)
    lines = [line.replace(STAYS, " ") for line in lines]
    return [row.first + lines[0], *(row.rest + line for line in lines[1:])]


_within = re.compile(r"[(\[{][^()\[\]{}]*(?:[(\[{][^()\[\]{}]*[)\]}][^()\[\]{}]*)*[)\]}]")


def share_bar(share: float) -> str:
    """A part of all as a bar of eighths.

    >>> share_bar(0.5), share_bar(0.001), share_bar(1.0)
    ('██▌', '▏', '█████')
    """
    eighths = max(1, round(min(1.0, share) * SHARE_WIDTH * 8)) if share > 0 else 0
    whole, part = divmod(eighths, 8)
    return SHARES[-1] * whole + (SHARES[part - 1] if part else "")


def sparkline(values: Sequence[int]) -> str:
    """A bar for each value; where there are many, for the largest of several. 0 is a dot.

    >>> sparkline([1, 4, 8, 2, 0])
    '▁▄█▂·'
    """
    step = -(-len(values) // WIDEST) or 1
    tops = [max(values[at : at + step]) for at in range(0, len(values), step)]
    most = max(tops, default=0)
    return "".join(BARS[-(-top * len(BARS) // most) - 1] if top else "·" for top in tops)


def table_lines(table: Table) -> list[str]:
    """A table's columns and rows, aligned.

    >>> table_lines(Table(("round", "by"), ((1, "loops"), (10, "loops"))))
    ['round  by', '    1  loops', '   10  loops']
    """
    cells = [tuple(map(str, table.columns))]
    cells += [tuple("" if cell is None else cell_text(cell) for cell in row) for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = [cell.rjust(size) for cell, size in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*parts, row[-1]]).rstrip())
    return lines


def cell_text(cell: str | int | float) -> str:
    return f"{cell:,}" if isinstance(cell, (int, float)) else cell
