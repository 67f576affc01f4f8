"""Arithmetic and comparisons of decimals, as functions of their scaled ints.

`+!`, `-!` and `*!` fail where a result has more digits than decimals have. `floored` and `rounded`
divide by a power of ten; `unscaled` divides as floats.
"""

from __future__ import annotations

from gdatalog.decimals import decimal_type, result_scale, scale_of
from gdatalog.errors import Span
from gdatalog.plan.functions import DECIMAL
from gdatalog.plan.join_plan import Apply, Constant, Expr, Slot
from gdatalog.planner.items import either
from gdatalog.values import TypeName

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def are_exact(name: str, args: tuple[Expr, ...]) -> bool:
    """Whether a function is one of decimals, or makes some."""
    return name == "to_decimal" or not DECIMAL.isdisjoint([arg.type for arg in args])


def exact(name: str, args: tuple[Expr, ...], span: Span) -> Expr | None:
    """A function with decimals among its arguments; None if it works on the scaled ints."""
    first, scale = args[0], scale_of(args[0].type)
    tens = Constant(10**scale, "int")
    if name in ("+", "-", "%", "*") and len(args) == 2:
        both = result_scale(name, scale, scale_of(args[1].type))
        if name == "*":
            args = args if scale else args[::-1]
        else:
            args = _rescaled(first, both, span), _rescaled(args[1], both, span)
        return Apply(name if name == "%" else name + "!", args, decimal_type(both), span)
    if name == "/":
        floats = tuple([_float(arg, span) for arg in args])
        return Apply("/", floats, "float", span)
    if name == "to_float":
        return _float(first, span)
    if name in ("to_int", "to_number"):
        return Apply("/", (Apply("to_int", (first,), "int", span), tens), "int", span)
    if name in ("floor", "ceil"):
        whole = (_floored if name == "floor" else _ceiled)(first, tens, "int", span)
        return Apply("*!", (whole, tens), first.type, span)
    if name == "to_decimal":
        return _decimal(first, args[1], span)
    return None


def _float(expr: Expr, span: Span) -> Expr:
    if scale_of(expr.type):
        return Apply("unscaled", (expr, Constant(10 ** scale_of(expr.type), "int")), "float", span)
    return expr if expr.type == "float" else Apply("to_float", (expr,), "float", span)


def _floored(expr: Expr, tens: Constant, kind: TypeName, span: Span) -> Expr:
    return Apply("floored", (expr, tens), kind, span)


def _ceiled(expr: Expr, tens: Constant, kind: TypeName, span: Span) -> Expr:
    """-floor(-x)"""
    below = _floored(Apply("-", (expr,), expr.type, span), tens, kind, span)
    return Apply("-", (below,), kind, span)


def _rescaled(expr: Expr, scale: int, span: Span) -> Expr:
    """The same number with at least as many digits after the point."""
    tens = 10 ** (scale - scale_of(expr.type))
    if tens == 1:
        return expr
    return Apply("*!", (expr, Constant(tens, "int")), decimal_type(scale), span)


def _decimal(expr: Expr, digits: Expr, span: Span) -> Expr:
    """`to_decimal(x, 2)`."""
    assert isinstance(digits, Constant) and isinstance(digits.value, int)
    scale = digits.value
    if expr.type in ("float", "symbol"):
        how = digits if expr.type == "symbol" else Constant(10**scale, "int")
        return Apply("to_decimal", (expr, how), decimal_type(scale), span)
    over = scale_of(expr.type) - scale
    if over > 0:
        return Apply("rounded", (expr, Constant(10**over, "int")), decimal_type(scale), span)
    return _rescaled(expr, scale, span)


def mean_of(mean: Slot, targets: tuple[Expr, ...], span: Span) -> Expr:
    """The mean of decimals, from that of their scaled ints."""
    scale = scale_of(targets[0].type)
    return Apply("/", (mean, Constant(10.0**scale, "float")), "float", span) if scale else mean


def compared(op: str, left: Expr, right: Expr, span: Span) -> Expr:
    """A comparison of decimals or ints with different digits after the point. The one with more is
    rounded, so that nothing overflows: x < 1.105 where x < 1.11 has two digits."""
    if scale_of(left.type) > scale_of(right.type):
        return compared(_MIRRORED.get(op, op), right, left, span)
    if op in ("=", "!="):
        sides = [compared(each, left, right, span) for each in ("<", ">")]
        apart = either(sides)
        return Apply("lnot", (apart,), "bool", span) if op == "=" else apart
    tens = 10 ** (scale_of(right.type) - scale_of(left.type))
    up = op in ("<", ">=")
    if isinstance(right, Constant) and right.value is not None:
        whole = int(right.value)
        end: Expr = Constant(-(-whole // tens) if up else whole // tens, left.type)
    else:
        end = (_ceiled if up else _floored)(right, Constant(tens, "int"), left.type, span)
    return Apply(op, (left, end), "bool", span)
