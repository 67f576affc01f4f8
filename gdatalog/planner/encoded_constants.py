"""Replaces the constants that are compared with keys of a domain by parameters, for their codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.walk import conjunction, rebuild
from gdatalog.planner.comparisons import FLIPPED
from gdatalog.planner.domains import LITERALS, Column, ConstantUse, KeyDomain, Name, is_constant
from gdatalog.records import dataclass, replace


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
