"""Draws the pictures of how-it-works.md: `python docs/make_drawings.py` writes docs/images/*.svg.

Each stands on a light card of its own, so that it reads on a dark page too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent / "images"

INK, PALE, CARD = "#24292f", "#57606a", "#ffffff"
# A variable keeps its colour in all pictures.
COLOURS = {"x": "#0969da", "y": "#bf5700", "z": "#1a7f37", "": "#57606a"}
FILLS = {"x": "#ddf0ff", "y": "#ffe8d6", "z": "#dcf5e3", "": "#f3f4f6"}
CELL, HIGH = 34, 28  # of a cell in an array


class Drawing:
    """SVG elements, collected."""

    def __init__(self, name: str, title: str, wide: int, high: int) -> None:
        self.name, self.title, self.wide, self.high = name, title, wide, high
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, colour: str = INK, size: int = 14,
        anchor: str = "start", bold: bool = False, code: bool = False,
    ) -> None:  # fmt: skip
        family = "ui-monospace, Menlo, Consolas, monospace" if code else "system-ui, sans-serif"
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}"{weight} '
            f'font-family="{family}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, wide: float, high: float, kind: str = "", *,
        thick: float = 1.2, dashed: bool = False, faint: bool = False,
    ) -> None:  # fmt: skip
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        shown = ' opacity="0.35"' if faint else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="5" '
            f'fill="{FILLS[kind]}" stroke="{COLOURS[kind]}" stroke-width="{thick}"{dash}{shown}/>'
        )

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = PALE, *,
        head: bool = True, faint: bool = False,
    ) -> None:  # fmt: skip
        end = ' marker-end="url(#head)"' if head else ""
        shown = ' opacity="0.3"' if faint else ""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="1.4"{end}{shown}/>'
        )

    def array(
        self, x: float, y: float, values: Sequence[object], kind: str,
        picked: Sequence[int] = (), dropped: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Cells in a row; some are picked out, some are dropped."""
        for at, value in enumerate(values):
            left = x + at * CELL
            gone = at in dropped
            self.box(left, y, CELL - 3, HIGH, kind, thick=2.6 if at in picked else 1.2,
                     dashed=gone, faint=gone)  # fmt: skip
            self.text(left + (CELL - 3) / 2, y + 19, str(value), PALE if gone else INK, 13,
                      "middle", bold=at in picked, code=True)  # fmt: skip

    def write(self) -> None:
        style = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{PALE}"/>'
            "</marker></defs>"
        )
        card = f'<rect width="{self.wide}" height="{self.high}" rx="10" fill="{CARD}"/>'
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.wide} {self.high}" '
            f'role="img" aria-label="{escape(self.title, quote=True)}">\n'
            f"<title>{escape(self.title)}</title>\n"
            + "\n".join([style, card, *self.parts])
            + "\n</svg>\n"
        )
        (HERE / f"{self.name}.svg").write_text(text, encoding="utf-8")


def way() -> Drawing:
    """The stations of a text on its way to an answer."""
    d = Drawing("way", "From a text to an answer: parser, planner, executor, result", 860, 190)
    stations = [
        ("text", "tr(x,y,z) <- ...", "", 20),
        ("parser", "a syntax tree", "x", 190),
        ("planner", "checks; a join plan", "x", 360),
        ("executor", "loops or arrays", "y", 530),
        ("result", "keys, then columns", "z", 700),
    ]
    for name, under, kind, left in stations:
        d.box(left, 40, 140, 58, kind)
        d.text(left + 70, 64, name, INK, 15, "middle", bold=True)
        d.text(left + 70, 84, under, PALE, 11, "middle")
    for left in (160, 330, 500, 670):
        d.arrow(left + 3, 69, left + 27, 69)
    d.box(360, 134, 310, 38, "", dashed=True)
    d.text(515, 158, "relations, as tries: made when first needed, kept", PALE, 12, "middle")
    d.arrow(430, 132, 430, 102)
    d.arrow(600, 132, 600, 102)
    return d


EDGES = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (4, 5)]


