"""Adornments: which columns of a relation are bound where it is read, and what binds them there.

The names of relations that are restricted in such a way:

    path[bf]    the rows of `path` whose first column has a demanded value
    path[bf]?   the demanded values: the magic set
    path[cf]    the same for one constant: its column is dropped
    path[bf]+   pairs of a demanded value and a value reached from it
    path[ff]    all rows of a view whose own rules restrict what they read
    path[given] the rows that a relation has without rules

Users cannot write such names, and messages show the relation's plain name.

Sideways information passing: a body's literals are ordered by what binds them first, stored
relations before derived ones. After each, its variables are bound. Where a derived relation is read
with bound arguments, only rows with these values are demanded. Only literals that cannot fail and
make no new values bind variables for demand, so that a magic set neither fails nor diverges where
the program does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gdatalog.errors import Span
from gdatalog.parser import syntax as s
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.bindings import bound_by, neighbours
from gdatalog.records import dataclass, field
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
    group, *_ = w.connected([w.names_in(args), *(w.variables(literal).keys() for literal in body)])
    return tuple([body[number - 1] for number in group if number])


@dataclass(slots=True)
class KnownBindings:
    """What is known at a point of a body: `prefix` binds the variables `bound`."""

    bound: set[str] = field(default_factory=set)
    constants: dict[str, s.Const | s.Param] = field(default_factory=dict)
    prefix: list[s.Literal] = field(default_factory=list)
    tested: bool = False  # inside a negation or an aggregate

    def closes(self, literal: s.Literal) -> bool:
        """Whether all variables of a literal that computes nothing are bound with it."""
        bound = frozenset(self.bound)
        return is_plain(literal) and bound_by(literal, bound) >= w.variables(literal).keys()

    def ready(self, literal: s.Literal) -> bool:
        """Whether everything that a test, an equation, a list of values or a group of such reads is
        bound."""
        if isinstance(literal, s.Or):
            return all(map(self.closes, literal.items))
        return isinstance(literal, s.Compare | s.Member | s.Distinct) and self.closes(literal)

    def copy(self, tested: bool = False, without: Sequence[str] = ()) -> KnownBindings:
        """A copy for a part of the body; variables `without` are local there."""
        own = set(without)
        return KnownBindings(
            self.bound - own,
            {name: value for name, value in self.constants.items() if name not in own},
            [literal for literal in self.prefix if own.isdisjoint(w.variables(literal))],
            self.tested or tested,
        )

    def value(self, arg: s.Expr) -> s.Expr | None:
        """The argument, if it is a constant or a bound variable."""
        if isinstance(arg, s.Var):
            constant = self.constants.get(arg.name)
            return constant or (arg if arg.name in self.bound else None)
        return arg if isinstance(arg, s.Const | s.Param) else None

    def learn(self, literal: s.Literal) -> None:
        """Adds a literal to what is known."""
        self.prefix.append(literal)
        self.bound |= bound_by(literal, frozenset(self.bound))
        if isinstance(literal, s.Compare):
            for left, op, right in neighbours(literal):
                for side, other in ((left, right), (right, left)):
                    if (
                        op == "="
                        and isinstance(side, s.Var)
                        and isinstance(other, s.Const | s.Param)
                    ):
                        self.constants.setdefault(side.name, other)


def is_plain(literal: s.Literal) -> bool:
    """Whether a literal computes nothing: it cannot fail, and makes no new values."""
    match literal:
        case s.And() | s.Or():
            return all(map(is_plain, literal.items))
        case s.Atom() | s.Distinct() | s.Compare() | s.Member():
            return all(isinstance(part, s.Var | s.Const | s.Param) for part in w.children(literal))
        case _:
            return False
