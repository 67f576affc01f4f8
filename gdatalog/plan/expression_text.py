"""Expressions of plans as text."""

from __future__ import annotations

from gdatalog.plan import join_plan as p
from gdatalog.values import constant_text

_INFIX = frozenset(
    {"+", "-", "*", "/", "%", "^", "=", "!=", "<", "<=", ">", ">="}
    | {"band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}
)


def format_expr(expr: p.Expr, inside: bool = False) -> str:
    match expr:
        case p.Slot():
            return expr.name
        case p.Parameter():
            return f"${expr.name}"
        case p.Constant():
            return constant_text(expr.type, expr.value)
        case _:
            if expr.function in _INFIX and len(expr.args) == 2:
                left, right = (format_expr(arg, True) for arg in expr.args)
                text = f"{left} {expr.function} {right}"
                return f"({text})" if inside else text
            args = ", ".join(map(format_expr, expr.args))
            return f"{expr.function}({args})"
