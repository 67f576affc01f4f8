"""Bodies in the oracle's normal form: a list of branches, each a list of items.

`;` is distributed: a body is a union of conjunctions. In a branch an `Atom`'s arguments are
variables, constants and parameters, anything else having got a name and an equation; a chain of
comparisons is its neighbours; `distinct` is its pairs; `Neg`, `Opt` and `Gen` (a negated body, an
optional one, an aggregate whose value has a name) hold bodies in the same form. Names that were
made here start with `%` (those of aggregates with `%agg`), those of wildcards with `_%`; only the
latter are variables of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain, combinations, count, product
from typing import Any

from gdatalog.decimals import scale_of
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Chain,
    Compare,
    Const,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Optional,
    Or,
    Param,
    Test,
    Values,
    Var,
    Wildcard,
)


@dataclass(frozen=True)
class Neg:
    body: list[list[Any]]


@dataclass(frozen=True)
class Opt:
    body: list[list[Any]]


@dataclass(frozen=True)
class Gen:
    """`name` is the aggregate of `targets` (names bound by the body) over the body.

    `aggregated`: the program's variables in the aggregated expressions."""

    name: str
    kind: str
    targets: tuple[str, ...]
    body: list[list[Any]]
    aggregated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RangeOf:
    """`item = range(...)`."""

    item: Expr
    args: tuple[Expr, ...]


ARGUMENT = "%="  # begins the names of what expressions in atoms must be equal to
_numbers = count(1)


def fresh(prefix: str = "%") -> str:
    return f"{prefix}{next(_numbers)}"


def names(node: Any) -> set[str]:
    """Every variable name that occurs anywhere in a node."""
    return set(_names(node))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, Var):
        yield node.name
    elif isinstance(node, Gen):
        yield node.name
        yield from _names(node.body)
    elif isinstance(node, (list, tuple)):
        for part in node:
            yield from _names(part)
    elif is_dataclass(node):
        for part in fields(node):
            if part.name != "span":
                yield from _names(getattr(node, part.name))


def outer_names(node: Any) -> list[str]:
    """The names outside of negations and aggregates, in order of first appearance."""
    if isinstance(node, Not):
        inner = node.body
        return outer_names(inner.body) if isinstance(inner, Not) else []
    if isinstance(node, Aggregate):
        return []
    if isinstance(node, Var):
        return [node.name]
    parts: list[Any] = []
    if isinstance(node, tuple):
        parts = list(node)
    elif is_dataclass(node):
        parts = [getattr(node, part.name) for part in fields(node) if part.name != "span"]
    return list(dict.fromkeys(name for part in parts for name in outer_names(part)))


class Normaliser:
    """`relations`: the names that are relations, for the syntax does not tell."""

    def __init__(self, relations: set[str]) -> None:
        self.relations = relations

    def body(self, literal: Literal | None) -> list[list[Any]]:
        if literal is None:
            return [[]]
        return self.branches(_name_wildcards(literal))

    def head(self, head: Atom) -> tuple[Atom, list[Gen]]:
        plain, gens = self.lift(_name_wildcards(head))
        return plain, gens

    def branches(self, literal: Literal) -> list[list[Any]]:
        match literal:
            case And(items):
                parts = [self.branches(item) for item in items]
                return [list(chain.from_iterable(choice)) for choice in product(*parts)]
            case Or(items):
                return [branch for item in items for branch in self.branches(item)]
            case Not(Not(inner)):
                return self.branches(inner)
            case Not(inner):
                return [[Neg(self.branches(inner))]]
            case Optional(inner):
                return [[Opt(self.branches(inner))]]
            case Atom(name, args) if name in self.relations:
                return self.conjunction(*self.atom(name, args))
            case Atom("distinct", args):
                pairs = combinations(args, 2)
                return self.conjunction(*(Compare(a, (("!=", b),)) for a, b in pairs))
            case Atom(name, args):
                return self.conjunction(Test(FunctionCall(name, args)))
            case Compare(first, ((op, Values() as many),)):
                chains = [self.chain(first, ((op, one),)) for one in many.constants()]
                return self.conjunction(*chain.from_iterable(chains))
            case Compare(first, rest):
                return self.conjunction(*self.chain(first, rest))
            case Member() | Test():
                return self.conjunction(literal)
        raise TypeError(f"not a literal: {literal}")

    def atom(self, name: str, args: tuple[Expr, ...]) -> list[Any]:
        """The atom over simple arguments, and what the others are equal to."""
        plain: list[Expr] = []
        equations: list[Any] = []
        for arg in args:
            if isinstance(arg, (Var, Const, Param)):
                plain.append(arg)
            else:
                plain.append(Var(fresh(ARGUMENT)))
                equations.append(Compare(plain[-1], (("=", arg),)))
        return [Atom(name, tuple(plain)), *equations]

    def chain(self, first: Expr, rest: tuple[tuple[str, Expr], ...]) -> Iterator[Any]:
        left, gens = self.lift(first)
        yield from gens
        for op, side in rest:
            right, gens = self.lift(side)
            yield from gens
            if op == "=" and isinstance(right, FunctionCall) and right.name == "range":
                yield RangeOf(left, right.args)
            elif op == "=" and isinstance(left, FunctionCall) and left.name == "range":
                yield RangeOf(right, left.args)
            else:
                yield Compare(left, ((op, right),))
            left = right

    def conjunction(self, *items: Any) -> list[list[Any]]:
        """One branch, the aggregates within the items made items of their own."""
        branch: list[Any] = []
        for item in items:
            if isinstance(item, (Gen, RangeOf)):
                branch.append(item)
                continue
            plain, gens = self.lift(item)
            branch += [*gens, plain]
        return [branch]

    def lift(self, node: Any) -> tuple[Any, list[Gen]]:
        """The node with a fresh variable in each aggregate's place, and these aggregates."""
        if isinstance(node, Aggregate):
            return self.gen(node)
        if isinstance(node, Cast) and not scale_of(node.type_name):
            return self.lift(node.operand)
        if isinstance(node, tuple):
            pairs = [self.lift(part) for part in node]
            return tuple(part for part, _ in pairs), [gen for _, gens in pairs for gen in gens]
        if not is_dataclass(node):
            return node, []
        changed, found = {}, []
        for part in fields(node):
            if part.name != "span":
                changed[part.name], gens = self.lift(getattr(node, part.name))
                found += gens
        return replace(node, **changed), found

    def gen(self, node: Aggregate) -> tuple[Var, list[Gen]]:
        targets = tuple(fresh() for _ in node.targets)
        equations = [
            Compare(Var(name), (("=", target),))
            for name, target in zip(targets, node.targets, strict=True)
        ]
        body = self.branches(And((node.body, *equations)))
        name = fresh("%agg")
        return Var(name), [Gen(name, node.kind, targets, body, frozenset(names(node.targets)))]


def _name_wildcards(node: Any) -> Any:
    """The node with a variable of its own in each wildcard's place, and calls for chains."""
    if isinstance(node, Wildcard):
        return Var(fresh("_%"))
    if isinstance(node, Chain):
        whole = _name_wildcards(node.first)
        for op, operand in node.rest:
            whole = FunctionCall(op, (whole, _name_wildcards(operand)))
        return whole
    if isinstance(node, tuple):
        return tuple(_name_wildcards(part) for part in node)
    if not is_dataclass(node):
        return node
    parts = {p.name: getattr(node, p.name) for p in fields(node) if p.name != "span"}
    return replace(node, **{name: _name_wildcards(part) for name, part in parts.items()})