def trie() -> Drawing:
    """E as a table, and as the arrays of its trie."""
    d = Drawing("trie", "Seven edges as a table, and as a trie of three arrays", 860, 330)
    d.text(24, 34, "E(src, dst), a set of rows", INK, 14, bold=True)
    for at, (src, dst) in enumerate(EDGES):
        d.array(40, 50 + at * 36, [src], "x")
        d.array(40 + CELL, 50 + at * 36, [dst], "y")
    d.arrow(135, 160, 215, 160)
    d.text(240, 34, "its trie in the order (src, dst)", INK, 14, bold=True)
    values, offsets = [1, 2, 3, 4], [0, 3, 5, 6, 7]
    d.text(240, 84, "values of src", COLOURS["x"], 12)
    d.array(380, 66, values, "x", picked=[1])
    d.text(240, 134, "where their lists begin", PALE, 12)
    d.array(380, 116, offsets, "", picked=[1, 2])
    d.text(240, 240, "values of dst", COLOURS["y"], 12)
    d.array(380, 222, [dst for _, dst in EDGES], "y", picked=[3, 4])
    for at, begin in enumerate(offsets[:-1]):
        d.arrow(380 + at * CELL + 15, 146, 380 + begin * CELL + 15, 219,
                COLOURS["x"] if at == 1 else PALE, faint=at != 1)  # fmt: skip
    for begin, end in ((0, 3), (3, 5), (5, 6), (6, 7)):
        left, right = 380 + begin * CELL, 380 + end * CELL - 3
        d.arrow(left, 262, right, 262, head=False)
        d.text((left + right) / 2, 280, f"of {values[offsets.index(begin)]}",
               PALE, 11, "middle")  # fmt: skip
    d.text(640, 84, "E(2, y): the offsets 3 and 5", INK, 12)
    d.text(640, 104, "say where the list of 2 lies.", INK, 12)
    d.text(640, 124, "It is sorted, so a range y > 3", INK, 12)
    d.text(640, 144, "is a part of it, and meeting", INK, 12)
    d.text(640, 164, "another list is one walk.", INK, 12)
    return d


def meeting() -> Drawing:
    """Two sorted lists, leapfrogged."""
    d = Drawing("meeting", "Two sorted lists meet: each leaps to the other's value", 860, 230)
    d.text(24, 34, "z must be in E(x, z) and in E(y, z): two sorted lists meet", INK, 14, bold=True)
    ours, theirs = [3, 8, 9, 11, 20, 21, 34, 50], [2, 5, 9, 30, 31, 34, 35, 36]
    d.text(24, 85, "E(x, z)", COLOURS["x"], 13)
    d.array(110, 66, ours, "x", picked=[2, 6], dropped=[1, 3, 4, 5])
    d.text(24, 175, "E(y, z)", COLOURS["y"], 13)
    d.array(110, 156, theirs, "y", picked=[2, 5], dropped=[0, 1, 4])
    for a, b in ((2, 2), (6, 5)):
        d.arrow(110 + a * CELL + 15, 96, 110 + b * CELL + 15, 153, COLOURS["z"], head=False)
    d.text(430, 84, "A value that the other list does not have is", INK, 12)
    d.text(430, 104, "leapt over: from 9, the upper list seeks the", INK, 12)
    d.text(430, 124, "lower one's next value, 30, and lands on 34.", INK, 12)
    d.text(430, 156, "9 and 34 are in both. The work follows the", INK, 12)
    d.text(430, 176, "shorter list, not the product of the two.", INK, 12)
    return d


TREE: dict[int, dict[int, list[int]]] = {
    1: {2: [3, 4], 3: [4], 4: []},
    2: {3: [4], 4: []},
    3: {4: []},
}
Xs, Ys, Zs = (
    list[tuple[float, int]],
    list[tuple[float, int, int]],
    list[tuple[float, int, int, int]],
)


def _places() -> tuple[Xs, Ys, Zs]:
    """Where the nodes of the search tree stand: by level, with their values."""
    xs: Xs = []
    ys: Ys = []
    zs: Zs = []
    at = 0.0
    for x, below in TREE.items():
        begin = at
        for y, last in below.items():
            first = at
            for z in last:
                zs.append((at, x, y, z))
                at += 1
            at += 0 if last else 1
            ys.append(((first + at - 1) / 2, x, y))
        xs.append(((begin + at - 1) / 2, x))
    return xs, ys, zs


