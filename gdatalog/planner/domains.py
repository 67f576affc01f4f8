"""Key domains: columns and variables of a stratum whose keys are only compared with each other.

If rules only compare keys with each other and with constants, dictionary codes in the same order
can replace the keys (`engine/encoding.py`). Keys that a function reads or a rule computes cannot
be replaced. Parameters, for codes, replace the constants that are compared with keys of a domain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.walk import Node, conjunction, rebuild, walk
from gdatalog.planner.comparisons import FLIPPED
from gdatalog.records import dataclass, replace

Column = tuple[str, int]  # a relation's name, and a column
Name = tuple[int, str]  # a rule's number, and a variable
LITERALS = get_args(s.Literal)
# Aggregates whose value is one of their input keys.
_CHOOSING = frozenset({"min", "max", "any_value"})


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """Columns and variables that share keys.

    `ordered`: the order of keys matters. `joined`: a rule looks its keys up.
    """

    columns: frozenset[Column]
    variables: frozenset[Name]
    ordered: bool
    joined: bool


@dataclass(frozen=True, slots=True)
class ConstantUse:
    """A constant expression that is compared with keys of a domain; a parameter replaces it.

    `op`: the operator. `exact`: the constant needs a code, since it may become a value of the
    answer.
    """

    name: str
    domain: int  # the domain's number in the stratum
    value: s.Expr
    op: str
    exact: bool


def domains_of(stratum: Stratum, schemas: Mapping[str, Schema]) -> tuple[KeyDomain, ...]:
    """The domains of ints of a stratum's rules that include a column of an earlier stratum."""
    found = _UnionFind()
    for number, rule in enumerate(stratum.rules):
        found.rule(number, rule)
    return tuple(found.domains(stratum, schemas))


class _UnionFind:
    """Unites columns and variables that are compared."""

    def __init__(self) -> None:
        self._parent: dict[Column | Name, Column | Name] = {}
        self._open: set[Column | Name] = set()
        self._ordered: set[Column | Name] = set()
        self._met: set[Column | Name] = set()  # variables that occur more than once in atoms
        self._number = 0

    def domains(self, stratum: Stratum, schemas: Mapping[str, Schema]) -> Iterator[KeyDomain]:
        columns: defaultdict[Column | Name, set[Column]] = defaultdict(set)
        variables: defaultdict[Column | Name, set[Name]] = defaultdict(set)
        for node in list(self._parent):
            match node:
                case (str(relation), int(at)):
                    columns[self._root(node)].add((relation, at))
                case (int(rule), str(name)):
                    variables[self._root(node)].add((rule, name))
        closed, ordered, met = (
            {self._root(node) for node in nodes} for nodes in (self._open, self._ordered, self._met)
        )
        for root, members in columns.items():
            below = any(name not in stratum.relations for name, _ in members)
            ints = all(schemas[name].types[at] == "int" for name, at in members)
            if root not in closed and below and ints:
                names = frozenset(variables[root])
                yield KeyDomain(frozenset(members), names, root in ordered, root in met)

    def _root(self, node: Column | Name) -> Column | Name:
        parent = self._parent.setdefault(node, node)
        while parent != node:
            self._parent[node] = self._parent[parent]
            node, parent = parent, self._parent[parent]
        return node

    def _unite(self, nodes: Sequence[Column | Name], ordered: bool = False) -> None:
        for node in nodes:
            self._parent[self._root(node)] = self._root(nodes[0])
            if ordered:
                self._ordered.add(node)

    def _opens(self, node: Node) -> None:
        """Excludes the variables of an expression, without those in the bodies of its
        aggregates."""
        for part in walk(node, s.Aggregate):
            if isinstance(part, s.Var):
                self._root(self._name(part))
                self._open.add(self._name(part))
            elif isinstance(part, s.Aggregate):
                for target in part.targets:
                    self._opens(target)
                self._literal(part.body)

    def _name(self, var: s.Var) -> Name:
        return self._number, var.name

    def rule(self, number: int, rule: CheckedRule) -> None:
        self._number = number
        for at, arg in enumerate(rule.head.args):
            self._head(arg, (rule.head.name, at))
        if rule.body is not None:
            self._literal(rule.body)
            atoms = rule.atoms
            names = Counter(arg.name for a in atoms for arg in a.args if isinstance(arg, s.Var))
            self._met.update((number, name) for name, uses in names.items() if uses > 1)

    def _head(self, arg: s.Expr | s.HeadAggregate, column: Column) -> None:
        self._root(column)
        if isinstance(arg, s.HeadAggregate) and arg.kind in _CHOOSING and len(arg.targets) == 1:
            self._ordered.add(column)
            (arg,) = arg.targets
        match arg:
            case s.Var():
                self._unite([column, self._name(arg)])
            case _ if is_constant(arg):
                pass
            case s.HeadAggregate("count_distinct", targets):
                self._open.add(column)
                for target in targets:
                    if not isinstance(target, s.Var):
                        self._opens(target)
            case _:
                self._open.add(column)
                self._opens(arg)

    def _literal(self, node: s.Literal) -> None:
        match node:
            case s.Atom():
                for at, arg in enumerate(node.args):
                    self._root((node.name, at))
                    if isinstance(arg, s.Var):
                        self._unite([(node.name, at), self._name(arg)])
                    elif not is_constant(arg):
                        self._open.add((node.name, at))
                        self._opens(arg)
            case s.Compare():
                for left, op, right in neighbours(node):
                    self._compared((left, right), op not in ("=", "!="))
            case s.Distinct(args):
                self._compared(args)
            case s.Member(item, values):
                if isinstance(item, s.Var) and all(map(is_constant, values)):
                    self._root(self._name(item))
                else:
                    self._opens(node)
            case s.Not(body):
                self._literal(body)
            case s.And(items) | s.Or(items):
                for part in items:
                    self._literal(part)
            case _:
                self._opens(node)

    def _compared(self, sides: Sequence[s.Expr], ordered: bool = False) -> None:
        names = [self._name(side) for side in sides if isinstance(side, s.Var)]
        if names and all(isinstance(side, s.Var) or is_constant(side) for side in sides):
            self._unite(names, ordered)
        else:
            for side in sides:
                self._opens(side)


