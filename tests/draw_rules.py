"""Drawing relations, data, and rules over the bodies of `draw_bodies`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as D
from random import Random
from typing import Any

from gdatalog.parser.syntax import (
    And,
    Atom,
    Cast,
    Compare,
    Const,
    Expr,
    FunctionCall,
    Literal,
    Rule,
    Statement,
    Var,
    Wildcard,
)
from tests.draw_bodies import Body, Scope
from tests.oracle_values import Dur, Ts, Value, nulls_last

DECIMAL = "decimal(18,2)"
DAY = 86_400_000_000_000
TESTS = frozenset({"compare", "chain", "distinct", "in", "range", "function"})
GROUPS = frozenset({"negate", "group", "or", "body"})
ALL = TESTS | GROUPS | {"compute", "fail", "head", "optimum", "recursion", "if"}
LITTLE: dict[str, Sequence[Any]] = {
    "int": range(5),
    "float": (0.0, 0.5, 1.0, 1.5, -2.0, 0.25),
    "symbol": ("a", "b", "ab", "", "B", "é", "12", "a-b"),
    "bool": (False, True),
    "timestamp": (Ts(0), Ts(DAY), Ts(31 * DAY + 500_000_000), Ts(-DAY)),
    DECIMAL: tuple([D(text) for text in ("0.00", "0.50", "1.00", "1.25", "-2.00", "0.05")]),
    "duration": (Dur(0), Dur(DAY), Dur(-DAY), Dur(500_000_000)),
    "date": (Ts(0), Ts(DAY), Ts(31 * DAY), Ts(-DAY)),  # to the oracle, their midnights
}
RARE = {
    **LITTLE,
    "int": (-1, -3, 7, 100, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63)),
    DECIMAL: (D("-0.01"), D("9999999999999999.99"), D("-1000000.00")),
    "symbol": ("-3", "a\tb", 'say "a"', "日本", "\U0001f600", "\\", "a b"),
}
OPTIMA = ("min", "max")
NULLS = 35  # of 100 values in a nullable column


@dataclass(frozen=True)
class Profile:
    """What is drawn: `features` are names of ALL, "null" (in data, and tests) and "optional"."""

    types: tuple[str, ...] = ("int", "int", "int", "float", "symbol", "bool", "timestamp")
    arities: tuple[int, ...] = (0, 1, 2, 2, 2, 3, 4)
    rows: int = 7
    atoms: int = 4
    fewest: int = 1
    most: int = 6
    features: frozenset[str] = ALL
    reuse: int = 55  # how often, of 100, an argument is a variable that is there already
    extremes: bool = True


@dataclass
class Relation:
    name: str
    types: tuple[str, ...]
    size: int  # how many rows it may have, guessed


class Drawing:
    def __init__(self, random: Random, profile: Profile) -> None:
        self.random = random
        self.profile = profile
        self.statements: list[Statement] = []
        self.data: dict[str, tuple[tuple[str, ...], list[tuple[Value, ...]]]] = {}
        self.known: list[Relation] = []
        self.numbers = 0
        self.work = 1  # rows that the body in the making may try, guessed

    # ------------------------------------------------------------------------- drawing things

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def pick(self, items: Sequence[Any]) -> Any:
        return self.random.choice(items)

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        return self.random.sample(items, len(items))

    def has(self, feature: str, percent: int) -> bool:
        return feature in self.profile.features and self.chance(percent)

    def name(self, prefix: str) -> str:
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    def value(self, kind: str) -> Value:
        pool = RARE if self.profile.extremes and self.chance(5) else LITTLE
        value: Value = self.pick(pool[kind])
        return value

    def value_or_null(self, kind: str, nullable: bool) -> Value:
        return None if nullable and self.chance(NULLS) else self.value(kind)

    def constant(self, kind: str) -> Const | Cast:
        value = self.value(kind)
        if isinstance(value, D):
            return Cast(Const(kind, int(value.scaleb(2))), kind)
        if isinstance(value, Ts):
            return Const("timestamp", value.ns)
        if isinstance(value, Dur):
            return Const("duration", value.ns)
        return Const(kind, value)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------ relations

    def relations(self) -> None:
        for at in range(self.number(1, 3)):
            arity = max(1, self.pick(self.profile.arities))
            types = tuple(self.pick(self.profile.types) for _ in range(arity))
            self.load("EFG"[at], types)

    def load(self, name: str, types: tuple[str, ...]) -> Relation:
        count = 0 if self.chance(5) else self.number(2, self.profile.rows)
        nullable = [self.has("null", 70) for _ in types]
        rows = {tuple(map(self.value_or_null, types, nullable)) for _ in range(count)}
        self.data[name] = types, sorted(rows, key=lambda row: tuple(map(nulls_last, row)))
        relation = Relation(name, types, self.profile.rows if types else 1)
        self.known.append(relation)
        return relation

    def rules(self) -> None:
        most = self.number(self.profile.fewest, self.profile.most)
        while len(self.statements) < most:
            if self.has("recursion", 30):
                self.recursive()
            elif self.has("optimum", 20):
                self.optimum()
            elif self.has("head", 30):
                self.aggregated()
            else:
                self.plain()

    def define(self, name: str, types: tuple[str, ...], size: int) -> None:
        self.known.append(Relation(name, types, min(size, 6 ** len(types))))

    def add(self, head: Atom, body: Body) -> None:
        """A rule; a duplicate fact or rule does no harm."""
        self.statements.append(Rule((head,), body.literal()))

    def plain(self) -> None:
        """A relation of one to three rules without aggregates in their heads."""
        name = self.name("p")
        body = self.body()
        arity = self.pick(self.profile.arities)
        args = [body.expression(self.pick(self.profile.types)) for _ in range(arity)]
        types = tuple(kind for _, kind in args)
        size = self.work
        heads = [Atom(name, tuple(arg for arg, _ in args))]
        if self.chance(10):
            other = self.name("q")
            heads.append(Atom(other, heads[0].args[:1]))
            self.statements.append(Rule(tuple(heads), body.literal()))
            self.define(other, types[:1], size)
        else:
            self.add(heads[0], body)
        for _ in range(self.number(0, 2) if self.chance(30) else 0):
            if self.chance(30):
                fact = Atom(name, tuple(self.constant(kind) for kind in types))
                self.statements.append(Rule((fact,), None))
                continue
            body = self.body()
            size += self.work
            self.add(Atom(name, tuple(body.of_type(kind) for kind in types)), body)
        self.define(name, types, size)

    def recursive(self) -> None:
        """One relation, or two that need each other; heads hold values of the data only."""
        count = 2 if self.chance(30) else 1
        arity = self.pick((1, 1, 2, 2, 2, 3))
        types = tuple(self.pick(self.profile.types) for _ in range(arity))
        group = [Relation(self.name("r"), types, 3 * arity) for _ in range(count)]
        for relation in group:
            body = self.body(few=True)
            self.add(self.old_values(relation, body), body)
        lower = list(self.known)
        for at, relation in enumerate(group):
            for _ in range(self.number(1, 2)):
                must = [group[(at + 1) % count]]
                if self.chance(30):
                    must.append(self.pick(group))
                body = self.body(few=True, must=must)
                self.add(self.old_values(relation, body), body)
        self.known = [*lower, *(Relation(r.name, types, 6**arity) for r in group)]

    def old_values(self, relation: Relation, body: Body) -> Atom:
        """A head of variables that atoms bind, and constants."""
        args: list[Expr] = []
        for kind in relation.types:
            names = [n for n in sorted(body.scope.plain) if body.scope.types[n] == kind]
            args.append(Var(self.pick(names)) if names else self.constant(kind))
        return Atom(relation.name, tuple(args))

    def optimum(self) -> None:
        """Recursive min or max: shortest or widest paths, components."""
        weight = self.pick([k for k in ("int", "float") if k in self.profile.types] or ["int"])
        node = self.pick(self.profile.types)
        edges = self.name("W")
        rows = {
            (self.pick(LITTLE[node]), self.pick(LITTLE[node]), abs(self.pick(LITTLE[weight])))
            for _ in range(self.number(0, 8))
        }
        self.data[edges] = (node, node, weight), sorted(rows)
        self.known.append(Relation(edges, (node, node, weight), 8))
        name = self.name("d")
        x, y, d, w = (Var(n) for n in ("x", "y", "d", "w"))
        start: tuple[Expr, ...] = (
            self.constant(node),
            Const(weight, 0 if weight == "int" else 0.0),
        )  # type: ignore[arg-type]
        if self.chance(50):
            self.statements.append(Rule((Atom(name, start),), None))
        else:
            from_edge = Atom(edges, (x, Wildcard(), w))
            self.statements.append(Rule((Atom(name, (x, FunctionCall("min", (w,)))),), from_edge))
        kind, step = self.pick(
            [
                ("min", FunctionCall("+", (d, w))),
                ("min", FunctionCall("+", (w, d))),
                ("min", FunctionCall("max", (d, w))),
                ("max", FunctionCall("min", (d, w))),
                ("min", d),
            ]
        )
        if kind == "max":
            start = start[0], self.constant(weight)
            self.statements[-1] = Rule((Atom(name, start),), None)
        items: list[Literal] = [Atom(name, (x, d)), Atom(edges, (x, y, w))]
        if self.chance(30):
            limit = self.constant(weight)
            items.append(Compare(d, (("<=" if kind == "min" else ">=", limit),)))
        if self.chance(30):
            items.append(Compare(x, (("!=", self.constant(node)),)))
        head = Atom(name, (y, FunctionCall(kind, (step,))))
        self.statements.append(Rule((head,), And(tuple(items))))
        self.known.append(Relation(name, (node, weight), 6))

    def aggregated(self) -> None:
        """A rule with aggregates in its head; min and max may have several rules."""
        name = self.name("a")
        optima = self.chance(30)
        body = self.body(union=optima)
        group = [n for n in sorted(body.scope.types) if self.chance(30)][:2]
        args: list[tuple[Expr, str]] = [
            (body.of_type(kind, 1) if self.chance(25) else Var(n), kind)
            for n in group
            for kind in [body.scope.types[n]]
        ]
        if self.chance(10):
            args.append((self.constant("int"), "int"))
        inexact = False
        for _ in range(self.number(1, 2)):
            kind = self.pick(
                OPTIMA
                if optima
                else ("count", "sum", "mean", "count_distinct", "any_value", *OPTIMA)
            )
            call, result = body.aggregate_call(kind)
            inexact = inexact or kind == "mean"
            if result == "int" and not optima and self.chance(20):
                call = FunctionCall(
                    "+", (FunctionCall("*", (Const("int", 2), call)), Const("int", 1))
                )
            args.insert(self.number(0, len(args)), (call, result))
        types = tuple(kind for _, kind in args)
        size = self.work
        self.add(Atom(name, tuple(arg for arg, _ in args)), body)
        if optima and self.chance(40):
            other = self.body()
            size += self.work
            again = [
                FunctionCall(arg.name, (other.of_type(kind),))
                if isinstance(arg, FunctionCall) and arg.name in OPTIMA and len(arg.args) == 1
                else other.of_type(kind)
                for arg, kind in args
            ]
            if all(isinstance(arg, (Var, Const, FunctionCall)) for arg in again):
                self.add(Atom(name, tuple(again)), other)
        if not inexact:  # a sum of means depends on the order
            self.define(name, types, size)

    # --------------------------------------------------------------------------------- bodies

    def body(self, few: bool = False, must: Sequence[Relation] = (), union: bool = True) -> Body:
        self.work = 1
        body = Body(self, Scope())
        for relation in must:
            body.atom(relation)
        most = min(2, self.profile.atoms) if few else self.profile.atoms
        least = 1 if not must and not self.chance(5) else 0
        body.atoms(max(least, self.number(0, most) - len(must)))
        body.extras(self.number(0, 3), union)
        if not few:
            body.optionals()
        return body
