"""Which variables a literal binds: one definition for scopes, safety checks and the planner.

A positive atom binds the variables among its arguments, and solves `y + 1` for y. `=` binds either
side from the other. `in {...}` and `range` bind from bound values. An aggregate binds its result
through `=`; a min or max also binds its exports. `;` binds the variables that every branch binds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdatalog.parser import syntax as s
from gdatalog.planner.check.walk import variables
from gdatalog.values import TypeName


def bound_by(
    literal: s.Literal,
    bound: frozenset[str],
    types: Mapping[str, TypeName] | None = None,
    *,
    aggregates: bool = True,
) -> frozenset[str]:
    """The variables that are bound after `literal`, including those of `bound`.

    `+` and `-` are solved for ints only; without `types`, every variable is taken for an int. With
    `aggregates=False`, aggregates bind nothing.
    """
    found = set(bound)
    _bind(literal, found, types, aggregates)
    return frozenset(found)


def ready(expr: s.Expr, bound: frozenset[str] | set[str], aggregates: bool = True) -> bool:
    """Whether the expression can be computed: all its variables are bound."""
    match expr:
        case s.Var(name):
            return name in bound
        case s.Const() | s.Param() | s.Values() | s.ListParam():
            return True
        case s.FunctionCall():
            return all(ready(arg, bound, aggregates) for arg in expr.args)
        case s.Chain():
            return all(ready(operand, bound, aggregates) for operand in operands(expr))
        case s.Cast(operand):
            return ready(operand, bound, aggregates)
        case s.Aggregate():
            return aggregates and all(name in bound for name in shared_by(expr))
        case s.Wildcard():
            return False


def shared_by(aggregate: s.Aggregate) -> list[str]:
    """The variables of an aggregate that belong to the rule, and must be bound before it."""
    return [name for name in variables(aggregate) if name not in aggregate.locals]


def aggregates_in(literal: s.Literal) -> Iterator[s.Aggregate]:
    """The outermost aggregates in the expressions of a literal."""
    for expr in expressions(literal):
        yield from outermost(expr)


def outermost(expr: s.Expr) -> Iterator[s.Aggregate]:
    match expr:
        case s.Aggregate():
            yield expr
        case s.FunctionCall():
            for arg in expr.args:
                yield from outermost(arg)
        case s.Chain():
            for operand in operands(expr):
                yield from outermost(operand)
        case s.Cast(operand):
            yield from outermost(operand)
        case _:
            return


def expressions(literal: s.Literal) -> tuple[s.Expr, ...]:
    """The direct expressions of a literal; none for a group or a negation."""
    match literal:
        case s.Atom() | s.Distinct():
            return literal.args
        case s.Compare():
            return (literal.first, *(side for _, side in literal.rest))
        case s.Member():
            return (literal.item, *literal.values)
        case s.Test(expr):
            return (expr,)
        case s.Range():
            return (literal.item, literal.start, literal.stop, literal.step)
        case s.Not() | s.And() | s.Or():
            return ()


def operands(chain: s.Chain) -> tuple[s.Expr, ...]:
    return (chain.first, *(operand for _, operand in chain.rest))


def neighbours(compare: s.Compare) -> Iterator[tuple[s.Expr, str, s.Expr]]:
    """The comparisons of a chain: `x < y <= z` is `x < y` and `y <= z`."""
    left = compare.first
    for op, right in compare.rest:
        yield left, op, right
        left = right


def solvable(
    expr: s.Expr,
    bound: frozenset[str] | set[str],
    types: Mapping[str, TypeName] | None = None,
    aggregates: bool = True,
) -> str | None:
    """The only unbound variable of `expr`, if the expression's value determines it: it stands alone
    or under `+` and `-`."""
    match expr:
        case s.Var(name):
            return None if name in bound else name
        case s.Cast(operand):
            return solvable(operand, bound, types, aggregates)
        case s.FunctionCall("+" | "-") | s.Chain(rest=(("+" | "-", _), *_)):
            args = expr.args if isinstance(expr, s.FunctionCall) else operands(expr)
            waiting = [arg for arg in args if not ready(arg, bound, aggregates)]
            if len(waiting) != 1:
                return None
            solved = solvable(waiting[0], bound, types, aggregates)
            if solved is None or (types is not None and types.get(solved, "int") != "int"):
                return None
            return solved
        case _:
            return None


Types = Mapping[str, TypeName] | None


def _bind(literal: s.Literal, bound: set[str], types: Types, aggregates: bool) -> None:
    match literal:
        case s.And():
            # alternate directions, so that a long chain of `=` is quick in either order
            items, before = literal.items, -1
            while before != len(bound):
                before = len(bound)
                for item in items:
                    _bind(item, bound, types, aggregates)
                items = items[::-1]
            return
        case s.Or():
            branches: list[set[str]] = []
            for item in literal.items:
                branch = set(bound)
                _bind(item, branch, types, aggregates)
                branches.append(branch)
            bound |= set.intersection(*branches)
            return
        case s.Not():
            return
        case s.Atom():
            _bind_atom(literal, bound, types, aggregates)
        case s.Compare():
            # each pass moves values one step to the left in a chain of `=`
            for _ in literal.rest:
                for left, op, right in neighbours(literal):
                    if op == "=":
                        _bind_from(left, (right,), bound, types, aggregates)
                        _bind_from(right, (left,), bound, types, aggregates)
        case s.Member():
            if isinstance(_bare(literal.item), s.Var):
                _bind_from(literal.item, literal.values, bound, types, aggregates)
        case s.Range():
            if isinstance(_bare(literal.item), s.Var):
                ends = (literal.start, literal.stop, literal.step)
                _bind_from(literal.item, ends, bound, types, aggregates)
        case _:
            pass
    if aggregates:
        for aggregate in aggregates_in(literal):
            if aggregate.exports and ready(aggregate, bound):
                bound.update(aggregate.exports)


def _bind_atom(atom: s.Atom, bound: set[str], types: Types, aggregates: bool) -> None:
    waiting: list[s.Expr] = []
    for arg in atom.args:
        bare = _bare(arg)
        if isinstance(bare, s.Var):
            bound.add(bare.name)
        elif isinstance(bare, s.FunctionCall | s.Chain):
            waiting.append(bare)
    for _ in range(len(waiting)):
        for arg in waiting:
            solved = solvable(arg, bound, types, aggregates)
            if solved is not None:
                bound.add(solved)


def _bind_from(
    item: s.Expr, values: tuple[s.Expr, ...], bound: set[str], types: Types, aggregates: bool
) -> None:
    if all(ready(value, bound, aggregates) for value in values):
        name = solvable(item, bound, types, aggregates)
        if name is not None:
            bound.add(name)


def _bare(expr: s.Expr) -> s.Expr:
    while isinstance(expr, s.Cast):
        expr = expr.operand
    return expr
