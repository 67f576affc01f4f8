"""The syntax tree: what a program says, before anything is known about what it means.

Frozen dataclasses, each with the span it was read from (spans do not take part in equality).
Literals are what bodies are made of, expressions are what arguments are made of. The parser makes
every node here except those under "Made by the checks", which name resolution puts in the place of
others.
"""

from __future__ import annotations

from gdatalog.errors import NOWHERE, Span
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName, Value

MANY = 16  # values of a list: from so many on it is a relation
LONG = 32  # operators in a row: from so many on they are a Chain


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


# ------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. A timestamp's value is its nanoseconds since 1970 in UTC."""

    type: TypeName
    value: Value
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: a fresh variable each time."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Param:
    """`$name`: a value that is given when the program runs."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Values:
    """Constants of one type that stand side by side in a list, if they are `MANY`, or that one
    variable is compared with by one operator: `x != 1, x != 2, ...`.

    One node holds them all: there may be a hundred thousand.
    """

    type: TypeName
    values: tuple[Value, ...]
    span: Span = _span()

    def constants(self) -> tuple[Const, ...]:
        return tuple(Const(self.type, value, self.span) for value in self.values)


@dataclass(frozen=True, slots=True)
class ListParam:
    """`$name` in `x in $name`: a list of values that is given when the program runs."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function or an operator, by its canonical name.

    Binary operators: lor lxor land bor bxor band bshl bshr bshru + - * / % ^; prefix
    operators: `-` with one argument, bnot, lnot. In a head `count()`, `sum(e)`, `min(e)` ...
    are calls too, until name resolution.
    """

    name: str
    args: tuple[Expr, ...]
    span: Span = _span()
    columns: tuple[Var, ...] = ()  # of an atom, as long as it may be one


@dataclass(frozen=True, slots=True)
class Chain:
    """`a + b - c + ...`: `LONG` and more binary operators that bind equally tightly and are
    applied from left to right. Fewer are Calls within Calls."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Cast:
    """`as(e, T)`: the same value under another name of the same base type."""

    operand: Expr
    type_name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`max s : { S(id, s) }` in a body.

    `exports`, filled in by name resolution, are the local variables of a min or max that are
    used outside: they take the values of the rows that attain the optimum. `locals`, filled in
    too, are all variables that live only in here, and the exports; the others are the rule's.
    """

    kind: str  # count sum min max mean count_distinct any_value
    targets: tuple[Expr, ...]  # none for count; several only for count_distinct
    body: Literal
    span: Span = _span()
    exports: tuple[str, ...] = ()
    locals: tuple[str, ...] = ()


Expr = Const | Var | Wildcard | Param | Values | ListParam | FunctionCall | Chain | Cast | Aggregate


# --------------------------------------------------------------------------------- literals


@dataclass(frozen=True, slots=True)
class Atom:
    """`E(x, y)`. Until name resolution also a bare call of a function, as `contains("a", x)`
    or `distinct(x, y)`, for the parser cannot know which names are relations.

    `columns`: the names that the last arguments of a head have, as in `p(x, total = sum(y))`.
    """

    name: str
    args: tuple[Expr, ...]
    span: Span = _span()
    columns: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """`x < y <= z`: a chain, the conjunction of its neighbours. `=` may bind a variable.

    Where its only other side is a Values, `first` is compared with each of these: `x != 1,
    x != 2, ...`.
    """

    first: Expr
    rest: tuple[tuple[str, Expr], ...]  # = != < <= > >=
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Member:
    """`x in {1, 2, 3}`, or `x in $xs` where the only value is a ListParam. Only here may a
    ListParam stand, and a Values only here and in a Compare."""

    item: Expr
    values: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Test:
    """`true`, `false`, and a lone expression that stands where a literal should.

    After name resolution: a function or expression of type bool, tested. A bare name as in
    `?- tr.` is Test(Var("tr")) until then.
    """

    expr: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    body: Literal
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class And:
    """Two or more literals, never an And among them."""

    items: tuple[Literal, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more literals, never an Or among them."""

    items: tuple[Literal, ...]
    span: Span = _span()


# ------------------------------------------------------------ literals: made by the checks


@dataclass(frozen=True, slots=True)
class Distinct:
    """`distinct(x, y, z)`: pairwise different."""

    args: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Range:
    """`i = range(a, b, step)`: generates i, the end excluded."""

    item: Expr
    start: Expr
    stop: Expr
    step: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class HeadAggregate:
    """An aggregate in a head: over the distinct bindings of all variables of the body."""

    kind: str
    targets: tuple[Expr, ...]
    span: Span = _span()


Literal = Atom | Compare | Member | Test | Not | And | Or | Distinct | Range


# ------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Rule:
    """`head, head2 <- body.`, or a fact, when `body` is None."""

    heads: tuple[Atom, ...]
    body: Literal | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """`?- body.`, or a bare body as Python and the REPL allow it (`bare`)."""

    body: Literal
    span: Span = _span()
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type_name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Decl:
    """`.decl E, F(src: int, dst: int) input btree`."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    qualifiers: tuple[str, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TypeDecl:
    """`.type Var <: symbol`, `.type N = number`, `.type A = B | C`."""

    name: str
    op: str  # "<:" or "="
    targets: tuple[str, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input`, `.output`, `.printsize`, `.limitsize`: bare, with a path, or with key=value."""

    kind: str
    names: tuple[str, ...]
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Include:
    path: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Pragma:
    args: tuple[str, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PlanHint:
    """`.plan ...`: read and ignored."""

    text: str
    span: Span = _span()


Statement = Rule | Query | Decl | TypeDecl | Directive | Include | Pragma | PlanHint


@dataclass(frozen=True, slots=True)
class Program:
    statements: tuple[Statement, ...]
