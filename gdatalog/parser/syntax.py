"""The syntax tree.

Frozen dataclasses, each with its span; equality ignores spans. Bodies consist of literals,
arguments of expressions. The parser creates every node except `Distinct`, `Range` and
`HeadAggregate`, which name resolution substitutes for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from gdatalog.errors import NOWHERE, Span
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName, Value

MANY = 16  # minimum length of a list that becomes a relation, and of facts that become columns
LONG = 32  # minimum number of operators in a row that become a Chain


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Const:
    """A constant. A timestamp's value is its nanoseconds since 1970 in UTC."""

    type: TypeName
    value: Value
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Null:
    """`null`. Type inference fills in the type."""

    type: TypeName | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: a fresh variable at each occurrence."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Param:
    """`$name`: a value given when the program runs."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Values:
    """At least `MANY` constants of one type: neighbours in a list, or all operands of `x != 1, x !=
    2, ...`.

    One node holds them all: there may be a hundred thousand.
    """

    type: TypeName
    values: tuple[Value, ...]
    span: Span = _span()

    def constants(self) -> tuple[Const, ...]:
        return tuple([Const(self.type, value, self.span) for value in self.values])


@dataclass(frozen=True, slots=True)
class ListParam:
    """`$name` in `x in $name`: a list of values given when the program runs."""

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
    columns: tuple[Var, ...] = ()  # column names, in case the call is an atom


@dataclass(frozen=True, slots=True)
class Window:
    """A call with an order: `row_number(partition by g order by x desc)`, `top(3, x by y)`. Only
    in heads; the checks make rules of it. `rest`: "asc" or "desc" with each key."""

    name: str
    args: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    rest: tuple[tuple[str, Expr], ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Chain:
    """`a + b - c + ...`: at least `LONG` binary operators of equal precedence, applied left to
    right. Shorter runs are nested FunctionCalls."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Cast:
    """`as(e, T)`: the same value with another type of the same base type."""

    operand: Expr
    type_name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`max s : { S(id, s) }` in a body.

    Name resolution fills in `exports` and `locals`. `exports` are the local variables of a min or
    max that the rule uses outside: they take the values of the rows that attain the optimum.
    `locals` are the exports and all variables that occur only inside; other variables belong to the
    rule.
    """

    kind: str  # count sum min max mean count_distinct any_value
    targets: tuple[Expr, ...]  # none for count; several only for count_distinct
    body: Literal
    span: Span = _span()
    exports: tuple[str, ...] = ()
    locals: tuple[str, ...] = ()


Expr = (
    Const
    | Null
    | Var
    | Wildcard
    | Param
    | Values
    | ListParam
    | FunctionCall
    | Window
    | Chain
    | Cast
    | Aggregate
)


@dataclass(frozen=True, slots=True)
class Atom:
    """`E(x, y)`. Until name resolution also a call of a function, such as `contains("a", x)` or
    `distinct(x, y)`, because the parser does not know the relations.

    `columns`: the names of the last arguments, as in `p(x, total = sum(y)) <- R(id = x, n = y)`;
    none after name resolution.
    """

    name: str
    args: tuple[Expr, ...]
    span: Span = _span()
    columns: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """`x < y <= z`: the conjunction of its neighbouring comparisons. `=` may bind a variable.

    If the only other side is a Values, `first` is compared with each of them: `x != 1, x != 2,
    ...`.
    """

    first: Expr
    rest: tuple[tuple[str, Expr], ...]  # = != < <= > >=
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Member:
    """`x in {1, 2, 3}`, or `x in $xs` with a ListParam as the only value. A ListParam occurs only
    here, a Values only here and in a Compare."""

    item: Expr
    values: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Test:
    """`true`, `false`, or an expression in place of a literal.

    After name resolution: a bool expression, tested. Before, a bare name as in `?- tr.` is
    Test(Var("tr")).
    """

    expr: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    """`optional`: no match of an optional body; name resolution makes these."""

    body: Literal
    span: Span = _span()
    optional: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Optional:
    """`optional p(x, y)`, `optional { p(x, y), q(y) }`: the matches, or nulls if there is none.
    Name resolution makes alternatives of it."""

    body: Literal
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class And:
    """Two or more literals, none of them an And."""

    items: tuple[Literal, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more literals, none of them an Or."""

    items: tuple[Literal, ...]
    span: Span = _span()


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
    """An aggregate in a head, over the distinct bindings of all variables of the body.

    One that depends on an order has, behind its arguments, the terms that part the rows, as many as
    `partition`, and its keys: `down` says of each whether it is descending.
    """

    kind: str
    targets: tuple[Expr, ...]
    span: Span = _span()
    partition: int = 0
    down: tuple[bool, ...] = ()


Literal = Atom | Compare | Member | Test | Not | Optional | And | Or | Distinct | Range


@dataclass(frozen=True, slots=True)
class Rule:
    """`head, head2 <- body.`, or a fact if `body` is None."""

    heads: tuple[Atom, ...]
    body: Literal | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class FactColumns:
    """Facts of one relation, in order: a list of values for each of its columns.

    `kinds`: the types of the constants of a fact, and of others whose types differ; then `which`
    tells for each fact the place of its types there.
    """

    name: str
    kinds: tuple[tuple[TypeName, ...], ...]
    columns: tuple[Sequence[Value], ...]
    which: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.columns[0])

    def __hash__(self) -> int:  # lists have none
        return hash((self.name, self.kinds, len(self)))

    def types(self) -> Iterator[tuple[TypeName, ...]]:
        """The types of each fact's constants; if all have the same, without an end."""
        return map(self.kinds.__getitem__, self.which) if self.which else repeat(self.kinds[0])


@dataclass(frozen=True, slots=True)
class Facts:
    """At least `MANY` facts of constants in a row, of some relations.

    One node holds them all: there may be a million. `parser.facts.one_by_one` makes a Rule of each.
    """

    relations: tuple[FactColumns, ...]  # in the order of their first facts
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Ordering:
    """`order by x desc, y limit 10 offset $n`. `rest`: "asc" or "desc" with each key, which name
    resolution requires to be columns of the answer."""

    rest: tuple[tuple[str, Expr], ...]
    limit: Const | Param | None = None
    offset: Const | Param | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """`?- body.`, or a body alone, which Python and the prompt allow (`bare`)."""

    body: Literal
    span: Span = _span()
    bare: bool = False
    ordering: Ordering | None = None

    @property
    def bounds(self) -> tuple[Const | Param, ...]:
        """The limit and the offset, where they are given."""
        given = self.ordering and (self.ordering.limit, self.ordering.offset)
        return tuple([bound for bound in given or () if bound is not None])


@dataclass(frozen=True, slots=True)
class Retract:
    """`retract E(x, _) where x > 9.`: the base facts that match are deleted."""

    atom: Atom
    body: Literal | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Column:
    """`b: int?` in a declaration; `nullable`: with the `?`."""

    name: str
    type_name: str
    span: Span = _span()
    nullable: bool = False


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
    """`.plan ...`: parsed and ignored."""

    text: str
    span: Span = _span()


Statement = (
    Rule | Facts | Query | Retract | Decl | TypeDecl | Directive | Include | Pragma | PlanHint
)


@dataclass(frozen=True, slots=True)
class Program:
    statements: tuple[Statement, ...]
