"""The canonical order of a pattern's variables, which depends neither on names nor on the order of
the text.

Variables are ranked by their role in the answer, then repeatedly by the items they occur in and the
ranks of the variables beside them (colour refinement). Remaining ties hardly matter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan.join_plan import Apply, Constant, Expr, Parameter, Slot
from gdatalog.planner import items as n

ROUNDS = 3


def in_canonical_order(
    items: Sequence[n.Item], asked: Sequence[str], live: Collection[str], outer: Collection[str]
) -> list[str]:
    """The variables of the items; `asked` are in the order of the answer."""
    named: dict[str, None] = {}
    for item in items:
        named.update(dict.fromkeys(sorted(item.variables)))
    names = list(named)
    shapes = [_shape(item) for item in items]
    places: dict[str, list[int]] = {name: [] for name in names}
    for number, (_, variables) in enumerate(shapes):
        for name in frozenset(variables):
            places[name].append(number)
    first = {
        name: f"{name in outer} {name in live} {asked.index(name) if name in asked else -1}"
        for name in names
    }
    rank = _ranks(first)
    for _ in range(ROUNDS):
        if len(set(rank.values())) == len(names):
            break
        seen = {}
        for name in names:
            around = sorted(
                f"{shapes[at][0]}:" + ",".join(_seen(name, other, rank) for other in shapes[at][1])
                for at in places[name]
            )
            seen[name] = f"{rank[name]:03} " + ";".join(around)
        rank = _ranks(seen)
    return sorted(names, key=rank.__getitem__)


def _seen(name: str, other: str, rank: dict[str, int]) -> str:
    return "." if other == name else str(rank[other])


def _ranks(texts: dict[str, str]) -> dict[str, int]:
    places = {text: at for at, text in enumerate(sorted(set(texts.values())))}
    return {name: places[text] for name, text in texts.items()}


def _shape(item: n.Item) -> tuple[str, list[str]]:
    """An item without the names of its variables; and its variables in order of appearance."""
    variables: list[str] = []
    match item:
        case n.AtomItem():
            args = " ".join([_expr(arg, variables) for arg in item.args])
            return f"{item.relation} {item.version} {item.ranked} {args}", variables
        case n.TestItem():
            return _expr(item.test, variables), variables
        case n.Equation():
            sides = f"{_expr(item.left, variables)} = {_expr(item.right, variables)}"
            return sides, variables
        case n.GenerateItem():
            values = " ".join(
                _expr(value, variables) for value in (*item.values, *(item.span or ()))
            )
            return f"{_expr(item.slot, variables)} in {values}", variables
        case _:
            return type(item).__name__, sorted(item.variables)


def _expr(expr: Expr, variables: list[str]) -> str:
    match expr:
        case Slot():
            variables.append(expr.name)
            return "_"
        case Constant():
            return repr(expr.value)
        case Parameter():
            return f"${expr.name}"
        case Apply():
            args = " ".join([_expr(arg, variables) for arg in expr.args])
            return f"({expr.function} {args})"
