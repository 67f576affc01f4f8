"""A tree that shows itself: as text, as HTML, as a mermaid flowchart or as plain data.

The HTML needs no script and no other file. A fragment has its own scoped style. It follows the
browser's or the notebook's light or dark theme.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from math import isfinite, log10
from pathlib import Path
from typing import Any, Self

from gdatalog.errors import UsageError
from gdatalog.options import FORMS
from gdatalog.records import cached_property
from gdatalog.report.folded import folded, is_large, named_part
from gdatalog.report.mermaid import mermaid
from gdatalog.report.numbers import STAYS, unbroken
from gdatalog.report.text import cell_text, number_cells
from gdatalog.report.text import text as plain_text
from gdatalog.report.tree import Cell, ReportNode, TextTable
from gdatalog.terminal_text import visible_html

_LIGHT = "--ink: #1f2933; --soft: #667382; --line: #d9dfe5; --ground: #ffffff; --raised: #f5f7f9; \
--guessed: #b6c4d2; --came: #2a9d8f; --spent: #4c78c9; --mark: #b4450f; --mark-ground: #fdeee4; \
color-scheme: light;"
_DARK = "--ink: #dde3e9; --soft: #94a1ae; --line: #39424c; --ground: #171b20; --raised: #20262d; \
--guessed: #51606f; --came: #3fb8a8; --spent: #6d9bec; --mark: #ff9d6b; --mark-ground: #43291a; \
color-scheme: dark;"
WIDEST_SERIES = 120  # bars
_ENDINGS = {".html": "html", ".json": "json", ".mmd": "mermaid", ".txt": "text"}


class Shown:
    """A tree that prints, draws and saves itself."""

    title = "gdatalog"
    folds = True  # if there are many rules

    @cached_property
    def tree(self) -> ReportNode:
        """The tree: nodes of plain data."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.to_text()

    def of(self, which: str | int) -> Self:
        """Returns the rules of one relation in full, by its name; those of a stratum by its number
        (3), one rule by its number ("3.2"), or all rules ("*").

        Printing and drawing fold plans with many rules.

        >>> import gdatalog as gd
        >>> db = gd.connect(device="cpu")
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> print(db.explain("p(x) <- E(x, _). q(y) <- p(y), E(_, y).").of("p"))
        on cpu, strategy auto, a thread for each core  expected
        stratum 1: p
        └ p(x) <- E(x, _).
          │ breadth-first: about 2 rows to look at
          ├ x in E([x])                                      ~2
          └ give p(x)
        """
        part = copy(self)
        part.__dict__["tree"] = named_part(self.tree, str(which))
        part.folds = False
        return part

    @property
    def _folded(self) -> bool:
        return self.folds and is_large(self.tree)

    def to_text(self, width: int = 100) -> str:
        """The tree as lines for a terminal of this width; plans with many rules are folded."""
        return plain_text(folded(self.tree) if self._folded else self.tree, width)

    def to_dict(self) -> dict[str, Any]:
        """The tree as dicts, lists, strings and numbers."""
        return self.tree.to_dict()

    def to_json(self) -> str:
        """The same as JSON; an infinite estimate is the text "inf"."""
        known = finite(self.to_dict())
        return json.dumps(known, indent=2, ensure_ascii=False, allow_nan=False)

    def to_mermaid(self) -> str:
        """The tree as a mermaid flowchart."""
        return mermaid(self.tree)

    def to_html(self) -> str:
        """A complete page, which needs no network and no other file."""
        return page(self.tree, self.title, self._folded)

    def _repr_html_(self) -> str:
        return fragment(self.tree, self._folded)

    def render(self, form: str) -> str:
        """The tree as "text", "json", "mermaid" or "html"."""
        if form not in FORMS:
            forms = ", ".join(f'"{name}"' for name in FORMS)
            raise UsageError(f"a plan has no form {form!r}", hint=f"one of {forms}")
        made: str = getattr(self, f"to_{form}")()
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the tree to a file, as its suffix says: .html, .json, .mmd (mermaid) or .txt."""
        form = _ENDINGS.get(Path(path).suffix.lower())
        if form is None:
            raise UsageError(
                f"the ending of {os.fspath(path)} does not say as what a plan is to be saved",
                hint=f"one of {', '.join(_ENDINGS)}",
            )
        from gdatalog.storage.writers import write_text

        write_text(self.render(form) + "\n", path)


def finite(value: Any) -> Any:
    """Plain data without infinite floats, which JSON does not have: they become texts.

    >>> finite({"estimate": float("inf"), "rows": [1.5]})
    {'estimate': 'inf', 'rows': [1.5]}
    """
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(finite, value))
    return str(value) if isinstance(value, float) and not isfinite(value) else value


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
        self.cells = {id(node): number_cells(node, short=True) for node in (root, *nodes)}
        counts = [n for node in nodes for n in (node.estimate, node.actual) if n is not None]
        self.most = max(counts, default=1.0)
        self.came = any(node.actual is not None for node in nodes)
        self.guessed = any(node.estimate is not None for node in nodes)
        self.titles: dict[str, str] = {}  # of the number columns, by name
        timed = any(node.share is not None for node in nodes)
        if self.guessed or timed:
            self.titles |= {"estimate": "expected"} if self.guessed else {}
            self.titles |= {"actual": "bindings", "tried": "tried"} if self.came else {}
            self.titles |= {"bindings": ""}
            self.titles |= {"seconds": "ms", "share": "share of all"} if timed else {}

    def all(self) -> Iterator[str]:
        widths = "; ".join(f"--{name}: {size}ch" for name, size in self._widths().items())
        label = visible_html(self.root.label)
        yield f'<div class="body" style="{widths}"><h1>{label}</h1>{_details(self.root)}'
        if self.titles:
            yield f'<div class="row titles"><span></span>{_cells(self.titles)}</div>'
        for child in self.root.children:
            yield from self._node(child)
        yield f"{self._legend()}</div>"

    def _widths(self) -> dict[str, int]:
        """The width of each number column, in digits."""
        least = {"estimate": 9, "actual": 9, "tried": 7, "seconds": 7}
        every = self.cells.values()
        return {
            name: max(size, *(len(cells.get(name, "")) for cells in every))
            for name, size in least.items()
        }

    def _node(self, node: ReportNode) -> Iterator[str]:
        kind = node.kind.replace(" ", "-") + (" marked" if node.marks else "")
        row = _what(node) + self._numbers(node)
        if not (node.children or node.series or node.table):
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

    def _numbers(self, node: ReportNode) -> str:
        if not self.titles:
            return ""
        texts = self.cells[id(node)] | {"share": _share(node.share)}
        names = list(self.titles)
        if node.estimate is None and node.actual is None and not node.tried:
            names = [name for name in names if name in ("seconds", "share")]  # the label is wide
        else:
            texts["bindings"] = self._bar("guessed", node.estimate) + self._bar("came", node.actual)
        return _cells({name: texts.get(name, "") for name in names})

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


def _what(node: ReportNode) -> str:
    """A node's label, which breaks outside brackets where possible, its marks and details."""
    words = (visible_html(word) for word in unbroken(node.label).split(" "))
    label = " ".join(f'<span class="word">{w}</span>' if STAYS in w else w for w in words)
    marks = "".join(f'<span class="mark">{visible_html(mark)}</span>' for mark in node.marks)
    return f'<span class="what"><span class="label">{label}</span>{marks}{_details(node)}</span>'


def _details(node: ReportNode) -> str:
    return "".join(f'<span class="detail">{visible_html(text)}</span>' for text in node.details)


def _cells(cells: Mapping[str, str]) -> str:
    inside = "".join(f'<span class="n-{name}">{text}</span>' for name, text in cells.items())
    return f'<span class="numbers">{inside}</span>'


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
    last = len(table.columns) - 1
    is_text = any(isinstance(row[last], str) for row in table.rows)

    def row(tag: str, cells: Sequence[Cell]) -> str:
        texts = [visible_html(cell_text(cell)) for cell in cells]
        ends = [" class=text" if is_text and at == last else "" for at in range(len(cells))]
        return "".join(f"<{tag}{e}>{t}</{tag}>" for e, t in zip(ends, texts, strict=True))

    rows = "".join(f"<tr>{row('td', cells)}</tr>" for cells in table.rows)
    head = row("th", table.columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
