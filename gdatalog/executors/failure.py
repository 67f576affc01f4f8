"""Messages for computations that failed, with the values they failed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.ops import Ops
from gdatalog.plan.format import format_expr
from gdatalog.plan.nodes import Apply, Expr, Slot
from gdatalog.storage.keys import decode_value
from gdatalog.values import timestamp_to_text

_WHY = {
    "/": "division by zero",
    "%": "division by zero",
    "^": "a power that is not a number",
    "to_number": "not a number",
    "to_int": "not an int",
    "to_float": "not a float",
}


def describe_failure(expr: Expr, frontier: Frontier, ops: Ops, scope: Any) -> EvaluationError:
    """The error of an expression that fails on the only row of a frontier."""
    culprit = _innermost(expr, frontier, ops, scope)
    why = _WHY.get(culprit.function, "the result is not a number (NaN)")
    if culprit.function == "^" and culprit.type == "int":
        why = "division by zero"
    slots = sorted(_slots(culprit), key=lambda slot: slot.name)
    known = values_of(slots, [frontier.column(slot.name) for slot in slots], 0, scope.symbols)
    given = f" with {known}" if known else ""
    return EvaluationError(
        f"{why}: {format_expr(culprit)}{given}",
        culprit.span,
        hint=f"{_test(culprit)}: what can fail is computed only where the tests pass",
    )


def values_of(slots: Sequence[Slot], columns: Sequence[Any], row: int, symbols: Any) -> str:
    """The values of variables in a row: `x = 1, y = "a"`."""
    known = []
    for slot, column in zip(slots, columns, strict=True):
        value = decode_value(int(column[row]), slot.type, symbols)
        if slot.type == "timestamp":
            value = timestamp_to_text(value)
        shown = f'"{value}"' if isinstance(value, str) and slot.type == "symbol" else value
        known.append(f"{slot.name.split('~')[0]} = {shown}")
    return ", ".join(known)


def _test(culprit: Apply) -> str:
    """The test of the body that excludes the failing values."""
    args = [format_expr(arg) for arg in culprit.args]
    tests = {
        "/": f"{args[-1]} != 0",
        "%": f"{args[-1]} != 0",
        "sqrt": f"{args[0]} >= 0",
        "log": f"{args[0]} >= 0",
        "to_number": f'match("-?[0-9]+", {args[0]})',
    }
    test = tests.get(culprit.function)
    plain = isinstance(culprit.args[-1], Slot)
    as_in = f", as in `{test}`" if test is not None and plain else ""
    return f"test for it in the body{as_in}"


def _innermost(expr: Expr, frontier: Frontier, ops: Ops, scope: Any) -> Apply:
    assert isinstance(expr, Apply)
    for arg in expr.args:
        if isinstance(arg, Apply):
            _, failed = ops.evaluate(arg, frontier.column, frontier.size, scope)
            if failed is not None and bool(failed.any()):
                return _innermost(arg, frontier, ops, scope)
    return expr


def _slots(expr: Expr) -> set[Slot]:
    if isinstance(expr, Slot):
        return {expr}
    return set().union(*map(_slots, expr.args)) if isinstance(expr, Apply) else set()
