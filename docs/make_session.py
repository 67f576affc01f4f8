"""Records a session of the prompt for README: what stands on a real terminal, as an SVG.

    python docs/make_session.py            writes docs/images/session.svg

gdatalog runs at a pseudo-terminal and somebody types; at the end the screen is drawn, with its
colours. The picture holds no script and no font: it is shown where pictures are.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.terminal import ENTER, TAB, Terminal  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "session.svg"
COLUMNS, LINES = 84, 40
FILES = {
    "trains.csv": "from,to,minutes\nBern,Thun,18\nBern,Olten,27\nThun,Brig,40\nOlten,Basel,25\n"
    "Brig,Domodossola,28\nOlten,Zürich,31\nZürich,Chur,74\n",
}
# What is typed, and what is waited for.
TYPED = [
    (".load train trains.csv", "7 tuples"),
    ('reach("Bern", 0).', "1 fact added"),
    ("reach(y, min(t + m)) <- reach(x, t),", "...>"),
    ("train(x, y, m).", "8 tuples ("),
    ("reach(city, minutes), minutes >= 40.", "rows ("),
    ("end(x) <- train(_, x, _), !tarin(x, _, _).", "did you mean"),
    ("end(x) <- train(_, x, _), !train(x, _, _).", "end: "),
    (".rules", "// end"),
]
LAST = (".s", ".stats")

# ---------------------------------------------------------------------------------- the picture

CELL, LINE, SIZE, PAD = 8.4, 18, 14, 14
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
GROUND, INK = "#14191f", "#d5dce3"
PALETTE = {
    "default": INK,
    "black": "#14191f",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79b8ff",
    "magenta": "#d2a8ff",
    "cyan": "#76d9e6",
    "white": "#d5dce3",
    "brightblack": "#7d8894",
    "brightred": "#ffa198",
    "brightgreen": "#a5f0ac",
    "brightbrown": "#f2cc60",
    "brightyellow": "#f2cc60",
    "brightblue": "#a5d0ff",
    "brightmagenta": "#e2c5ff",
    "brightcyan": "#a8ebf3",
    "brightwhite": "#ffffff",
}
GROUNDS = {"default": GROUND, "brightblack": "#37414c", "black": "#20272f"}
# Boxes are drawn as lines, so that they have no gaps: to the left, right, top and bottom.
BOXES = {
    "─": "lr", "│": "tb", "┌": "rb", "┐": "lb", "└": "rt", "┘": "lt",
    "├": "tbr", "┤": "tbl", "┬": "lrb", "┴": "lrt", "┼": "lrtb",
}  # fmt: skip


def record() -> str:
    """Types at a terminal; gives the picture of what stands there in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        with Terminal(folder=folder, lines=LINES, columns=COLUMNS) as at:
            at.wait_for("gdatalog>")
            for line, wanted in TYPED:
                begun = line.strip()
                at.type(begun + ENTER)
                at.wait_for(lambda screen, b=begun, w=wanted: w in screen.rpartition(b)[2])
            begun, wanted = LAST
            at.type(begun)
            at.wait_for(begun)
            at.type(TAB)
            at.wait_for(lambda screen: wanted in screen.rpartition("gdatalog>")[2])
            return picture(at)


def picture(at: Terminal) -> str:
    """The screen as an SVG."""
    rows = [[at._screen.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)]
    wide, high = COLUMNS * CELL + 2 * PAD, len(rows) * LINE + 2 * PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" '
        f'font-family="{FONTS}" font-size="{SIZE}" role="img" aria-label="A session of gdatalog">',
        f'<rect width="{wide:g}" height="{high:g}" rx="8" fill="{GROUND}"/>',
    ]
    for number, row in enumerate(rows):
        parts += drawn(row, PAD + number * LINE)
    parts.append("</svg>\n")
    return "\n".join(parts)


def drawn(row: list[Any], top: float) -> Iterator[str]:
    """The runs of a line that look alike."""
    place = 0
    for look, run in groupby(row, lambda cell: (*colours(cell), cell.bold, cell.data in BOXES)):
        ink, ground, bold, is_box = look
        cells = list(run)
        text = "".join(cell.data for cell in cells)  # a wide sign has two cells, the second empty
        left, wide = PAD + place * CELL, len(cells) * CELL
        place += len(cells)
        if ground != GROUND:
            shape = f'x="{left:g}" y="{top:g}" width="{wide + 0.5:g}" height="{LINE + 0.5:g}"'
            yield f'<rect {shape} fill="{ground}"/>'
        if is_box:
            path = "".join(box(sign, left + at * CELL, top) for at, sign in enumerate(text))
            yield f'<path d="{path}" stroke="{ink}" fill="none"/>'
        elif text.strip():
            weight = ' font-weight="bold"' if bold else ""
            yield (
                f'<text x="{left:g}" y="{top + 13.5:g}" textLength="{wide:g}" fill="{ink}"{weight} '
                f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(text)}</text>'
            )


def colours(cell: Any) -> tuple[str, str]:
    """Of a cell's text, and of what is behind it."""
    ink = PALETTE.get(cell.fg) or f"#{cell.fg}"
    ground = GROUNDS.get(cell.bg) or PALETTE.get(cell.bg) or f"#{cell.bg}"
    return (ground, ink) if cell.reverse else (ink, ground)


def box(sign: str, left: float, top: float) -> str:
    """The lines of a sign that is part of a box."""
    x, y = left + CELL / 2, top + LINE / 2
    ends = {"l": (left, y), "r": (left + CELL, y), "t": (x, top), "b": (x, top + LINE)}
    return "".join(f"M{x:g} {y:g}L{ends[end][0]:g} {ends[end][1]:g}" for end in BOXES[sign])


if __name__ == "__main__":
    PICTURE.write_text(record(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
