"""Which expression failed, and for which row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.decimals import DIGITS
from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.ops import Ops
from gdatalog.plan.functions import OF_SCALED
from gdatalog.plan.join_plan import Apply, Constant, Expr, Slot
from gdatalog.plan.labels import format_expr
from gdatalog.records import replace
from gdatalog.storage.keys import decode_value
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import DAY, text_of_key

if TYPE_CHECKING:
    from gdatalog.cpu_ops.expressions import Scope

_WHY = {
    "/": "division by zero",
    "%": "division by zero",
    "^": "a power that is not a number",
    "to_number": "not a number",
    "to_int": "not an int",
    "to_float": "not a float",
    "to_decimal": "not a decimal of 18 digits",
    **dict.fromkeys(("+!", "-!", "*!"), f"the result has more than {DIGITS} digits"),
    "parse_time": "not a time in this format, from 1677-09-22 to 2262-04-11",
    "regex_extract": "an invalid pattern, or a group that it does not have",
}


def describe_failure(expr: Expr, frontier: Frontier, ops: Ops, scope: Scope) -> EvaluationError:
    """The error of an expression that fails on the only row of a frontier."""
    culprit = _innermost(expr, frontier, ops, scope)
    why = _WHY.get(culprit.function, "the result is not a number (NaN)")
    slots = sorted(_slots(culprit), key=lambda slot: slot.name)
    known = values_of(slots, [frontier.column(slot.name) for slot in slots], 0, scope.symbols)
    given = f" with {known}" if known else ""
    last = frontier.values(culprit.args[-1:], ops, scope)[0][0]
    beyond = culprit.function in OF_SCALED
    culprit = _as_written(culprit)
    hint = f"{_test(culprit)}: what can fail is computed only where the tests pass"
    if beyond:
        hint = "round before with `to_decimal(x, 2)`, or compute with floats: `to_float(x)`"
    if culprit.function in ("/", "^") and culprit.type == "int":
        divided = last == 0 if culprit.function == "/" else last < 0
        why = "division by zero" if divided else "the result does not fit into 64 bits"
        if not divided:
            hint = f"compute with floats instead: `{format_expr(_of_floats(culprit))}`"
    if culprit.args[0].type == "date":
        why = "a duration of more than 292 years"
        if culprit.function == "+":
            parts = int(last) % DAY
            why = "a date takes whole days" if parts else "a date outside the years 1 to 9999"
    return EvaluationError(f"{why}: {format_expr(culprit)}{given}", culprit.span, hint=hint)


def _as_written(expr: Apply) -> Apply:
    """The expression with the program's names of variables and functions."""

    def written(arg: Expr) -> Expr:
        if isinstance(arg, Slot):
            return Slot(arg.name.split("~")[0] or "...", arg.type)
        return _as_written(arg) if isinstance(arg, Apply) else arg

    return replace(expr, function=expr.function.rstrip("!"), args=tuple(map(written, expr.args)))


def _of_floats(expr: Apply) -> Apply:
    """The same function of floats."""
    args = (
        Constant(float(arg.value), "float")
        if isinstance(arg, Constant) and arg.value is not None
        else Apply("to_float", (arg,), "float")
        for arg in expr.args
    )
    return Apply(expr.function, tuple(args), "float")


def values_of(
    slots: Sequence[Slot], columns: Sequence[Array], row: int, symbols: SymbolTable
) -> str:
    """The values of variables in a row: `x = 1, y = "a"`."""
    known = []
    for slot, column in zip(slots, columns, strict=True):
        value = decode_value(int(column[row]), slot.type, symbols)
        written = text_of_key(slot.type)
        if written is not None:
            value = written(value)
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


def _innermost(expr: Expr, frontier: Frontier, ops: Ops, scope: Scope) -> Apply:
    assert isinstance(expr, Apply)
    for arg in expr.args:
        if isinstance(arg, Apply):
            _, failed = ops.evaluate(arg, frontier.read_by(arg), frontier.size, scope)
            if failed is not None and bool(failed.any()):
                return _innermost(arg, frontier, ops, scope)
    return expr


def _slots(expr: Expr) -> set[Slot]:
    if isinstance(expr, Slot):
        return {expr}
    return set().union(*map(_slots, expr.args)) if isinstance(expr, Apply) else set()
