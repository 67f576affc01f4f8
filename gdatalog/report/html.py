"""A tree as HTML or as a mermaid flowchart. The HTML needs no script and no other file.

A fragment has its own scoped style. It follows the browser's or the notebook's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import log10
from pathlib import Path

from gdatalog.report.folded import folded
from gdatalog.report.tree import STAYS, Cell, Kind, ReportNode, TextTable, about, took, unbroken
from gdatalog.values import visible, visible_html

_LIGHT = "--ink: #1f2933; --soft: #667382; --line: #d9dfe5; --ground: #ffffff; --raised: #f5f7f9; \
--guessed: #b6c4d2; --came: #2a9d8f; --spent: #4c78c9; --mark: #b4450f; --mark-ground: #fdeee4; \
color-scheme: light;"
_DARK = "--ink: #dde3e9; --soft: #94a1ae; --line: #39424c; --ground: #171b20; --raised: #20262d; \
--guessed: #51606f; --came: #3fb8a8; --spent: #6d9bec; --mark: #ff9d6b; --mark-ground: #43291a; \
color-scheme: dark;"
WIDEST_SERIES = 120  # bars


def page(root: ReportNode, title: str, folds: bool = False) -> str:
    """Returns a whole page for a file. `folds`: strata start folded, the most expensive first."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{visible_html(title)}</title>"
        '<link rel="icon" href="data:,">'
        "<style>body { margin: 24px; background: #eef1f4; } .gdatalog-plan { margin: 0 auto; }"
        " @media (prefers-color-scheme: dark) { body { background: #0d1013; } }</style>"
        f"</head><body>{fragment(root, folds)}</body></html>"
    )


def fragment(root: ReportNode, folds: bool = False) -> str:
    """Returns what a notebook shows."""
    drawn = _Drawn(folded(root, bare=False) if folds else root, folds)
    return f'<div class="gdatalog-plan"><style>{_style()}</style>{"".join(drawn.all())}</div>'


@cache
def _style() -> str:
    css = Path(__file__).with_name("plan.css").read_text(encoding="utf-8")
    css = css.replace("/*DARK*/", _DARK).replace("/*LIGHT*/", _LIGHT)
    return " ".join(css.split())


