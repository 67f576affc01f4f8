"""The page docs/functions.md, made of the functions of gdatalog/plan.

python -m tests.functions_page --write
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import gdatalog as gd
from gdatalog.decimals import scale_of
from gdatalog.plan.function_help import HELP, OF_HEADS, Help
from gdatalog.plan.functions import ALIASES, FUNCTIONS
from gdatalog.shell.editor.signatures import shape
from gdatalog.values import constant_text

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "functions.md"
SALES = [("Oslo", 1, 4), ("Oslo", 2, 6), ("Oslo", 3, 9), ("Rome", 1, 5), ("Rome", 2, 5)]
HEAD = """\
# Functions

Every function with an example and its value. Arguments are expressions; what can fail, such as a
division, is computed only where all other tests of the body hold.
`python -m tests.functions_page --write` makes this page, and the tests compare it.
"""
TABLE = "| function | | example | value |\n| --- | --- | --- | --- |\n"
OVER = """\
Examples are terms of a head beside `city`, over these rows of `sale(city, month, amount)`:
"""
OVER += ", ".join([f"`{row}`" for row in map(str, SALES)]).replace("'", '"') + ".\n"
BEFORE = {
    "Times": """\
The formats are those of Python. Where a timestamp has a zone, the parts of times are those in it,
as in pandas: they are computed breadth-first, by the zone's calendar.
[Types and kinds](types.md#arithmetic-of-times) has the arithmetic of times.

""",
    "Aggregates": f"{OVER}\n",
    "Windows": f"{OVER}`partition by city` is left out in the examples.\n\n",
}


def value_of(db: gd.Database, entry: Help) -> str:
    """The value of an example."""
    if entry.section not in OF_HEADS:
        found = db.query(f"?- x = {entry.example}.")
        ((value,),) = found.fetchall()
        kind: Any = found.dtypes[0]
        number = value.value if kind in ("timestamp", "duration") else value
        shown = str(value) if scale_of(kind) else constant_text(kind, number)
        return f"`{shown}`"
    term, keys = entry.example, "city"
    if entry.section == "Windows":
        keys, term = "city, month, amount", term.replace("order", "partition by city order")
    rows = db.query(f"r({keys}, {term}) <- sale(city, month, amount).").sorted().fetchall()
    shown = [round(row[-1], 4) if isinstance(row[-1], float) else row[-1] for row in rows]
    return ", ".join([f"{row[0]} {value}" for row, value in zip(rows, shown, strict=True)])


def row_of(db: gd.Database, entry: Help) -> str:
    taken = f"`{entry.name}`"
    if entry.section not in OF_HEADS:
        shapes = [shape(own).replace("|", " or ") for own in FUNCTIONS[entry.name]]
        taken += "".join([f"<br>`{own}`" for own in shapes])
    return f"| {taken} | {entry.text} | `{entry.example}` | {value_of(db, entry)} |\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    with catch_warnings(), gd.connect(device="cpu") as db:
        simplefilter("ignore", gd.ProgramWarning)
        db.load("sale", SALES, columns=["city", "month", "amount"])
        for section, entries in groupby(HELP, lambda entry: entry.section):
            parts.append(f"\n## {section}\n\n{BEFORE.get(section, '')}{TABLE}")
            parts += [row_of(db, entry) for entry in entries]
    parts.append("\n## Soufflé's names\n\n| name | function |\n| --- | --- |\n")
    parts += [f"| `{name}` | `{meant}` |\n" for name, meant in ALIASES.items()]
    return "".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
