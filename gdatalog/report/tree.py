"""A plan as a tree of plain data, before it is drawn; and numbers as reports show them.

Who draws it (`text`, `mermaid`, `html`) knows nothing of the engine; who builds it (`planned`,
`happened`) knows nothing of terminals and pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from gdatalog.records import dataclass, fields

Kind = Literal[
    "plan",  # the root
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
    facts: tuple[tuple[str, Fact], ...] = ()
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
