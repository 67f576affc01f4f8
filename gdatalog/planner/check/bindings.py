"""Which variables a body binds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from gdatalog.parser import syntax as s
from gdatalog.plan.join_plan import SOLVED
from gdatalog.planner.check.walk import Node, children, variables, walk
from gdatalog.values import TypeName

Names = frozenset[str]


Types = Mapping[str, TypeName] | None


def bound_by(
    literal: s.Literal, bound: Names, types: Types = None, *, aggregates: bool = True
) -> Names:
    """The variables that are bound after `literal`, including those of `bound`.

    `+` and `-` are solved for ints, timestamps and durations only; without `types`, every variable
    is taken for an int. With `aggregates=False`, aggregates bind nothing.
    """
    found = set(bound)
    _bind(literal, found, types, aggregates)
    return frozenset(found)


def _bind(literal: s.Literal, bound: set[str], types: Types, aggregates: bool) -> None:
    """Adds the variables that a literal binds to `bound`."""
    match literal:
        case s.And(items):
            # Alternates directions, so that a long chain of `=` is quick in either order.
            before = -1
            while before != len(bound) and (types is None or not types.keys() <= bound):
                before = len(bound)
                for item in items:
                    _bind(item, bound, types, aggregates)
                items = items[::-1]
            return
        case s.Or(items):
            branches = [set(bound) for _ in items]
            for item, branch in zip(items, branches, strict=True):
                _bind(item, branch, types, aggregates)
            bound |= set.intersection(*branches)
            return
        case s.Not() | s.Optional():
            return
        case s.Atom():
            names = [arg.name for arg in literal.args if type(arg) is s.Var]
            bound.update(names)
            if len(names) == len(literal.args):
                return
            args = [_bare(arg) for arg in literal.args]
            bound.update([arg.name for arg in args if isinstance(arg, s.Var)])
            waiting = [arg for arg in args if isinstance(arg, s.FunctionCall | s.Chain)]
            for _ in waiting:
                for arg in waiting:
                    _solve(arg, (), bound, types, aggregates)
        case s.Compare():
            # Each pass moves values one step to the left in a chain of `=`.
            for _ in literal.rest if "=" in dict(literal.rest) else ():
                for left, op, right in neighbours(literal):
                    if op == "=" and s.Null not in (type(left), type(right)):
                        _solve(left, (right,), bound, types, aggregates)
                        _solve(right, (left,), bound, types, aggregates)
        case s.Member() | s.Range() if isinstance(_bare(literal.item), s.Var):
            _solve(literal.item, children(literal)[1:], bound, types, aggregates)
    for part in walk(literal, s.Aggregate) if aggregates else ():
        if isinstance(part, s.Aggregate) and part.exports and ready(part, bound):
            bound.update(part.exports)


def _solve(
    item: Node, values: Iterable[Node], bound: set[str], types: Types, aggregates: bool
) -> None:
    """Binds the variable that an item is solved for, once all values are known."""
    if all(ready(value, bound, aggregates) for value in values):
        name = solvable(item, bound, types, aggregates)
        if name is not None:
            bound.add(name)


def ready(expr: Node, bound: Set[str], aggregates: bool = True) -> bool:
    """Whether the expression can be computed: all its variables are bound."""
    match expr:
        case s.Var(name):
            return name in bound
        case s.Aggregate():
            return aggregates and all(name in bound for name in shared_by(expr))
        case s.Wildcard():
            return False
        case _:
            return all(ready(part, bound, aggregates) for part in children(expr))


def shared_by(aggregate: s.Aggregate) -> list[str]:
    """The variables of an aggregate that belong to the rule, and must be bound before it."""
    return [name for name in variables(aggregate) if name not in aggregate.locals]


def neighbours(compare: s.Compare) -> Iterator[tuple[s.Expr, str, s.Expr]]:
    """The comparisons of a chain: `x < y <= z` is `x < y` and `y <= z`."""
    left = compare.first
    for op, right in compare.rest:
        yield left, op, right
        left = right


def solvable(
    expr: Node, bound: Set[str], types: Types = None, aggregates: bool = True
) -> str | None:
    """The only unbound variable of `expr`, if the expression's value determines it: it stands alone
    or under `+` and `-`."""
    match expr:
        case s.Var(name):
            return None if name in bound else name
        case s.Cast(operand):
            return solvable(operand, bound, types, aggregates)
        case s.FunctionCall("+" | "-") | s.Chain(rest=(("+" | "-", _), *_)):
            waiting = [arg for arg in children(expr) if not ready(arg, bound, aggregates)]
            if len(waiting) != 1:
                return None
            solved = solvable(waiting[0], bound, types, aggregates)
            if solved is None or (types is not None and types.get(solved, "int") not in SOLVED):
                return None
            if types is not None and "date" in [types.get(name) for name in variables(expr)]:
                return None
            return solved
        case _:
            return None


def _bare(expr: s.Expr) -> s.Expr:
    while isinstance(expr, s.Cast):
        expr = expr.operand
    return expr
