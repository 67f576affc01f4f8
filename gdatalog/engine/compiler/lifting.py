"""Constants of a query become parameters: texts that differ only in these are compiled once.

These are whole arguments of atoms, and sides of comparisons with a variable, in the conjunction of
a query (or of the last rule). Nothing in a plan depends on their values but selectivity, which
plans of parameters take into account. Other constants stay: in `=`, where they may be folded; in
functions, aggregates and heads; and those in several comparisons of one variable, of which one may
imply another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType

from gdatalog.parser import Program
from gdatalog.parser import syntax as s
from gdatalog.planner.check.names import CALLABLE
from gdatalog.planner.check.walk import names_of, reads_of
from gdatalog.records import dataclass, replace
from gdatalog.values import TypeName, Value

MOST_CONSTANTS = 16  # constants; a text with more holds data

Constants = Mapping[str, tuple[TypeName, Value]]
NO_CONSTANTS: Constants = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LiftedProgram:
    """A program with parameters for constants, and the types and values of these."""

    program: Program
    constants: Constants


def lifted(program: Program, is_relation: Callable[[str], bool]) -> LiftedProgram | None:
    """The program with parameters in place of constants; None if it has none to replace."""
    statement = _asking(program)
    if statement is None or statement.body is None:
        return None
    body, found = statement.body, dict[str, tuple[TypeName, Value]]()
    items = body.items if isinstance(body, s.And) else (body,)
    own = {name for each in program.statements for name in names_of(each)}
    compared = list(chain.from_iterable(map(_variables, items)))

    def param(const: s.Const) -> s.Param:
        name = f"#{len(found) + 1}"  # as no parameter of a text
        found[name] = const.type, const.value
        return s.Param(name, const.span)

    def replaced(literal: s.Literal) -> s.Literal:
        match literal:
            case s.Atom(name, args) if name in own or is_relation(name):
                if name in CALLABLE or not any(isinstance(arg, s.Const) for arg in args):
                    return literal
                new = tuple(param(arg) if isinstance(arg, s.Const) else arg for arg in args)
                return replace(literal, args=new)
            case s.Compare(s.Var(name), ((op, s.Const() as const),)) if compared.count(name) == 1:
                return literal if op == "=" else replace(literal, rest=((op, param(const)),))
            case s.Compare(s.Const() as const, ((op, s.Var(name)),)) if compared.count(name) == 1:
                return literal if op == "=" else replace(literal, first=param(const))
        return literal

    new = tuple(map(replaced, items))
    if not found or len(found) > MOST_CONSTANTS:
        return None
    made = replace(statement, body=replace(body, items=new) if isinstance(body, s.And) else new[0])
    others = (made if each is statement else each for each in program.statements)
    return LiftedProgram(Program(tuple(others)), found)


def _asking(program: Program) -> s.Query | s.Rule | None:
    """The only query of a program, or otherwise its last rule, unless that is recursive."""
    queries = [each for each in program.statements if isinstance(each, s.Query)]
    if queries:
        return queries[0] if len(queries) == 1 else None
    last = program.statements[-1] if program.statements else None
    if not isinstance(last, s.Rule) or not set(names_of(last)).isdisjoint(reads_of(last)):
        return None
    return last


def _variables(literal: s.Literal) -> Iterator[str]:
    """The variables that a comparison reads itself."""
    sides: Iterable[s.Expr] = ()
    if isinstance(literal, s.Compare):
        sides = (literal.first, *(side for _, side in literal.rest))
    return (side.name for side in sides if isinstance(side, s.Var))