def is_constant(node: Node) -> bool:
    """Whether an expression consists of constants and parameters."""
    return all(
        isinstance(part, s.Const | s.Param | s.FunctionCall | s.Chain) for part in walk(node)
    )


def encoded_rules(
    rules: Sequence[CheckedRule], domains: Sequence[KeyDomain], chosen: Collection[int]
) -> tuple[tuple[CheckedRule, ...], tuple[ConstantUse, ...]]:
    """The rules with parameters in place of the constants that are compared with keys of the chosen
    domains."""
    columns = {column: at for at in chosen for column in domains[at].columns}
    names = {name: at for at in chosen for name in domains[at].variables}
    uses: dict[tuple[int, s.Expr, str, bool], ConstantUse] = {}
    changed = [_Encoder(number, columns, names, uses).rule(r) for number, r in enumerate(rules)]
    return tuple(changed), tuple(uses.values())


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Replaces the constants of a rule."""

    number: int
    columns: Mapping[Column, int]
    names: Mapping[Name, int]
    uses: dict[tuple[int, s.Expr, str, bool], ConstantUse]

    def rule(self, rule: CheckedRule) -> CheckedRule:
        args = tuple(
            self._head(arg, self.columns.get((rule.head.name, at)))
            for at, arg in enumerate(rule.head.args)
        )
        body = None if rule.body is None else self._node(rule.body)
        return replace(rule, head=replace(rule.head, args=args), body=body)

    def _head(self, arg: s.Expr, domain: int | None) -> s.Expr:
        if isinstance(arg, s.HeadAggregate) and domain is not None:
            return rebuild(arg, lambda target: self._head(target, domain))
        return self._constant(arg, domain, "=", True)

    def _constant(self, arg: s.Expr, domain: int | None, op: str, exact: bool) -> s.Expr:
        if domain is None or not is_constant(arg):
            return arg
        key = (domain, arg, op, exact)
        if key not in self.uses:  # names of users' parameters have no ~
            self.uses[key] = ConstantUse(f"code~{len(self.uses)}", domain, arg, op, exact)
        return s.Param(self.uses[key].name, arg.span)

    def _domain(self, side: s.Expr) -> int | None:
        return self.names.get((self.number, side.name)) if isinstance(side, s.Var) else None

    def _node(self, node: s.Literal) -> s.Literal:
        match node:
            case s.Atom(name, args):
                args = tuple(
                    self._constant(arg, self.columns.get((name, at)), "=", False)
                    for at, arg in enumerate(args)
                )
                return rebuild(replace(node, args=args), self._any)
            case s.Compare():
                return self._compared(node)
            case s.Distinct(args):
                domain = next((d for d in map(self._domain, args) if d is not None), None)
                args = tuple([self._constant(arg, domain, "!=", False) for arg in args])
                return replace(node, args=args) if domain is not None else node
            case s.Member(item, values) if (domain := self._domain(item)) is not None:
                values = tuple([self._constant(value, domain, "=", True) for value in values])
                return replace(node, values=values)
            case s.And(items):
                return conjunction(map(self._node, items), node.span)
        return rebuild(node, self._any)

    def _any(self, node: Any) -> Any:
        """A part of a literal or of an expression; aggregates in expressions have bodies."""
        return self._node(node) if isinstance(node, LITERALS) else rebuild(node, self._any)

    def _compared(self, node: s.Compare) -> s.Literal:
        """A chain; if a constant becomes a code, the conjunction of its pairs."""
        pairs = [self._pair(*pair, node) for pair in neighbours(node)]
        if all(
            new.first is a and new.rest[0][1] is b
            for new, (a, _, b) in zip(pairs, neighbours(node), strict=True)
        ):
            return node
        return conjunction(pairs, node.span)

    def _pair(self, left: s.Expr, op: str, right: s.Expr, node: s.Compare) -> s.Compare:
        a, b = self._domain(left), self._domain(right)
        first = self._constant(left, b, FLIPPED[op], op == "=")
        last = self._constant(right, a, op, op == "=")
        return s.Compare(self._any(first), ((op, self._any(last)),), node.span)
