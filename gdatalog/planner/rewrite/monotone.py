"""How the value derived by a rule depends on the best value it starts from: by how much it can
change, and whether it can be better.

If the rules of a recursive min or max only make values worse (`d + w` with no negative w, `max(d,
w)`), groups can be processed in the order of their values, each once, as in Dijkstra's algorithm.
This affects the work, never the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite

from gdatalog.plan import Apply, Constant, Expr, Slot
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


def motion(expr: Expr, known: Mapping[str, Motion], kind: str) -> Motion:
    """How an expression depends on the best value; `kind` is the aggregate: for a min, greater is
    worse.

    Variables that are not `known` may have any value.
    """
    match expr:
        case Slot(name):
            return known.get(name, Fixed())
        case Constant(bool() | int() | float() as value):
            return Fixed(value, value)
        case Constant():
            return Fixed()
        case Apply(function, args) if expr.type != "symbol":
            of = _FUNCTIONS.get((function, len(args) if function in ("+", "-", "*") else 0))
            parts = [motion(arg, known, kind) for arg in args]
            found = of(parts, kind) if of is not None else None
            if found is not None:
                return found
            moves = any(isinstance(part, Moving) for part in parts)
            return Moving(False, inf, True) if moves else Fixed()
    return Fixed()


def _sum(parts: list[Motion], kind: str) -> Motion | None:
    match parts:
        case [Fixed() as a, Fixed() as b]:
            return Fixed(a.low + b.low, a.high + b.high)
        case [Moving() as a, Fixed() as b] | [Fixed() as b, Moving() as a]:
            worsens = a.worsens and (b.low >= 0 if kind == "min" else b.high <= 0)
            return Moving(worsens, a.grows + b.size, a.bends)
    return None


def _difference(parts: list[Motion], kind: str) -> Motion | None:
    return _sum([parts[0], _opposite(parts[1:], kind)], kind)


def _opposite(parts: list[Motion], kind: str) -> Motion:
    (part,) = parts
    if isinstance(part, Fixed):
        return Fixed(-part.high, -part.low)
    return Moving(False, part.grows, part.bends)


def _product(parts: list[Motion], kind: str) -> Motion | None:
    match parts:
        case [Fixed() as a, Fixed() as b] if isfinite(a.size) and isfinite(b.size):
            ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Fixed(min(ends), max(ends))
        case [Moving() as a, Fixed() as b] | [Fixed() as b, Moving() as a] if b.size <= 1:
            return Moving(False, a.grows, True)
    return None


def _extreme(function: str) -> Callable[[list[Motion], str], Motion | None]:
    best = min if function == "min" else max

    def of(parts: list[Motion], kind: str) -> Motion | None:
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

    return of


def _size(parts: list[Motion], kind: str) -> Motion | None:
    (part,) = parts
    return Fixed(0.0, part.size) if isinstance(part, Fixed) else None


_FUNCTIONS: dict[tuple[str, int], Callable[[list[Motion], str], Motion | None]] = {
    ("+", 2): _sum,
    ("-", 2): _difference,
    ("-", 1): _opposite,
    ("*", 2): _product,
    ("min", 0): _extreme("min"),
    ("max", 0): _extreme("max"),
    ("abs", 0): _size,
}
