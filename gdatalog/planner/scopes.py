"""Scopes: variables local to a negation or an aggregate get a name of their own (`y~2`).

A variable in a negation that occurs nowhere else on its branch is local to it. A variable of
an aggregate is the rule's if the rule without its aggregates binds it; else it is local to that
aggregate, and where a min or max has such a one that is used outside, it is exported.

`bound` is what the scope binds without its aggregates, `used` and `direct` are the variables
that occur elsewhere on the same branch: anywhere, and outside of aggregates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gdatalog.errors import Error, SafetyError, Span
from gdatalog.parser.syntax import Aggregate, And, Atom, Call, Cast, Expr, Literal, Not, Or, Var
from gdatalog.planner.binding import bound_by
from gdatalog.planner.walk import N, Node, children, rebuild, variables
from gdatalog.planner.words import own_name

Names = frozenset[str]


@dataclass(slots=True)
class Fresh:
    """Names that no user can write."""

    number: int = 0

    def name(self, stem: str) -> str:
        self.number += 1
        return f"{own_name(stem)}~{self.number}"


@dataclass(slots=True)
class Scopes:
    fresh: Fresh
    errors: list[Error]
    exported: dict[str, Span] = field(default_factory=dict)

    def rule(self, heads: Iterable[Atom], body: Literal) -> Literal:
        """The body with its local variables renamed; those of the heads are never local."""
        in_heads = frozenset(name for head in heads for name in variables(head))
        return self._literal(body, _binds(body, frozenset()), in_heads, in_heads)

    def _literal(self, literal: Literal, bound: Names, used: Names, direct: Names) -> Literal:
        match literal:
            case And():
                everywhere = Counter(n for item in literal.items for n in variables(item))
                outside = Counter(n for item in literal.items for n in direct_variables(item))
                items = []
                for item in literal.items:
                    others = _others(everywhere, variables(item))
                    beside = _others(outside, direct_variables(item))
                    items.append(self._literal(item, bound, used | others, direct | beside))
                return replace(literal, items=tuple(items))
            case Or():
                branches = (
                    self._literal(item, _binds(item, bound), used, direct) for item in literal.items
                )
                return replace(literal, items=tuple(branches))
            case Not():
                return self._negation(literal, bound, used, direct)
            case _:
                direct |= direct_variables(literal).keys()
                return rebuild(literal, lambda expr: self._expr(expr, bound, direct))

    def _negation(self, negation: Not, bound: Names, used: Names, direct: Names) -> Not:
        inside = [name for name in variables(negation.body) if name not in used]
        body = rename(negation.body, {name: self.fresh.name(name) for name in inside})
        return replace(negation, body=self._literal(body, _binds(body, bound), used, direct))

    def _expr(self, expr: Expr, bound: Names, direct: Names) -> Expr:
        match expr:
            case Aggregate():
                return self._aggregate(expr, bound, direct)
            case Call() | Cast():
                return rebuild(expr, lambda part: self._expr(part, bound, direct))
            case _:
                return expr

    def _aggregate(self, aggregate: Aggregate, bound: Names, direct: Names) -> Aggregate:
        inside = [name for name in variables(aggregate) if name not in bound]
        exports = [name for name in inside if name in direct]
        if exports and aggregate.kind not in ("min", "max"):
            self._escapes(aggregate, exports)
        for name in exports:
            self._export_once(aggregate, name)
        new = {name: self.fresh.name(name) for name in inside if name not in exports}
        renamed = rename(aggregate, new) if new else aggregate
        # Inside, the rest of the rule is out of sight: what is shared is bound already.
        targets = frozenset(name for target in renamed.targets for name in variables(target))
        held = bound & variables(renamed).keys()
        used = targets | held | frozenset(exports)
        body = self._literal(renamed.body, _binds(renamed.body, held), used, targets)
        whole = replace(renamed, body=body)
        own = tuple(name for name in variables(whole) if name not in bound)
        return replace(whole, exports=tuple(exports), locals=own)

    def _escapes(self, aggregate: Aggregate, names: list[str]) -> None:
        name = own_name(names[0])
        self.errors.append(
            SafetyError(
                f"`{name}` is local to this {aggregate.kind}, and is used outside of it too",
                variables(aggregate)[names[0]].span,
                hint=f"bind `{name}` by an atom outside to share it, or rename one of the two; "
                "only min and max give out the values of their rows",
            )
        )

    def _export_once(self, aggregate: Aggregate, name: str) -> None:
        here = variables(aggregate)[name].span
        if name in self.exported:
            self.errors.append(
                SafetyError(
                    f"`{own_name(name)}` would come out of two aggregates",
                    here,
                    hint="rename it in one of them, and compare the two with `=`",
                )
            )
        self.exported[name] = here


def rename(node: N, names: Mapping[str, str]) -> N:
    """The node with its variables renamed."""
    if isinstance(node, Var):
        return replace(node, name=names[node.name]) if node.name in names else node
    return rebuild(node, lambda part: rename(part, names))


def direct_variables(node: Node) -> dict[str, Var]:
    """The variables that occur outside of aggregates."""
    found: dict[str, Var] = {}
    _collect_direct(node, found)
    return found


def _collect_direct(node: Node, found: dict[str, Var]) -> None:
    if isinstance(node, Var):
        found.setdefault(node.name, node)
    elif not isinstance(node, Aggregate):
        for child in children(node):
            _collect_direct(child, found)


def _binds(literal: Literal, bound: Names) -> Names:
    return bound_by(literal, bound, aggregates=False)


def _others(counts: Counter[str], own: Iterable[str]) -> Names:
    """What occurs in other items than the one whose variables are `own`."""
    mine = set(own)
    return frozenset(name for name, number in counts.items() if number > (name in mine))
