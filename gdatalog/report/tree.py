"""A plan as a tree of plain data, before it is drawn.

Who draws it (`text.py`, `shown.py`) knows nothing of the engine; who builds it (`plan_tree`,
`profile_tree`) knows nothing of terminals and pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from gdatalog.records import dataclass, fields

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