def _tree(d: Drawing, left: float, top: float, path: Sequence[int] = ()) -> None:
    """The search tree of the triangles among EDGES; a path of it may be picked out."""
    step, drop = 44.0, 66.0
    xs, ys, zs = _places()
    where = {x: at for at, x in xs}
    middle = {(x, y): at for at, x, y in ys}

    def node(at: float, level: int, value: int, kind: str, on: bool) -> None:
        d.box(left + at * step - 15, top + level * drop, 30, 26, kind, thick=2.8 if on else 1.2)
        d.text(left + at * step, top + level * drop + 18, str(value), INK, 13, "middle", on, True)

    def edge(one: float, level: int, other: float, on: bool) -> None:
        d.arrow(left + one * step, top + level * drop + 27, left + other * step,
                top + (level + 1) * drop - 2, COLOURS["x"] if on else PALE, head=False)  # fmt: skip

    for at, x in xs:
        node(at, 0, x, "x", tuple(path[:1]) == (x,))
    for at, x, y in ys:
        edge(where[x], 0, at, tuple(path[:2]) == (x, y))
        node(at, 1, y, "y", tuple(path[:2]) == (x, y))
    for at, x, y, z in zs:
        edge(middle[x, y], 1, at, tuple(path) == (x, y, z))
        node(at, 2, z, "z", tuple(path) == (x, y, z))


def breadth() -> Drawing:
    """A level at a time."""
    d = Drawing(
        "breadth-first", "Breadth-first: all bindings of a level at once, as arrays", 860, 270
    )
    d.text(24, 34, "breadth-first: a level at a time", INK, 14, bold=True)
    _tree(d, 60, 62)
    d.text(430, 135, "parent", PALE, 12)
    d.text(430, 165, "value", PALE, 12)
    rows = (("x", [], [1, 2, 3]), ("y", [0, 0, 0, 1, 1, 2], [2, 3, 4, 3, 4, 4]),
            ("z", [0, 0, 1, 3], [3, 4, 4, 4]))  # fmt: skip
    for level, (name, parents, values) in enumerate(rows):
        top = 46 + level * 70
        d.text(500, top + 34, name, COLOURS[name], 14, bold=True, code=True)
        if parents:
            d.array(530, top, parents, "")
        d.array(530, top + 30, values, name)
    d.text(430, 254, "expand a list for each row, look the values up in the other lists, compact",
           PALE, 11)  # fmt: skip
    return d


def depth() -> Drawing:
    """A path at a time."""
    d = Drawing(
        "depth-first", "Depth-first: a worker walks one path of the search at a time", 860, 270
    )
    d.text(24, 34, "depth-first: a path at a time", INK, 14, bold=True)
    _tree(d, 60, 62, (1, 2, 4))
    code = [
        ("for x in E:", "x", 0),
        ("for y in E(x), y > x:", "y", 1),
        ("for z in E(x) and E(y), z > y:", "z", 2),
        ("give (x, y, z)", "", 3),
    ]
    for at, (line, kind, deep) in enumerate(code):
        d.text(430 + deep * 22, 84 + at * 28, line, COLOURS[kind], 14, code=True)
    d.text(430, 216, "compiled to machine code; only one path is in memory.", INK, 12)
    d.text(430, 236, "Workers take pieces of the first two levels from a counter,", INK, 12)
    d.text(430, 256, "small ones at last, so that all end together.", INK, 12)
    return d


def rounds() -> Drawing:
    """Semi-naive rounds, and a fixpoint that splits."""
    d = Drawing(
        "recursion", "Recursion: by rounds of new rows, or a fixpoint for each value", 860, 250
    )
    d.text(24, 34, "rounds: only what is new is joined again", INK, 14, bold=True)
    total = 0
    for at, new in enumerate((60, 90, 45, 18)):
        top = 56 + at * 42
        d.text(24, top + 19, f"round {at}", PALE, 12)
        if total:
            d.box(90, top, total, 28, "")
        d.box(90 + total, top, new, 28, "y")
        total += new
        if at < 3:
            d.arrow(90 + total - new / 2, top + 29, 90 + total + 12, top + 41)
    d.text(90, 238, "grey: rows known before; orange: rows that are new", PALE, 11)
    d.text(450, 34, "split: a fixpoint for each x, a worker's own", INK, 14, bold=True)
    for at, reached in enumerate(([1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5], [4, 5])):
        top = 56 + at * 42
        d.text(450, top + 19, f"x = {reached[0]}", COLOURS["x"], 13, code=True)
        d.array(520, top, reached[1:], "y")
        d.arrow(520 + 4 * CELL + 14, top + 14, 520 + 4 * CELL + 44, top + 14)
        d.text(520 + 4 * CELL + 52, top + 19, f"worker {at % 2 + 1}", PALE, 12)
    d.text(450, 238, "one mark for each value that was reached; no index grows", PALE, 11)
    return d


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for draw in (way, trie, meeting, breadth, depth, rounds):
        draw().write()


if __name__ == "__main__":
    main()
