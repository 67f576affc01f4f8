"""Which expressions can fail: dividing by what may be 0, reading a number from a text, NaN."""

from __future__ import annotations

from gdatalog.plan.functions import FUNCTIONS
from gdatalog.plan.nodes import Apply, Constant, Expr

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
    """Whether a function that may fail can do so on these arguments."""
    kind = expr.args[0].type
    if expr.function in ("to_int", "to_number", "to_float"):
        return kind == "symbol"
    if expr.function in ("/", "%"):
        divisor = expr.args[1]
        return not (isinstance(divisor, Constant) and divisor.value != 0)
    if expr.function == "^":
        power = expr.args[1]
        return not (isinstance(power, Constant) and int(power.value) >= 0)
    return True
