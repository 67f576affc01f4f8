"""Scopes: variables local to a negation or an aggregate get a name of their own (`y~2`).

A variable in a negation that occurs nowhere else on its branch is local to it. A variable of
an aggregate is the rule's if the rule without its aggregates binds it, unless it stands in the
aggregated expression and the aggregate's own body binds it; else it is local to that aggregate,
as in Soufflé. A local variable of a min or max that is used outside is exported, unless the
aggregate's value binds it there: in `y = min z + y : { ... }` the two `y` are different variables.

`bound` is what the scope binds without its aggregates, `used` and `direct` are the variables
that occur elsewhere on the same branch: anywhere, and outside of aggregates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gdatalog.errors import Caution, Error, SafetyError
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Cast,
    Chain,
    Expr,
    FunctionCall,
    Literal,
    Not,
    Or,
    Var,
)
from gdatalog.planner.binding import bound_by
from gdatalog.planner.check.checked import own_name
from gdatalog.planner.check.walk import N, Node, children, rebuild, variables
from gdatalog.records import dataclass, replace

Names = frozenset[str]


@dataclass(slots=True)
class FreshNames:
    """Names that no user can write."""

    number: int = 0

    def name(self, stem: str) -> str:
        self.number += 1
        return f"{own_name(stem)}~{self.number}"


@dataclass(slots=True)
class Scopes:
    fresh: FreshNames
    errors: list[Error]
    cautions: list[Caution]
    exported: Names = frozenset()
    # Of the rule or the aggregate at hand: what is bound before, and the scopes inside each other.
    held: Names = frozenset()
    scopes: tuple[Literal, ...] = ()

    def rule(self, heads: Iterable[Atom], body: Literal) -> Literal:
        """The body with its local variables renamed; those of the heads are never local."""
        in_heads = frozenset(name for head in heads for name in variables(head))
        self.scopes = ()
        return self._scope(body, _binds(body, frozenset()), in_heads, in_heads)

    def _scope(self, literal: Literal, bound: Names, used: Names, direct: Names) -> Literal:
        """A literal that binds some variables for its own parts only."""
        outside = self.scopes
        self.scopes = (*outside, literal)
        scoped = self._literal(literal, bound, used, direct)
        self.scopes = outside
        return scoped

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
                branches = []
                before, after = self.exported, self.exported
                for item in literal.items:
                    self.exported = before
                    branches.append(self._scope(item, _binds(item, bound), used, direct))
                    after |= self.exported
                self.exported = after
                return replace(literal, items=tuple(branches))
            case Not():
                return self._negation(literal, bound, used, direct)
            case _:
                direct |= direct_variables(literal).keys()
                return rebuild(literal, lambda expr: self._expr(expr, bound, direct))

    def _negation(self, negation: Not, bound: Names, used: Names, direct: Names) -> Not:
        inside = [name for name in variables(negation.body) if name not in used]
        body = rename(negation.body, {name: self.fresh.name(name) for name in inside})
        return replace(negation, body=self._scope(body, _binds(body, bound), used, direct))

    def _expr(self, expr: Expr, bound: Names, direct: Names) -> Expr:
        match expr:
            case Aggregate():
                return self._aggregate(expr, bound, direct)
            case FunctionCall() | Chain() | Cast():
                return rebuild(expr, lambda part: self._expr(part, bound, direct))
            case _:
                return expr

    def _aggregate(self, aggregate: Aggregate, bound: Names, direct: Names) -> Aggregate:
        own = _own_targets(aggregate, bound)
        for name in own & bound:
            self._hides(aggregate, name)
        bound = (bound - own) & variables(aggregate).keys()
        inside = [name for name in variables(aggregate) if name not in bound]
        exports = self._exports(aggregate, [name for name in inside if name in direct], own)
        if exports and aggregate.kind not in ("min", "max"):
            self._escapes(aggregate, exports)
        for name in exports:
            self._export_once(aggregate, name)
        new = {name: self.fresh.name(name) for name in inside if name not in exports}
        renamed = rename(aggregate, new) if new else aggregate
        # Inside, the rest of the rule is out of sight: what is shared is bound already.
        targets = frozenset(name for target in renamed.targets for name in variables(target))
        used = targets | bound | frozenset(exports)
        outside, self.held, self.scopes = (self.held, self.scopes), bound, ()
        body = self._scope(renamed.body, _binds(renamed.body, bound), used, targets)
        self.held, self.scopes = outside
        whole = replace(renamed, body=body)
        mine = tuple(name for name in variables(whole) if name not in bound)
        return replace(whole, exports=tuple(exports), locals=mine)

    def _exports(self, aggregate: Aggregate, names: list[str], own: Names) -> list[str]:
        """Which of its variables that occur outside the aggregate gives values to: those that no
        value of an aggregate binds there."""
        if not names:
            return []
        valued = self._known(None)
        others = self._known(aggregate)
        for name in names:
            if name in others and name not in own:
                self._of_another(aggregate, name)
        return [name for name in names if name not in valued]

    def _known(self, but: Aggregate | None) -> Names:
        """What is bound here when all aggregates have values, or all but one."""
        known = self.held | {_VALUE.name}
        for literal in self.scopes:
            known = _binds(_valued(literal, but), known)
        return known

    def _hides(self, aggregate: Aggregate, name: str) -> None:
        shown = own_name(name)
        self.cautions.append(
            Caution(
                f"the `{shown}` in this {aggregate.kind} is not the `{shown}` outside of it: the "
                "variables of what is aggregated are the aggregate's own",
                aggregate.span,
                "rename one of the two",
                cause="own",
            )
        )

    def _of_another(self, aggregate: Aggregate, name: str) -> None:
        shown = own_name(name)
        self.errors.append(
            SafetyError(
                f"`{shown}` is local to this {aggregate.kind}, and outside of it is the value of "
                "another aggregate",
                variables(aggregate)[name].span,
                hint=f"to share it, compute `{shown}` in a rule of its own and read it here by an "
                "atom; else rename one of the two",
            )
        )

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
        if name in self.exported:
            self.errors.append(
                SafetyError(
                    f"`{own_name(name)}` would come out of two aggregates",
                    variables(aggregate)[name].span,
                    hint="rename it in one of them, and compare the two with `=`",
                )
            )
        self.exported |= {name}


_VALUE = Var("~value")  # stands for the value of any aggregate


def _valued(node: N, but: Aggregate | None) -> N:
    """The node with a variable in the place of each aggregate but one."""

    def change(part: Node) -> Node:
        if isinstance(part, Aggregate):
            return part if part is but else _VALUE
        return rebuild(part, change)

    return rebuild(node, change)


def _own_targets(aggregate: Aggregate, bound: Names) -> Names:
    """The variables of the aggregated expression that the aggregate's own body binds."""
    targets = frozenset(name for target in aggregate.targets for name in variables(target))
    return targets & _binds(aggregate.body, bound - targets)


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
    """The variables of items other than the one whose variables are `own`."""
    mine = set(own)
    return frozenset(name for name, number in counts.items() if number > (name in mine))