class _Drawn:
    """A tree that is being drawn: its columns and the scale of its bars."""

    def __init__(self, root: ReportNode, folds: bool = False) -> None:
        """`folds`: strata and indexes start folded."""
        self.root = root
        self.closed = frozenset({"stratum", "indexes"}) if folds else frozenset()
        nodes = [node for node in root.walk() if node is not root]
        counts = [n for node in nodes for n in (node.estimate, node.actual) if n is not None]
        self.most = max(counts, default=1.0)
        self.timed = any(node.share is not None for node in nodes)
        self.came = any(node.actual is not None for node in nodes)
        self.guessed = any(node.estimate is not None for node in nodes)

    def all(self) -> Iterator[str]:
        widths = "; ".join(f"--{name}: {size}ch" for name, size in self._widths().items())
        yield f'<div class="body" style="{widths}"><h1>{visible_html(self.root.label)}</h1>'
        yield from (
            f'<span class="detail">{visible_html(text)}</span>' for text in self.root.details
        )
        if self.guessed or self.timed:
            yield f'<div class="row titles"><span></span>{self._titles()}</div>'
        for child in self.root.children:
            yield from self._node(child)
        yield self._legend()
        yield "</div>"

    def _widths(self) -> dict[str, int]:
        """The width of each number column, in digits."""
        widths = {"estimate": 9, "actual": 9, "tried": 7, "seconds": 7}
        for node in self.root.walk():
            for name, text in self._texts(node).items():
                widths[name] = max(widths[name], len(text))
        return widths

    def _texts(self, node: ReportNode) -> dict[str, str]:
        """A node's numbers, by column."""
        return {
            "estimate": "" if node.estimate is None else about(node.estimate),
            "actual": "" if node.actual is None else f"{node.actual:,}",
            "tried": f"{node.tried:,}" if node.tried else "",
            "seconds": "" if node.seconds is None else f"{node.seconds * 1000:,.2f}",
        }

    def _node(self, node: ReportNode) -> Iterator[str]:
        inside = bool(node.children or node.series or node.table)
        kind = node.kind.replace(" ", "-") + (" marked" if node.marks else "")
        row = self._what(node) + self._numbers(node)
        if not inside:
            yield f'<div class="{kind}"><div class="row">{row}</div></div>'
            return
        shown = "" if node.kind in self.closed else " open"
        yield f'<details{shown} class="{kind}"><summary class="row">{row}</summary>'
        yield '<div class="below">'
        if node.series:
            yield _series(node.series)
        if node.table is not None:
            yield _table(node.table)
        for child in node.children:
            yield from self._node(child)
        yield "</div></details>"

    def _what(self, node: ReportNode) -> str:
        marks = "".join(f'<span class="mark">{visible_html(mark)}</span>' for mark in node.marks)
        details = "".join(
            f'<span class="detail">{visible_html(text)}</span>' for text in node.details
        )
        return (
            f'<span class="what"><span class="label">{_words(node.label)}</span>'
            f"{marks}{details}</span>"
        )

    def _titles(self) -> str:
        cells = [("estimate", "expected")] if self.guessed else []
        cells += [("actual", "bindings"), ("tried", "tried")] if self.came else []
        cells += [("bindings", "")]
        cells += [("seconds", "ms"), ("share", "share of all")] if self.timed else []
        return _cells(cells)

    def _numbers(self, node: ReportNode) -> str:
        if not (self.guessed or self.timed):
            return ""
        cells: list[tuple[str, str]] = []
        if node.estimate is None and node.actual is None and not node.tried:
            return _cells(self._times(node))  # the label spans empty columns
        texts = self._texts(node)
        names = (["estimate"] if self.guessed else []) + (["actual", "tried"] if self.came else [])
        cells += [(name, texts[name]) for name in names]
        bars = self._bar("guessed", node.estimate) + self._bar("came", node.actual)
        cells.append(("bindings", bars))
        return _cells([*cells, *self._times(node)])

    def _times(self, node: ReportNode) -> list[tuple[str, str]]:
        if not self.timed:
            return []
        return [("seconds", self._texts(node)["seconds"]), ("share", _share(node.share))]

    def _bar(self, kind: str, count: float | None) -> str:
        """A bar on a logarithmic scale, because bindings differ by millions."""
        if count is None:
            return ""
        share = log10(1 + count) / log10(1 + max(1.0, self.most))
        return f'<span class="bar {kind}" style="width:{100 * share:.1f}%"></span>'

    def _legend(self) -> str:
        parts = []
        if self.guessed:
            parts.append('<span><i class="bar guessed"></i>bindings expected</span>')
        if self.came:
            parts.append('<span><i class="bar came"></i>bindings that came</span>')
        if self.guessed:
            parts.append("<span>lengths are logarithms</span>")
        return f'<div class="legend">{"".join(parts)}</div>' if parts else ""


def _cells(cells: list[tuple[str, str]]) -> str:
    inside = "".join(f'<span class="n-{name}">{text}</span>' for name, text in cells)
    return f'<span class="numbers">{inside}</span>'


def _words(label: str) -> str:
    """A label that breaks outside brackets where possible."""
    words = (visible_html(word) for word in unbroken(label).split(" "))
    return " ".join(f'<span class="word">{w}</span>' if STAYS in w else w for w in words)


def _share(share: float | None) -> str:
    if share is None:
        return ""
    width = min(100.0, 100 * share) * 0.6
    return (
        f'<span class="share"><span class="bar spent" style="width:{width:.1f}%"></span>'
        f"{share:.0%}</span>"
    )


