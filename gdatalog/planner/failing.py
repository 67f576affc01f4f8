"""Expressions that can fail: division by 0, numbers parsed from text, NaN."""

from __future__ import annotations

from gdatalog.plan.functions import FUNCTIONS
from gdatalog.plan.join_plan import Apply, Constant, Expr

_ON_FLOATS_SAFE = frozenset({"abs", "min", "max", "floor", "ceil", "ord", "to_string", "exp"})


def may_fail(expr: Expr) -> bool:
    if not isinstance(expr, Apply):
        return False
    if any(map(may_fail, expr.args)):
        return True
    for signature in FUNCTIONS.get(expr.function, ()):
        if signature.accepts(len(expr.args)):
            if expr.args[0].type == "float":
                return signature.may_fail_float and expr.function not in _ON_FLOATS_SAFE
            return signature.may_fail and _fails_on(expr)
    return False


def _fails_on(expr: Apply) -> bool:
    """Whether a function that can fail may fail on these arguments."""
    kind = expr.args[0].type
    if expr.function in ("to_int", "to_number", "to_float"):
        return kind == "symbol"
    known = expr.args[-1].value if isinstance(expr.args[-1], Constant) else None
    if expr.function == "%":
        return known in (None, 0)
    if expr.function == "/":
        return known in (None, 0, -1)  # the least int divided by -1 is outside 64 bits
    if expr.function == "^":
        return known not in (0, 1)
    return True
