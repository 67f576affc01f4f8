"""Adornments: which columns of a relation are bound where it is asked for, and names for that.

    path[bf]    the rows of `path` whose first column holds a value that is asked for
    path[bf]?   those values: the magic set
    path[cf]    the same where one constant is asked for: its column is left out
    path[bf]+   the values that are asked for on the way to each of them
    path[ff]    all of a view, whose own rules ask for less than all
    path[given] the rows that a relation has without any rule

No user can write such names. What is told of a program names the relation without the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gdatalog.errors import Span
from gdatalog.parser.syntax import Const, Expr, Literal, Param
from gdatalog.planner.check.walk import variables
from gdatalog.records import dataclass
from gdatalog.values import TypeName

Columns = tuple[int, ...]
Constants = tuple[Const | Param, ...]

_MADE = re.compile(r"(?<=[\w?'])\[(?:[bcf]+|given)\][?+]?")


def adorned(name: str, arity: int, columns: Collection[int], bound: str = "b") -> str:
    """
    >>> adorned("path", 2, (0,)), adorned("path", 2, (1,), "c")
    ('path[bf]', 'path[fc]')
    """
    return f"{name}[{''.join(bound if at in columns else 'f' for at in range(arity))}]"


def plain(text: str) -> str:
    """A text that names relations as the user does.

    >>> plain("in round 3 of path[bf] and path[bf]?")
    'in round 3 of path and path'
    """
    return _MADE.sub("", text)


def as_called(relation: str) -> str:
    """A relation as its user calls it, who knows of no parts of it.

    >>> as_called("path[bf]?"), as_called("sg~1"), as_called("?1")
    ('path', 'sg', 'the query')
    """
    return "the query" if relation.startswith("?") else plain(relation).partition("~")[0]


def asked_for(name: str) -> bool:
    """Whether a relation holds a part only, or what is asked for.

    >>> asked_for("path[bf]"), asked_for("path[ff]"), asked_for("path")
    (True, False, False)
    """
    return any(letter in name.partition("[")[2] for letter in "bc")


@dataclass(frozen=True, slots=True)
class BindingSource:
    """A place that asks for rows of a relation: the values of some of its columns, and where
    they come from."""

    args: tuple[Expr, ...]  # variables, constants and parameters
    body: tuple[Literal, ...]
    types: Mapping[str, TypeName]
    span: Span

    @property
    def constants(self) -> Constants | None:
        """The values, where they are the same for whatever is at hand."""
        found = tuple(arg for arg in self.args if isinstance(arg, Const | Param))
        return found if len(found) == len(self.args) and not self.body else None

    def at(self, places: Sequence[int]) -> BindingSource:
        """The same of some of the columns only."""
        args = tuple(self.args[place] for place in places)
        return BindingSource(args, relevant(self.body, args), self.types, self.span)


def one_constant(sources: Sequence[BindingSource]) -> Constants | None:
    """The one row of values that all places ask for, if they are constants."""
    first = sources[0].constants
    if first is None or any(source.constants != first for source in sources):
        return None
    return first


def relevant(body: Sequence[Literal], args: Sequence[Expr]) -> tuple[Literal, ...]:
    """The literals that have to do with some arguments: directly, or through one another."""
    names = {name for arg in args for name in variables(arg)}
    kept: set[int] = set()
    before = -1
    while before != len(kept):
        before = len(kept)
        for at, literal in enumerate(body):
            own = variables(literal).keys()
            if at not in kept and own & names:
                kept.add(at)
                names |= own
    return tuple(body[at] for at in sorted(kept))
