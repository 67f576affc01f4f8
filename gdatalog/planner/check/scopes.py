"""Scopes: which variables literals bind, and which are local to a negation or an aggregate.

A local variable is renamed (`y~2`). A variable of a negation is local if it occurs nowhere else on
its branch. A variable of an aggregate is shared with the rule if the rule binds it without its
aggregates; otherwise it is local, as in Soufflé. It is also local if it occurs in the aggregated
expression and the aggregate's own body binds it. A local variable of a min or max that is used
outside is exported, unless the aggregate's value binds it there: in `y = min z + y : { ... }` the
two `y` are different variables.

Parameters: `bound` are the variables that the scope binds without its aggregates. `used` are those
that occur elsewhere on the same branch, `direct` those that do so outside of aggregates.

A positive atom binds the variables among its arguments, and solves `y + 1` for y. `=` binds either
side from the other; `in {...}` and `range` bind a variable from bound values. An aggregate binds
its result through `=`; a min or max also binds its exports. `;` binds the variables that all its
branches bind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gdatalog.errors import Caution, Error, SafetyError
from gdatalog.parser import syntax as s
from gdatalog.planner.check.bindings import Names, bound_by
from gdatalog.planner.check.walk import (
    LEAVES,
    N,
    Node,
    children,
    names_in,
    variables,
    with_children,
)
from gdatalog.planner.check.wording import own_name
from gdatalog.records import dataclass, replace


def local_name(stem: str, numbers: Iterator[int]) -> str:
    """A name that no user can write; `numbers`: those that the rule has not used yet."""
    return f"{own_name(stem)}~{next(numbers)}"


@dataclass(slots=True)
class Scopes:
    numbers: Iterator[int]  # of local names
    errors: list[Error]
    cautions: list[Caution]
    exported: Names = frozenset()
    # Of the rule or the aggregate at hand: what is bound before, and the scopes inside each other.
    held: Names = frozenset()
    scopes: tuple[s.Literal, ...] = ()

    def rule(self, heads: Iterable[s.Atom], body: s.Literal) -> s.Literal:
        """The body with its local variables renamed; those of the heads are never local."""
        in_heads = names_in(heads)
        self.scopes = ()
        return self._scope(body, _binds(body, frozenset()), in_heads, in_heads)

    def _scope(self, literal: s.Literal, bound: Names, used: Names, direct: Names) -> s.Literal:
        """A literal that binds some variables for its own parts only."""
        outside = self.scopes
        self.scopes = (*outside, literal)
        scoped = self._literal(literal, bound, used, direct)
        self.scopes = outside
        return scoped

    def _literal(self, literal: s.Literal, bound: Names, used: Names, direct: Names) -> s.Literal:
        match literal:
            case s.And():
                everywhere = Counter(n for item in literal.items for n in variables(item))
                outside = Counter(n for item in literal.items for n in variables(item, s.Aggregate))
                items = []
                for item in literal.items:
                    others = _others(everywhere, variables(item))
                    beside = _others(outside, variables(item, s.Aggregate))
                    items.append(self._literal(item, bound, used | others, direct | beside))
                return replace(literal, items=tuple(items))
            case s.Or():
                branches = []
                before, after = self.exported, self.exported
                for item in literal.items:
                    self.exported = before
                    branches.append(self._scope(item, _binds(item, bound), used, direct))
                    after |= self.exported
                self.exported = after
                return replace(literal, items=tuple(branches))
            case s.Not():
                return self._negation(literal, bound, used, direct)
            case _:
                direct |= variables(literal, s.Aggregate).keys()
                exprs: list[Any] = children(literal)
                return with_children(literal, [self._expr(e, bound, direct) for e in exprs])

    def _negation(self, negation: s.Not, bound: Names, used: Names, direct: Names) -> s.Not:
        inside = [name for name in variables(negation.body) if name not in used]
        body = rename(negation.body, {name: local_name(name, self.numbers) for name in inside})
        return replace(negation, body=self._scope(body, _binds(body, bound), used, direct))

    def _expr(self, expr: s.Expr, bound: Names, direct: Names) -> s.Expr:
        if isinstance(expr, s.Aggregate):
            return self._aggregate(expr, bound, direct)
        if type(expr) in LEAVES:
            return expr
        parts: list[Any] = children(expr)
        return with_children(expr, [self._expr(part, bound, direct) for part in parts])

    def _aggregate(self, aggregate: s.Aggregate, bound: Names, direct: Names) -> s.Aggregate:
        own = _own_targets(aggregate, bound)
        for name in own & bound:
            self._hides(aggregate, name)
        bound = (bound - own) & variables(aggregate).keys()
        inside = [name for name in variables(aggregate) if name not in bound]
        exports = self._exports(aggregate, [name for name in inside if name in direct], own)
        if exports and aggregate.kind not in ("min", "max"):
            self._escapes(aggregate, exports[0])
        for name in exports:
            self._export_once(aggregate, name)
        new = {name: local_name(name, self.numbers) for name in inside if name not in exports}
        renamed = rename(aggregate, new) if new else aggregate
        # The body does not see the rest of the rule; shared variables are bound before it.
        targets = names_in(renamed.targets)
        used = targets | bound | frozenset(exports)
        outside, self.held, self.scopes = (self.held, self.scopes), bound, ()
        body = self._scope(renamed.body, _binds(renamed.body, bound), used, targets)
        self.held, self.scopes = outside
        whole = replace(renamed, body=body)
        mine = tuple([name for name in variables(whole) if name not in bound])
        return replace(whole, exports=tuple(exports), locals=mine)

    def _exports(self, aggregate: s.Aggregate, names: list[str], own: Names) -> list[str]:
        """The exported variables: of `names`, which also occur outside, those that no aggregate's
        value binds there."""
        if not names:
            return []
        valued = self._known(None)
        others = self._known(aggregate)
        for name in names:
            if name in others and name not in own:
                self._of_another(aggregate, name)
        return [name for name in names if name not in valued]

    def _known(self, but: s.Aggregate | None) -> Names:
        """What is bound here when all aggregates have values, or all but one."""
        known = self.held | {VALUE.name}
        for literal in self.scopes:
            known = _binds(valued(literal, but), known)
        return known

    def _hides(self, aggregate: s.Aggregate, name: str) -> None:
        shown = own_name(name)
        message = f"the `{shown}` in this {aggregate.kind} is not the `{shown}` outside of it: the "
        message += "variables of what is aggregated are the aggregate's own"
        hint = "rename one of the two"
        self.cautions.append(Caution(message, aggregate.span, hint, cause="own"))

    def _fail(self, message: str, aggregate: s.Aggregate, name: str, hint: str) -> None:
        self.errors.append(SafetyError(message, variables(aggregate)[name].span, hint=hint))

    def _of_another(self, aggregate: s.Aggregate, name: str) -> None:
        shown = own_name(name)
        message = f"`{shown}` is local to this {aggregate.kind}, and outside of it is the value of "
        message += "another aggregate"
        hint = f"to share it, compute `{shown}` in a rule of its own and read it here by an "
        self._fail(message, aggregate, name, hint + "atom; else rename one of the two")

    def _escapes(self, aggregate: s.Aggregate, name: str) -> None:
        shown = own_name(name)
        message = f"`{shown}` is local to this {aggregate.kind}, and is used outside of it too"
        hint = f"bind `{shown}` by an atom outside to share it, or rename one of the two; "
        hint += "only min and max give out the values of their rows"
        self._fail(message, aggregate, name, hint)

    def _export_once(self, aggregate: s.Aggregate, name: str) -> None:
        if name in self.exported:
            message = f"two aggregates would bind `{own_name(name)}`"
            hint = "rename it in one of them, and compare the two with `=`"
            self._fail(message, aggregate, name, hint)
        self.exported |= {name}


VALUE = s.Var("~value")  # stands for the value of any aggregate


def valued(node: N, but: s.Aggregate | None) -> N:
    """The node with a variable in the place of each aggregate but one."""

    below: list[Node] = []
    for part in children(node):
        if isinstance(part, s.Aggregate):
            below.append(part if part is but else VALUE)
        else:
            below.append(valued(part, but))
    return with_children(node, below)


def _own_targets(aggregate: s.Aggregate, bound: Names) -> Names:
    """The variables of the aggregated expression that the aggregate's own body binds."""
    targets = names_in(aggregate.targets)
    return targets & _binds(aggregate.body, bound - targets)


def rename(node: N, names: Mapping[str, str]) -> N:
    """The node with its variables renamed."""
    if isinstance(node, s.Var):
        return replace(node, name=names[node.name]) if node.name in names else node
    if type(node) in LEAVES:
        return node
    return with_children(node, [rename(part, names) for part in children(node)])


def _binds(literal: s.Literal, bound: Names) -> Names:
    return bound_by(literal, bound, aggregates=False)


def _others(counts: Counter[str], own: Iterable[str]) -> Names:
    """The variables of items other than the one whose variables are `own`."""
    mine = set(own)
    return frozenset([name for name, number in counts.items() if number > (name in mine)])
