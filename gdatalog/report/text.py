"""A tree for a terminal: guide lines on the left, aligned numbers on the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from textwrap import wrap

from gdatalog.records import dataclass, replace
from gdatalog.report.numbers import STAYS, about, unbroken
from gdatalog.report.tree import Cell, Kind, ReportNode, TextTable
from gdatalog.terminal_text import visible
from gdatalog.terminal_text import width as shown_width

WIDTH = 100
NARROWEST = 30  # columns that labels get at least
GAP = 2  # between columns
SHORT = 0.1  # seconds
BARS = "▁▂▃▄▅▆▇█"
WIDEST = 60  # bars of a row
SHARES = "▏▎▍▌▋▊▉█"
SHARE_WIDTH = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A line before layout: the guides before it, and before its continuation lines.

    `cells` are numbers by column; a line without them may use the whole width.
    """

    text: str
    first: str
    rest: str
    cells: dict[str, str]
    whole: bool = False  # never wrapped: part of a table


def text(root: ReportNode, width: int = WIDTH) -> str:
    """Returns the tree as lines of at most this width, unless a single word is longer.

    >>> leaf = ReportNode("level", "y in E(x, [y])", estimate=1234.0)
    >>> rule = ReportNode("rule", "p(x) <- E(x, y).", children=(leaf,))
    >>> print(text(ReportNode("plan", "on cpu", children=(rule,))))
    on cpu            expected
    p(x) <- E(x, y).
    └ y in E(x, [y])    ~1,200
    """
    rows = [replace(row, text=visible(row.text)) for row in _rows(root)]
    names = [name for name in _TITLES if any(name in row.cells for row in rows)]
    widths = {
        name: max(len(_TITLES[name]), *(len(row.cells.get(name, "")) for row in rows))
        for name in names
    }
    most = max(NARROWEST, width - sum(size + GAP for size in widths.values()))
    laid = []
    left = 0
    for at, row in enumerate(rows):
        if at == 0:
            row = replace(row, cells={name: _TITLES[name] for name in names})
        # A line may use all space before its first number.
        before = 0
        for name in names:
            if row.cells.get(name):
                break
            before += widths[name] + GAP
        lines = _broken(row, most + before if row.cells else width)
        laid.append((row, lines))
        left = max(left, shown_width(lines[0]) - before if row.cells else 0)
    out = []
    for row, (first, *others) in laid:
        out += [_line(first, row.cells, widths, left), *others]
    return "\n".join(out)


_TITLES = {
    "estimate": "expected",
    "actual": "bindings",
    "tried": "tried",
    "seconds": "ms",
    "share": "share",
    "marks": "",
}
_LEFT = frozenset({"share", "marks"})
# Nodes whose short details follow the label on its line, after this.
_JOINED: dict[Kind, str] = {"index": ": ", "level": ", ", "step": ", ", "branch": ", "}


def _line(first: str, cells: dict[str, str], widths: dict[str, int], left: int) -> str:
    parts = [" " * left]
    for name, size in widths.items():
        cell = cells.get(name, "")
        parts.append(" " * GAP + (cell.ljust(size) if name in _LEFT else cell.rjust(size)))
    return (first + "".join(parts)[shown_width(first) :]).rstrip()


def number_cells(node: ReportNode, short: bool) -> dict[str, str]:
    """A node's numbers by column, and its marks. `short`: times were so short that hundredths of a
    millisecond matter."""
    cells = {}
    if node.estimate is not None:
        cells["estimate"] = about(node.estimate)
    if node.actual is not None:
        cells["actual"] = f"{node.actual:,}"
    if node.tried:
        cells["tried"] = f"{node.tried:,}"
    if node.seconds is not None:
        cells["seconds"] = f"{node.seconds * 1000:,.{2 if short else 1}f}"
    if node.share is not None:
        cells["share"] = f"{node.share:4.0%} {share_bar(node.share):{SHARE_WIDTH}}"
    if node.marks:
        cells["marks"] = ", ".join(node.marks)
    return cells


def _rows(root: ReportNode) -> Iterator[Row]:
    """The root and its children at the same indentation."""
    short = root.seconds is not None and root.seconds < SHORT
    yield Row(root.label, "", "  ", {})
    yield from (Row(detail, "  ", "  ", {}) for detail in root.details)
    for child in root.children:
        yield from _below(child, "", "", partial(number_cells, short=short))


def _below(
    node: ReportNode, first: str, rest: str, cells: Callable[[ReportNode], dict[str, str]]
) -> Iterator[Row]:
    """A node with its guides: before its own line, and before its descendants."""
    beside = rest + ("│ " if node.children else "  ")
    label = f"{node.label}: {sparkline(node.series)}" if node.series else node.label
    joined = _JOINED.get(node.kind)
    if joined is not None:
        label = joined.join((label, *(detail.replace(" ", STAYS) for detail in node.details)))
    yield Row(label, first, beside + "  ", {} if node.kind == "index" else cells(node))
    for detail in node.details if joined is None else ():
        yield Row(detail, beside, beside + "  ", {})
    if node.table is not None:
        yield from (Row(line, beside, beside, {}, True) for line in table_lines(node.table))
    for at, child in enumerate(node.children):
        last = at == len(node.children) - 1
        guides = ("└ ", "  ") if last else ("├ ", "│ ")
        yield from _below(child, rest + guides[0], rest + guides[1], cells)


def _broken(row: Row, width: int) -> list[str]:
    """Wraps a row between words, outside brackets where possible."""
    if row.whole or shown_width(row.first + row.text) <= width:
        return [row.first + row.text.replace(STAYS, " ")]
    room = max(20, width - len(row.rest), width - len(row.first))
    kept = unbroken(row.text)
    lines = wrap(kept, max(20, width - max(len(row.first), len(row.rest))), break_long_words=False,
                 break_on_hyphens=False)  # fmt: skip
    if any(len(line) > room for line in lines):
        lines = wrap(
            row.text.replace(STAYS, " "), room, break_long_words=False, break_on_hyphens=False
        )
    lines = [line.replace(STAYS, " ") for line in lines]
    return [row.first + lines[0], *(row.rest + line for line in lines[1:])]


def share_bar(share: float) -> str:
    """A share as a bar of eighths.

    >>> share_bar(0.5), share_bar(0.001), share_bar(1.0)
    ('██▌', '▏', '█████')
    """
    eighths = max(1, round(min(1.0, share) * SHARE_WIDTH * 8)) if share > 0 else 0
    whole, part = divmod(eighths, 8)
    return SHARES[-1] * whole + (SHARES[part - 1] if part else "")


def sparkline(values: Sequence[int]) -> str:
    """A bar for each value; long series show the maximum of neighbours. 0 is a dot.

    >>> sparkline([1, 4, 8, 2, 0])
    '▁▄█▂·'
    """
    step = -(-len(values) // WIDEST) or 1
    tops = [max(values[at : at + step]) for at in range(0, len(values), step)]
    most = max(tops, default=0)
    return "".join(BARS[-(-top * len(BARS) // most) - 1] if top else "·" for top in tops)


def table_lines(table: TextTable) -> list[str]:
    """Aligns a table's columns.

    >>> table_lines(TextTable(("round", "by"), ((1, "loops"), (10, "loops"))))
    ['round  by', '    1  loops', '   10  loops']
    """
    cells = [tuple(map(str, table.columns))]
    cells += [tuple(map(cell_text, row)) for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = [cell.rjust(size) for cell, size in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*parts, row[-1]]).rstrip())
    return lines


def cell_text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, (int, float)) else visible(cell or "")
