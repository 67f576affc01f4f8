"""Drawing bodies: atoms first, then literals over the variables that these bind.

`Scope` knows a body's variables by type, and of each whether an atom binds it plainly (`plain`:
its values are in the data) and whether it is bound without aggregates (`solid`: only such a
variable is shared with an aggregate).

One method for each kind of literal and expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gdatalog.parser.lists import side_by_side
from gdatalog.parser.syntax import (
    MANY,
    Aggregate,
    And,
    Atom,
    Compare,
    Const,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Null,
    Optional,
    Or,
    Var,
    Wildcard,
)
from tests.oracle_normal import names

if TYPE_CHECKING:
    from tests.draw_rules import Drawing, Relation

MOST_WORK = 3000
ORDER = ("<", "<=", ">", ">=")
EQUAL = ("=", "!=")


@dataclass
class Scope:
    """The variables of a body, with their types."""

    types: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)
    solid: set[str] = field(default_factory=set)

    def bind(self, name: str, kind: str, *, plain: bool = False, solid: bool = True) -> Var:
        self.types[name] = kind
        if plain:
            self.plain.add(name)
        if solid:
            self.solid.add(name)
        return Var(name)

    def inner(self) -> Scope:
        """Of a negation or an aggregate: what is bound outside is bound there."""
        types = {name: kind for name, kind in self.types.items() if name in self.solid}
        return Scope(types, set(self.plain), set(self.solid))


class Body:
    """A body in the making. `prefix` starts the names of the variables that it binds."""

    def __init__(self, drawing: Drawing, scope: Scope, prefix: str = "x") -> None:
        self.drawing = drawing
        self.scope = scope
        self.prefix = prefix
        self.items: list[Literal] = []
        self.depth = 0  # of negations and aggregates around it

    def literal(self) -> Literal:
        """The items in any order, which means nothing; optional bodies come after what binds
        its variables."""
        if not self.items:
            return Compare(Const("int", 1), (("<", Const("int", 2)),))
        last = next((at for at, i in enumerate(self.items) if isinstance(i, Optional)), None)
        before, after = self.items[:last], [] if last is None else self.items[last:]
        optional = [item for item in after if isinstance(item, Optional)]
        tests = [item for item in after if not isinstance(item, Optional)]
        items = [*self.drawing.shuffled(before), *optional, *self.drawing.shuffled(tests)]
        return _conjunction(items)

    def within(self, prefix: str) -> Body:
        body = Body(self.drawing, self.scope.inner(), prefix)
        body.depth = self.depth + 1
        return body

    def new(self, kind: str, *, plain: bool = False, solid: bool = True) -> Var:
        name = self.drawing.name(self.prefix)
        return self.scope.bind(name, kind, plain=plain, solid=solid)

    # ---------------------------------------------------------------------------------- atoms

    def atoms(self, count: int) -> None:
        for _ in range(count):
            relation = self.drawing.pick(self.drawing.known)
            if self.drawing.work * max(relation.size, 1) <= MOST_WORK:
                self.atom(relation)

    def atom(self, relation: Relation) -> None:
        self.drawing.work *= max(relation.size, 1)
        args: list[Expr] = []
        for kind in relation.types:
            args.append(self.argument(kind, args if self.drawing.chance(85) else []))
        self.items.append(Atom(relation.name, tuple(args)))

    def argument(self, kind: str, others: Sequence[Expr]) -> Expr:
        """An atom's argument, none of `others` if it is a variable that is there already."""
        drawing = self.drawing
        bound = [name for name in self.variables(kind) if Var(name) not in others]
        if bound and drawing.chance(drawing.profile.reuse):
            name = drawing.pick(bound)
            self.scope.plain.add(name)
            self.scope.solid.add(name)
            return Var(name)
        if drawing.chance(10):
            return Wildcard()
        if drawing.chance(12):
            return drawing.constant(kind)
        if kind == "int" and drawing.has("compute", 8):
            of: Expr = Var(drawing.pick(bound)) if bound and drawing.chance(50) else self.new("int")
            other = drawing.constant("int")
            return drawing.pick(
                [
                    FunctionCall("+", (of, other)),
                    FunctionCall("-", (of, other)),
                    FunctionCall("-", (other, of)),
                ]
            )
        return self.new(kind, plain=True)

    def variables(self, kind: str) -> list[str]:
        return [name for name, of in self.scope.types.items() if of == kind]

    # ---------------------------------------------------------------------------- expressions

    def expression(self, kind: str) -> tuple[Expr, str]:
        """An expression of the type, or of another one if no variable has that."""
        if not self.variables(kind) and self.scope.types and self.drawing.chance(80):
            kind = self.scope.types[self.drawing.pick(sorted(self.scope.types))]
        return self.of_type(kind), kind

    def of_type(self, kind: str, deeper: int = 2) -> Expr:
        if deeper and self.drawing.has("compute", 20):
            return self.call(kind, deeper - 1)
        bound = self.variables(kind)
        if bound and self.drawing.chance(90):
            return Var(self.drawing.pick(bound))
        return self.drawing.constant(kind)

    def call(self, kind: str, deeper: int) -> Expr:
        drawing = self.drawing

        def part(of: str) -> Expr:
            return self.of_type(of, deeper)

        if drawing.has("null", 15):
            return FunctionCall("coalesce", (part(kind), part(kind)))
        if drawing.has("if", 12):
            of = self.some_type()
            ops = EQUAL if of == "bool" else ORDER + EQUAL
            test: Expr = FunctionCall(drawing.pick(ops), (part(of), part(of)))
            if drawing.chance(20):
                test = FunctionCall("lnot", (test,))
            return FunctionCall("if", (test, part(kind), part(kind)))
        if kind == "int":
            name = drawing.pick(("+", "-", "*", "min", "max", "band", "bxor", "neg", "abs", "text"))
            if drawing.has("fail", 25):
                name = drawing.pick(("/", "%", "to_number", "/", "^"))
            if name == "neg":
                return FunctionCall("-", (part("int"),))
            if name == "abs":
                return FunctionCall("abs", (part("int"),))
            if name == "text" and drawing.has("function", 100):
                if "timestamp" in drawing.profile.types and drawing.chance(40):
                    of = "date" if "date" in drawing.profile.types else "timestamp"
                    units = ("year", "month", "day", "weekday")
                    if of == "timestamp":
                        units = (*units, "hour", "second")
                    return FunctionCall(drawing.pick(units), (part(of),))
                if drawing.chance(30):
                    return FunctionCall("position", (drawing.constant("symbol"), part("symbol")))
                return FunctionCall("strlen", (part("symbol"),))
            if name == "to_number" and drawing.has("function", 100):
                return FunctionCall(name, (part("symbol"),))
            if name in ("text", "to_number"):
                name = "+"
            right = Const("int", drawing.number(-2, 3)) if name == "^" else part("int")
            return FunctionCall(name, (part("int"), right))
        if kind == "float":
            if drawing.chance(20):
                return FunctionCall("to_float", (part("int"),))
            if drawing.has("fail", 20):
                return FunctionCall(
                    "/", (part("float"), Const("float", drawing.pick((2.0, 0.5, 0.0))))
                )
            return drawing.pick(
                [
                    FunctionCall("+", (part("float"), part("float"))),
                    FunctionCall("-", (part("float"), part("float"))),
                    FunctionCall("*", (part("float"), drawing.constant("float"))),
                    FunctionCall("max", (part("float"), part("float"))),
                    FunctionCall(drawing.pick(("floor", "ceil", "abs")), (part("float"),)),
                ]
            )
        if kind == "symbol":
            small = Const("int", drawing.number(0, 2))
            return drawing.pick(
                [
                    FunctionCall("cat", (part("symbol"), part("symbol"))),
                    FunctionCall("+", (part("symbol"), drawing.constant("symbol"))),
                    FunctionCall(drawing.pick(("upper", "lower")), (part("symbol"),)),
                    FunctionCall("substr", (part("symbol"), small, Const("int", 1))),
                    FunctionCall("split_part", (part("symbol"), Const("symbol", "-"), small)),
                    FunctionCall("to_string", (part(drawing.pick(("int", "bool", "float"))),)),
                    FunctionCall("trim", (part("symbol"),)),
                    FunctionCall(
                        "replace", (part("symbol"), *map(drawing.constant, ["symbol"] * 2))
                    ),
                    FunctionCall("regex_extract", (part("symbol"), Const("symbol", "[a-z]+-?"))),
                    FunctionCall(
                        "format", (Const("symbol", "<{}|{:>3}>"), part("int"), part(kind))
                    ),
                    FunctionCall("format_time", (part("timestamp"), Const("symbol", "%d.%m.%Y"))),
                ]
            )
        if kind == "bool":
            if drawing.chance(50):
                return FunctionCall("lnot", (part("bool"),))
            return FunctionCall("contains", (drawing.constant("symbol"), part("symbol")))
        if kind.startswith("decimal"):
            name = drawing.pick(("+", "-", "*", "floor", "abs", "neg", "max", "%"))
            if name == "%" and not drawing.has("fail", 50):
                name = "+"
            if name in ("floor", "abs"):
                return FunctionCall(name, (part(kind),))
            if name == "neg":
                return FunctionCall("-", (part(kind),))
            other = part(drawing.pick((kind, "int"))) if name != "max" else part(kind)
            made = FunctionCall(name, (part(kind), other))
            return FunctionCall("to_decimal", (made, Const("int", 2))) if name == "*" else made
        if kind in ("timestamp", "date") and drawing.chance(30):
            units = ("week", "month", "quarter", "year")
            return FunctionCall("date_trunc", (Const("symbol", drawing.pick(units)), part(kind)))
        times = [FunctionCall(drawing.pick(("min", "max")), (part(kind), part(kind)))]
        if kind == "date":
            times.append(
                FunctionCall(
                    "+", (part(kind), Const("duration", drawing.pick((0, 86_400 * 10**9))))
                )
            )
        elif kind in ("timestamp", "duration"):
            name = drawing.pick(("+", "-"))
            times.append(FunctionCall(name, (part(kind), self.of_type("duration", deeper))))
        if kind == "duration":
            of = drawing.pick(("timestamp", "date", kind))
            times.append(FunctionCall("-", (part(of), part(of))))
            times.append(FunctionCall("*", (part(kind), Const("int", drawing.number(-2, 3)))))
        return drawing.pick(times)

    # --------------------------------------------------------------------------------- extras

    def extras(self, count: int, union: bool = True) -> None:
        """Literals of the profile's kinds; `union`: `;` too."""
        makers = {
            "compare": self.compare,
            "chain": self.chain,
            "distinct": self.distinct,
            "in": self.member,
            "range": self.range,
            "negate": self.negate,
            "group": self.negate_group,
            "compute": self.assign,
            "function": self.function,
            "body": self.aggregate,
            "or": self.union,
            "null": self.null,
        }
        if not union:
            del makers["or"]
        if self.depth > 1:
            del makers["group"], makers["body"]
        kinds = [kind for kind in makers if kind in self.drawing.profile.features]
        for _ in range(count if kinds else 0):
            makers[self.drawing.pick(kinds)]()

    def some_type(self) -> str:
        types = sorted(set(self.scope.types.values())) or ["int"]
        kind: str = self.drawing.pick(types)
        return kind

    def compare(self) -> None:
        kind = self.some_type()
        ops = EQUAL if kind == "bool" else ORDER + EQUAL
        left, right = self.of_type(kind), self.of_type(kind)
        if left == right:
            right = self.drawing.constant(kind)
        if kind.startswith("decimal") and self.drawing.chance(30):  # other digits
            right = FunctionCall("*", (right, self.drawing.constant(kind)))
            right = self.of_type("int") if self.drawing.chance(40) else right
        if kind == "symbol" and self.drawing.chance(10):
            left, right, ops = FunctionCall("ord", (left,)), FunctionCall("ord", (right,)), ORDER
        test: Literal = Compare(left, ((self.drawing.pick(ops), right),))
        self.items.append(Not(test) if self.drawing.chance(10) else test)

    def chain(self) -> None:
        """`x < y <= z` over variables of one type."""
        kind = self.some_type()
        bound = self.variables(kind)
        if kind == "bool" or len(bound) < 2:
            return self.compare()
        chosen = self.drawing.shuffled(bound)[:4]
        ops = self.drawing.pick((("<",), ("<",), ("<=", "<"), ORDER + EQUAL))
        rest = tuple((self.drawing.pick(ops), Var(name)) for name in chosen[1:])
        self.items.append(Compare(Var(chosen[0]), rest))
        return None

    def distinct(self) -> None:
        bound = self.variables(self.some_type())
        if len(bound) >= 2:
            chosen = self.drawing.shuffled(bound)[:4]
            self.items.append(Atom("distinct", tuple(Var(name) for name in chosen)))

    def member(self) -> None:
        kind = self.some_type()
        values = self.listed(kind)
        if self.drawing.chance(30):
            self.items.append(Member(self.new(kind), values))
            return
        test = Member(self.of_type(kind), values)
        self.items.append(Not(test) if self.drawing.chance(20) else test)

    def listed(self, kind: str) -> tuple[Expr, ...]:
        """Values of a list: sometimes so many that it is a relation."""
        number = self.drawing.number(1, 3)
        if self.drawing.chance(25):
            number = self.drawing.number(MANY - 1, MANY + 4)
        values: list[Expr] = [self.drawing.constant(kind) for _ in range(number)]
        bound = [name for name in self.variables(kind) if name in self.scope.plain]
        if number >= MANY and bound and self.drawing.chance(30):
            values.append(Var(self.drawing.pick(bound)))
        return side_by_side(values)

    def range(self) -> None:
        ints = self.variables("int")
        bounds: list[Expr] = [Const("int", self.drawing.number(-1, 5)) for _ in "ab"]
        if self.drawing.chance(20):
            bounds.append(Const("int", self.drawing.pick((1, 2, -1))))
        item = Var(self.drawing.pick(ints)) if ints and self.drawing.chance(50) else self.new("int")
        self.items.append(Compare(item, (("=", FunctionCall("range", tuple(bounds))),)))

    def assign(self) -> None:
        """A new variable for an expression, or a test of an old one."""
        kind = self.some_type()
        value = self.call(kind, 1)
        bound = self.variables(kind)
        if bound and self.drawing.chance(30):
            item = Var(self.drawing.pick(bound))
        else:
            item = self.new(kind, solid=self.is_solid(value))
        sides = (item, value) if self.drawing.chance(50) else (value, item)
        self.items.append(Compare(sides[0], (("=", sides[1]),)))

    def is_solid(self, expr: Expr) -> bool:
        return names(expr) <= self.scope.solid

    def function(self) -> None:
        text, word = self.of_type("symbol"), self.drawing.constant("symbol")
        pattern = Const("symbol", self.drawing.pick(("a.*", "[ab]+", "[[:digit:]]+", "", "[")))
        test: Literal = self.drawing.pick(
            [
                Atom("contains", (word, text)),
                Atom("starts_with", (text, word)),
                Atom("match", (pattern, text)),
            ]
        )
        self.items.append(Not(test) if self.drawing.chance(30) else test)

    def negate(self) -> None:
        """`!R(x, _)`: bound variables, constants and wildcards; rarely a local variable."""
        relation = self.drawing.pick(self.drawing.known)
        args: list[Expr] = []
        for kind in relation.types:
            if self.variables(kind) and self.drawing.chance(70):
                args.append(self.of_type(kind, 1))
            elif self.drawing.chance(70):
                args.append(Wildcard())
            else:
                args.append(self.drawing.constant(kind))
        inner: Literal = Atom(relation.name, tuple(args))
        self.items.append(Not(Not(inner)) if self.drawing.chance(5) else Not(inner))

    def null(self) -> None:
        """`x = null`, `x != null`, or the negation of one."""
        if not self.scope.types:
            return
        item = Var(self.drawing.pick(sorted(self.scope.types)))
        sides = (item, Null()) if self.drawing.chance(80) else (Null(), item)
        test: Literal = Compare(sides[0], ((self.drawing.pick(("=", "!=", "!=")), sides[1]),))
        self.items.append(Not(test) if self.drawing.chance(20) else test)

    def optionals(self) -> None:
        """`optional R(x, y)`, and tests of what it binds; no atom reads that."""
        while self.drawing.has("optional", 40):
            self.optional()
        for _ in range(self.drawing.number(0, 2) if self.drawing.has("optional", 60) else 0):
            self.drawing.pick((self.compare, self.distinct, self.assign, self.negate, self.null))()

    def optional(self) -> None:
        body = Body(self.drawing, self.scope.inner(), self.prefix)
        body.depth = self.depth + 1
        body.atoms(self.drawing.number(1, 2))
        body.extras(self.drawing.number(0, 1), union=False)
        if self.depth < 2 and self.drawing.chance(20):
            body.optional()
        if body.items:
            for name in [each for each in body.scope.types if each not in self.scope.types]:
                self.scope.bind(name, body.scope.types[name], solid=False)
            self.items.append(Optional(body.literal()))

    def negate_group(self) -> None:
        body = self.within("n")
        work, self.drawing.work = self.drawing.work, 20
        body.atoms(self.drawing.number(1, 2))
        body.extras(self.drawing.number(0, 2))
        self.drawing.work = work
        if body.items:
            self.items.append(Not(body.literal()))

    def union(self) -> None:
        """`(A(x, v) ; v in {...})`: every branch binds the same new variable, or none does."""
        kind = self.some_type()
        new = self.drawing.name(self.prefix) if self.drawing.chance(40) else None
        branches = []
        for _ in range(2 if self.drawing.chance(80) else 3):
            branch = Body(self.drawing, self.scope.inner(), self.prefix)
            branch.depth = self.depth + 1
            branch.atoms(self.drawing.number(0, 1))
            branch.extras(0 if branch.items else 1, union=False)
            if new is not None:
                values = tuple(self.drawing.constant(kind) for _ in "ab")
                old = [n for n in branch.variables(kind) if n in branch.scope.plain]
                if old and self.drawing.chance(70):
                    branch.items.append(Compare(Var(new), (("=", Var(old[0])),)))
                else:
                    branch.items.append(Member(Var(new), values))
            if branch.items:
                branches.append(branch.literal())
        if new is not None and len(branches) > 1:
            self.scope.bind(new, kind)
        if len(branches) > 1:
            self.items.append(Or(tuple(branches)))

    # ----------------------------------------------------------------------------- aggregates

    def aggregate_call(self, kind: str) -> tuple[Expr, str]:
        """An aggregate for a head, and the type of its result."""
        targets, result = self.targets(kind)
        return FunctionCall(kind, targets), result

    def targets(self, kind: str) -> tuple[tuple[Expr, ...], str]:
        if kind == "count":
            return (), "int"
        if kind == "count_distinct":
            count = self.drawing.number(1, 2)
            return tuple(self.of_type(self.some_type(), 1) for _ in range(count)), "int"
        of = self.some_type()
        if kind in ("sum", "mean") and of not in ("int", "float", "decimal(18,2)"):
            of = "int"
        return (self.of_type(of, 1),), "float" if kind == "mean" else of

    def aggregate(self) -> None:
        """A new variable for an aggregate, or a test of one; a min or max may have witnesses."""
        drawing = self.drawing
        body = self.within("l")
        if body.scope.solid and drawing.chance(40):  # it hangs on one variable at the most
            only = drawing.pick(sorted(body.scope.solid))
            body.scope = Scope({only: self.scope.types[only]}, {only}, {only})
        work, drawing.work = drawing.work, 20
        body.atoms(drawing.number(1, 2))
        if drawing.chance(40):
            body.extras(1)
        drawing.work = work
        if not body.items:
            return
        kind = drawing.pick(("count", "sum", "min", "max", "mean", "count_distinct", "any_value"))
        targets, result = body.targets(kind)
        aggregate: Expr = Aggregate(kind, targets, body.literal())
        local = [n for n in body.scope.plain if n not in self.scope.types]
        if kind in ("min", "max") and local and drawing.chance(40):
            name = drawing.pick(sorted(local))
            self.scope.bind(name, body.scope.types[name], solid=False)
        if result == "int" and drawing.chance(15):
            aggregate = FunctionCall("+", (aggregate, drawing.constant("int")))
        if kind != "mean" and drawing.chance(60):
            item = self.new(result, solid=False)
            self.items.append(Compare(item, (("=", aggregate),)))
            if drawing.chance(60):
                self.use(item, result)
        else:
            test = (drawing.pick(ORDER), self.of_type(result, 0))
            self.items.append(Compare(aggregate, (test,)))

    def use(self, item: Var, kind: str) -> None:
        """What an aggregate's value is asked for: by a comparison, a negation, or an atom."""
        drawing = self.drawing
        fitting = [relation for relation in drawing.known if kind in relation.types]
        way = drawing.pick(
            ("compare", "compare", "negate", "atom", "atom") if fitting else ("compare",)
        )
        if way == "compare":
            bound = [name for name in self.variables(kind) if name != item.name]
            other = (
                Var(drawing.pick(bound)) if bound and drawing.chance(70) else drawing.constant(kind)
            )
            self.items.append(
                Compare(item, ((drawing.pick(EQUAL if kind == "bool" else ORDER), other),))
            )
            return
        relation = drawing.pick(fitting)
        at = drawing.pick([at for at, of in enumerate(relation.types) if of == kind])
        if way == "negate":
            args: list[Expr] = [Wildcard() for _ in relation.types]
            args[at] = item
            self.items.append(Not(Atom(relation.name, tuple(args))))
        elif drawing.work * max(relation.size, 1) <= MOST_WORK:
            drawing.work *= max(relation.size, 1)
            args = [
                item if column == at else self.argument(of, [item])
                for column, of in enumerate(relation.types)
            ]
            self.items.append(Atom(relation.name, tuple(args)))


def _conjunction(items: Sequence[Any]) -> Literal:
    """One level of `and`, as the parser makes it."""
    flat = [part for item in items for part in (item.items if isinstance(item, And) else (item,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))
