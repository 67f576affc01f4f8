"""Sideways information passing: which variables are bound where a body reads a relation.

A body's literals are ordered by what binds them first, stored relations before derived ones. After
each, its variables are bound. Where a derived relation is read with bound arguments, only rows with
these values are demanded. Only literals that cannot fail and make no new values bind variables for
demand, so that a magic set neither fails nor diverges where the program does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.parser import syntax as s
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.bindings import bound_by, neighbours
from gdatalog.records import dataclass, field


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
