"""A plan as a tree of plain data, before it is drawn; and numbers as reports show them.

Who draws it (`text`, and `shown`) knows nothing of the engine; who builds it (`plan_tree`,
`profile_tree`) knows nothing of terminals and pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from textwrap import wrap
from typing import Any, Literal

from gdatalog.records import dataclass, fields, replace
from gdatalog.values import visible
from gdatalog.values import width as shown_width

Kind = Literal[
    "plan",  # the root
    "pass",  # of the planner, with the rules that it changed
    "costliest",  # the rules that took most
    "costly rule",
    "stratum",
    "rule",
    "plan of a rule",  # one of several plans: before recursion, in its rounds, or replanned
    "alternative",
    "term",  # a join of a signed sum
    "given",  # for each new row of a relation
    "level",  # a step that binds a variable to each of several values
    "step",  # any other step
    "branch",  # a negation, a witness, a count or an aggregate
    "or",  # one of several alternatives of a branch
    "end",  # what the plan does with complete bindings
    "indexes",
    "index",
    "memory",
    "rounds",
    "note",
]
Fact = str | int | float | bool | None
Facts = tuple[tuple[str, Fact], ...]
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows under column names; numbers are right-aligned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True, slots=True)
class ReportNode:
    """One item of a plan, and its children.

    `details` are more lines of text. `estimate` and `actual` are expected and actual bindings;
    `tried` the values tried for them. `seconds` were spent here, a `share` of the total. `marks`
    flag what to look at: a wrong estimate, a step that was not reached. `series` are numbers to
    draw as bars. `facts` are the details by name, for programs.
    """

    kind: Kind
    label: str
    details: tuple[str, ...] = ()
    estimate: float | None = None
    actual: int | None = None
    tried: int | None = None
    seconds: float | None = None
    share: float | None = None
    marks: tuple[str, ...] = ()
    series: tuple[int, ...] = ()
    table: TextTable | None = None
    facts: Facts = ()
    children: tuple[ReportNode, ...] = ()

    def walk(self) -> Iterator[ReportNode]:
        """Iterates over this node and its descendants in reading order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, kind: Kind) -> list[ReportNode]:
        """Returns all nodes of a kind.

        >>> tree = ReportNode("plan", "on cpu", children=(ReportNode("stratum", "stratum 1: p"),))
        >>> [node.label for node in tree.find("stratum")]
        ['stratum 1: p']
        """
        return [node for node in self.walk() if node.kind == kind]

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, strings and numbers, without empty fields.

        >>> ReportNode("level", "x in E([x], y)", estimate=3.0).to_dict()
        {'kind': 'level', 'label': 'x in E([x], y)', 'estimate': 3.0}
        """
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value == ():
                continue
            if field.name == "facts":
                value = dict(value)
            elif field.name == "children":
                value = [child.to_dict() for child in value]
            elif isinstance(value, TextTable):
                value = value.to_dict()
            found[field.name] = list(value) if isinstance(value, tuple) else value
        return found


def facts(**named: Fact) -> Facts:
    return tuple(named.items())


# Numbers as reports show them.

STAYS = "\N{NO-BREAK SPACE}"
FAR = 10.0  # factor from which an estimate counts as wrong


def about(number: float) -> str:
    """An estimate, rounded to two digits.

    >>> about(2.84), about(1234.5), about(3e15), about(4e-6)
    ('~2.8', '~1,200', '~3e+15', '~0')
    """
    if number < 0.01:
        return "~0"
    many = float(f"{number:.2g}")
    return f"~{many:.2g}" if many < 10 or many >= 1e12 else f"~{many:,.0f}"


def many(count: float, what: str) -> str:
    """
    >>> many(1, "round"), many(2000, "row"), many(3, "entry"), many(2, "stratum")
    ('1 round', '2,000 rows', '3 entries', '2 strata')
    """
    if count == 1:
        return f"1 {what}"
    several = {"y": f"{what[:-1]}ies", "um": f"{what[:-2]}a"}
    ends = (plural for ending, plural in several.items() if what.endswith(ending))
    return f"{count:,.0f} {next(ends, f'{what}s')}"


def took(seconds: float) -> str:
    """
    >>> took(0.00012), took(0.5), took(75.25)
    ('0.12 ms', '500 ms', '75.2 s')
    """
    if seconds < 1.0:
        thousandths = seconds * 1000
        return f"{thousandths:.2g} ms" if thousandths < 10 else f"{thousandths:.0f} ms"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s"


def per_second(rows: float, seconds: float) -> str:
    """
    >>> per_second(3_000_000, 2.0), per_second(10, 2.0)
    ('1.5 million rows/s', '5 rows/s')
    """
    rate = rows / seconds
    for scale, name in ((1e9, "billion "), (1e6, "million ")):
        if rate >= scale:
            return f"{rate / scale:.2g} {name}rows/s"
    return f"{float(f'{rate:.2g}'):,.0f} rows/s"


def wrong_by(estimate: float, actual: float) -> str | None:
    """By what factor an estimate was wrong, if by ten or more.

    >>> wrong_by(3.0, 400), wrong_by(5000.0, 20), wrong_by(3.0, 8), wrong_by(0.01, 0)
    ('▲ 130x', '▼ 250x', None, None)
    """
    expected, came = max(1.0, estimate), max(1.0, float(actual))
    times = max(came / expected, expected / came)
    if times < FAR:
        return None
    shown = float(f"{times:.2g}")
    written = f"{shown:,.0f}" if shown < 1e9 else f"{shown:.2g}"
    return f"{'▲' if came > expected else '▼'} {written}x"


def unbroken(text: str) -> str:
    """Replaces spaces within brackets by no-break spaces.

    >>> unbroken("x in E([x], y) and F(x)").split(" ")
    ['x', 'in', 'E([x], y)', 'and', 'F(x)']
    """
    depth, out = 0, []
    for ch in text:
        depth += (ch in "([{") - (ch in ")]}")
        out.append(STAYS if ch == " " and depth > 0 else ch)
    return "".join(out)


# A tree for a terminal: guide lines on the left, aligned numbers on the right.


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