def _series(values: tuple[int, ...]) -> str:
    """A bar for each value; long series show the maximum of neighbours."""
    step = -(-len(values) // WIDEST_SERIES)
    tops = [(at, max(values[at : at + step])) for at in range(0, len(values), step)]
    most = max(1, max(top for _, top in tops))
    bars = "".join(
        f'<i style="height:{100 * top / most:.1f}%" title="{at}: {top:,}"></i>' for at, top in tops
    )
    return f'<div class="series">{bars}</div>'


def _table(table: TextTable) -> str:
    texts = {
        at
        for at in range(len(table.columns))
        if any(isinstance(row[at], str) for row in table.rows) and at == len(table.columns) - 1
    }
    head = "".join(_cell("th", name, at in texts) for at, name in enumerate(table.columns))
    rows = "".join(
        "<tr>" + "".join(_cell("td", cell, at in texts) for at, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(tag: str, cell: Cell, is_text: bool) -> str:
    text = "" if cell is None else f"{cell:,}" if isinstance(cell, (int, float)) else cell
    return f"<{tag}{' class=text' if is_text else ''}>{visible_html(text)}</{tag}>"


# A tree as a mermaid flowchart, which GitHub, GitLab and many editors draw.

# Mermaid's brackets for the shapes of nodes; other nodes are boxes.
_SHAPES: dict[Kind, tuple[str, str]] = {
    "plan": ('(["', '"])'),
    "stratum": ('(["', '"])'),
    "branch": ('{{"', '"}}'),
    "end": ('[/"', '"/]'),
    "indexes": ('[("', '")]'),
    "memory": ('[("', '")]'),
}
_STYLES = (
    "classDef marked stroke:#c2410c,stroke-width:3px",
    "classDef level stroke:#0f766e,stroke-width:2px",
)


def mermaid(root: ReportNode) -> str:
    """Returns the tree as a flowchart from top to bottom.

    >>> print(mermaid(ReportNode("plan", 'on "cpu"', children=(ReportNode("note", "x < 3"),))))
    flowchart TD
        n0(["on #quot;cpu#quot;"])
        n1["x #lt; 3"]
        n0 --> n1
        classDef marked stroke:#c2410c,stroke-width:3px
        classDef level stroke:#0f766e,stroke-width:2px
    """
    nodes = list(root.walk())
    numbers = {id(node): at for at, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    lines += [f"    n{at}{_box(node)}" for at, node in enumerate(nodes)]
    for at, node in enumerate(nodes):
        lines += [f"    n{at} --> n{numbers[id(child)]}" for child in node.children]
    lines += [f"    {style}" for style in _STYLES]
    for name, chosen in (("marked", _marked(nodes)), ("level", _levels(nodes))):
        if chosen:
            lines.append(f"    class {','.join(chosen)} {name}")
    return "\n".join(lines)


def _marked(nodes: list[ReportNode]) -> list[str]:
    return [f"n{at}" for at, node in enumerate(nodes) if node.marks]


def _levels(nodes: list[ReportNode]) -> list[str]:
    return [f"n{at}" for at, node in enumerate(nodes) if node.kind == "level" and not node.marks]


def _box(node: ReportNode) -> str:
    opens, closes = _SHAPES.get(node.kind, ('["', '"]'))
    return opens + "<br/>".join(map(_escaped, _texts(node))) + closes


def _texts(node: ReportNode) -> Iterator[str]:
    yield node.label
    yield from node.details
    numbers = []
    if node.estimate is not None:
        numbers.append(f"{about(node.estimate)} expected")
    if node.actual is not None:
        numbers.append(f"{node.actual:,} came")
    if node.seconds is not None and node.kind != "plan":
        numbers.append(took(node.seconds))
    if numbers:
        yield ", ".join(numbers)
    yield from node.marks


def _escaped(text: str) -> str:
    """Escapes what would end a label, start a tag, or (`%%`) start a mermaid directive."""
    names = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(names.get(ch, ch) for ch in visible(text)).replace("%%", "#37;#37;")
