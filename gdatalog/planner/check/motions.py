"""How much a derived value can change with the best value it starts from, and whether it can be
better.

If the rules only make values worse (`d + w` with no negative w, `max(d, w)`), groups can be
processed in the order of their values, each once, as in Dijkstra's algorithm. This affects the
work, never the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite

from gdatalog.plan.join_plan import Apply, Constant, Slot
from gdatalog.plan.join_plan import Expr as PlanExpr
from gdatalog.records import dataclass

PLAIN = {"+", "-", "*", "min", "max", "abs"}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value between `low` and `high` that does not depend on the best value."""

    low: float = -inf
    high: float = inf

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that depends on it, with an absolute value at most `grows` larger.

    `worsens`: it is never better. `bends`: it is not a plain sum (a product, or a min or max of two
    values), so that a cycle that improves it once need not do so for ever.
    """

    worsens: bool
    grows: float = 0.0
    bends: bool = False


Motion = Fixed | Moving


def motion(expr: PlanExpr, known: Mapping[str, Motion], kind: str) -> Motion:
    """How an expression depends on the best value; `kind` is the aggregate: for a min, greater is
    worse.

    Variables that are not `known` may have any value.
    """
    match expr:
        case Slot(name):
            return known.get(name, Fixed())
        case Constant(bool() | int() | float() as value):
            return Fixed(value, value)
        case Apply(function, args) if expr.type != "symbol":
            parts = [motion(arg, known, kind) for arg in args]
            found = _applied(function, parts, kind)
            if found is not None:
                return found
            if any(isinstance(part, Moving) for part in parts):
                return Moving(False, inf, True)
    return Fixed()


def _applied(function: str, parts: list[Motion], kind: str) -> Motion | None:
    """The motion of a function's value by those of its arguments; None if it can be any."""
    match function, parts:
        case "+", [a, b]:
            return _sum(a, b, kind)
        case "-", [a, b]:
            return _sum(a, _opposite(b), kind)
        case "-", [a]:
            return _opposite(a)
        case "*", [Fixed() as a, Fixed() as b] if isfinite(a.size) and isfinite(b.size):
            ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Fixed(min(ends), max(ends))
        case "*", [Moving() as a, Fixed() as b] | [Fixed() as b, Moving() as a] if b.size <= 1:
            return Moving(False, a.grows, True)
        case "min" | "max", _:
            return _extreme(function, parts, kind)
        case "abs", [Fixed() as a]:
            return Fixed(0.0, a.size)
    return None


def _sum(one: Motion, other: Motion, kind: str) -> Motion | None:
    match one, other:
        case (Fixed() as a, Fixed() as b):
            return Fixed(a.low + b.low, a.high + b.high)
        case (Moving() as a, Fixed() as b) | (Fixed() as b, Moving() as a):
            worsens = a.worsens and (b.low >= 0 if kind == "min" else b.high <= 0)
            return Moving(worsens, a.grows + b.size, a.bends)
    return None


def _opposite(part: Motion) -> Motion:
    if isinstance(part, Fixed):
        return Fixed(-part.high, -part.low)
    return Moving(False, part.grows, part.bends)


def _extreme(function: str, parts: list[Motion], kind: str) -> Motion:
    best = min if function == "min" else max
    fixed = [part for part in parts if isinstance(part, Fixed)]
    moving = [part for part in parts if isinstance(part, Moving)]
    if not moving:
        return Fixed(best(part.low for part in fixed), best(part.high for part in fixed))
    # For a min, max() worsens if one argument does, min() only if all do.
    if function != kind:
        worsens = any(part.worsens for part in moving)
    else:
        worsens = not fixed and all(part.worsens for part in moving)
    grows = max(*(part.grows for part in moving), *(part.size for part in fixed), 0.0)
    return Moving(worsens, grows, True)
