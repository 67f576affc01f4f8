"""Adornments: which columns of a relation are bound where it is read.

The names of relations that are restricted in such a way:

    path[bf]    the rows of `path` whose first column has a demanded value
    path[bf]?   the demanded values: the magic set
    path[cf]    the same for one constant: its column is dropped
    path[bf]+   pairs of a demanded value and a value reached from it
    path[ff]    all rows of a view whose own rules restrict what they read
    path[given] the rows that a relation has without rules

Users cannot write such names, and messages show the relation's plain name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gdatalog.errors import Span
from gdatalog.parser import syntax as s
from gdatalog.planner.check.walk import connected, variables
from gdatalog.records import dataclass
from gdatalog.values import TypeName

Columns = tuple[int, ...]
Constants = tuple[s.Const | s.Param, ...]

_MADE = re.compile(r"(?<=[\w?'])\[(?:[bcf]+|given)\][?+]?")


def adorned(name: str, arity: int, columns: Collection[int], bound: str = "b") -> str:
    """
    >>> adorned("path", 2, (0,)), adorned("path", 2, (1,), "c")
    ('path[bf]', 'path[fc]')
    """
    return f"{name}[{''.join([bound if at in columns else 'f' for at in range(arity)])}]"


def plain(text: str) -> str:
    """A text with relations under their users' names.

    >>> plain("in round 3 of path[bf] and path[bf]?")
    'in round 3 of path and path'
    """
    return _MADE.sub("", text)


def as_called(relation: str) -> str:
    """The name under which a user knows a relation.

    >>> as_called("path[bf]?"), as_called("sg~1"), as_called("?1")
    ('path', 'sg', 'the query')
    """
    return "the query" if relation.startswith("?") else plain(relation).partition("~")[0]


def asked_for(name: str) -> bool:
    """Whether a relation is restricted to demanded values, or is a magic set.

    >>> asked_for("path[bf]"), asked_for("path[ff]"), asked_for("path")
    (True, False, False)
    """
    return any(letter in name.partition("[")[2] for letter in "bc")


@dataclass(frozen=True, slots=True)
class BindingSource:
    """An occurrence of an atom that demands rows of a relation: the values of the bound columns,
    and the literals that bind them."""

    args: tuple[s.Expr, ...]  # each a variable, a constant or a parameter
    body: tuple[s.Literal, ...]
    types: Mapping[str, TypeName]
    span: Span

    @property
    def constants(self) -> Constants | None:
        """The values, if all are constants or parameters."""
        found = tuple([arg for arg in self.args if isinstance(arg, s.Const | s.Param)])
        return found if len(found) == len(self.args) and not self.body else None

    def at(self, places: Sequence[int]) -> BindingSource:
        """The source restricted to some of the columns."""
        args = tuple([self.args[place] for place in places])
        return BindingSource(args, relevant(self.body, args), self.types, self.span)


def one_constant(sources: Sequence[BindingSource]) -> Constants | None:
    """The values that all sources demand, if all demand the same constants."""
    first = sources[0].constants
    if first is None or any(source.constants != first for source in sources):
        return None
    return first


def relevant(body: Sequence[s.Literal], args: Sequence[s.Expr]) -> tuple[s.Literal, ...]:
    """The literals connected to some arguments, directly or through other literals."""
    names = {name for arg in args for name in variables(arg)}
    group, *_ = connected([names, *(variables(literal).keys() for literal in body)])
    return tuple([body[number - 1] for number in group if number])
