"""Sideways information passing: which variables are bound where a body reads a relation.

Literals are ordered by what binds them first, stored relations before derived ones. After each, its
variables are bound. Where a derived relation is read with bound arguments, only rows with these
values are demanded. Only literals that cannot fail and make no new values bind variables for
demand, so that a magic set neither fails nor diverges where the program does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Chain,
    Compare,
    Const,
    Distinct,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Or,
    Param,
    Var,
)
from gdatalog.planner.check.scopes import bound_by, neighbours
from gdatalog.planner.check.walk import rebuild, variables
from gdatalog.records import dataclass, field, replace


@dataclass(slots=True)
class KnownBindings:
    """What is known at a point of a body: `prefix` binds the variables `bound`."""

    bound: set[str] = field(default_factory=set)
    constants: dict[str, Const | Param] = field(default_factory=dict)
    prefix: list[Literal] = field(default_factory=list)
    tested: bool = False  # inside a negation or an aggregate

    def copy(self, tested: bool = False, without: Sequence[str] = ()) -> KnownBindings:
        """A copy for a part of the body; variables `without` are local there."""
        own = set(without)
        return KnownBindings(
            self.bound - own,
            {name: value for name, value in self.constants.items() if name not in own},
            [literal for literal in self.prefix if own.isdisjoint(variables(literal))],
            self.tested or tested,
        )

    def value(self, arg: Expr) -> Expr | None:
        """The argument, if it is a constant or a bound variable."""
        if isinstance(arg, Var):
            constant = self.constants.get(arg.name)
            return constant or (arg if arg.name in self.bound else None)
        return arg if isinstance(arg, Const | Param) else None

    def learn(self, literal: Literal) -> None:
        """Adds a literal to what is known."""
        self.prefix.append(literal)
        self.bound |= bound_by(literal, frozenset(self.bound))
        if isinstance(literal, Compare):
            for left, op, right in neighbours(literal):
                for side, other in ((left, right), (right, left)):
                    if op == "=" and isinstance(side, Var) and isinstance(other, Const | Param):
                        self.constants.setdefault(side.name, other)


@dataclass(frozen=True, slots=True)
class SidewaysPassing:
    """A walk through a body. `ask` is called for each derived atom and returns its replacement;
    `tells`: whether a relation's rows can be used for demand."""

    derived: Callable[[str], bool]
    ask: Callable[[Atom, KnownBindings], Atom]
    tells: Callable[[str], bool]
    rows: Callable[[str], int]
    groups: Callable[[str], set[int]]  # the columns that demand can bind

    def literal(self, literal: Literal, known: KnownBindings) -> Literal:
        """The literal with its derived atoms replaced; adds to `known`."""
        match literal:
            case And():
                return replace(literal, items=self._conjunction(literal.items, known))
            case Atom():
                tells = self.tells(literal.name) and is_plain(literal)
                new = self.ask(literal, known) if self.derived(literal.name) else literal
                if tells:
                    known.learn(new)
                return new
            case Or():
                items = tuple(self.literal(item, known.copy()) for item in literal.items)
                either = replace(literal, items=items)
                if _ready(either, known) and all(map(self.tells, _relations(literal))):
                    known.learn(either)
                return either
            case Not():
                return replace(literal, body=self.literal(literal.body, known.copy(tested=True)))
            case _:
                changed = rebuild(literal, lambda part: self._expression(part, known))
                if _ready(changed, known):
                    known.learn(changed)
                return changed

    def _expression(self, expr: Any, known: KnownBindings) -> Any:
        match expr:
            case Aggregate():
                inside = known.copy(tested=True, without=expr.locals)
                return replace(expr, body=self.literal(expr.body, inside))
            case FunctionCall() | Chain():
                return rebuild(expr, lambda part: self._expression(part, known))
            case _:
                return expr

    def _conjunction(self, items: Sequence[Literal], known: KnownBindings) -> tuple[Literal, ...]:
        new: dict[int, Literal] = {}
        while len(new) < len(items):
            waiting = [at for at in range(len(items)) if at not in new]
            at = min(waiting, key=lambda at: (self._rank(items[at], known), at))
            new[at] = self.literal(items[at], known)
        return tuple(new[at] for at in range(len(items)))

    def _rank(self, literal: Literal, known: KnownBindings) -> tuple[int, int]:
        """The order in which literals are taken."""
        match literal:
            case Atom(name, args):
                bound = [at for at, arg in enumerate(args) if known.value(arg) is not None]
                if self.derived(name):
                    some = not self.groups(name).isdisjoint(bound)
                    return (2 if some else 6), 0
                return (1, 0) if bound or not args else (4, self.rows(name))
            case Or() if _ready(literal, known):
                return (3 if any(n in known.bound for n in variables(literal)) else 5), 0
            case _ if _ready(literal, known):
                return 0, 0
            case _:
                return 7, 0


def is_plain(literal: Literal) -> bool:
    """Whether a literal computes nothing: it cannot fail, and makes no new values."""
    match literal:
        case Atom() | Distinct():
            return all(isinstance(arg, Var | Const | Param) for arg in literal.args)
        case Compare():
            sides = (literal.first, *(side for _, side in literal.rest))
            return all(isinstance(side, Var | Const | Param) for side in sides)
        case Member():
            sides = (literal.item, *literal.values)
            return all(isinstance(side, Var | Const | Param) for side in sides)
        case And() | Or():
            return all(map(is_plain, literal.items))
        case _:
            return False


def _ready(literal: Literal, known: KnownBindings) -> bool:
    """Whether everything that a test, an equation, a list of values or a group of such reads is
    bound."""
    if isinstance(literal, Or):
        return all(_closed(item, known) for item in literal.items)
    return isinstance(literal, Compare | Member | Distinct) and _closed(literal, known)


def _closed(literal: Literal, known: KnownBindings) -> bool:
    return is_plain(literal) and (
        bound_by(literal, frozenset(known.bound)) >= variables(literal).keys()
    )


def _relations(literal: Literal) -> list[str]:
    match literal:
        case Atom(name):
            return [name]
        case And() | Or():
            return [name for item in literal.items for name in _relations(item)]
        case _:
            return []
