"""Comparisons that a join tests itself: of its variable with variables that are bound already.

Values that fail are not looked up in other lists and never become rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import Apply, Expr, Filter, Join, Slot, Step, slots

Comparison = tuple[str, Expr]  # of the variable at hand with something else

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


class JoinFilters:
    """The filters directly after a join that it may test itself, cached."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[Comparison]] = {}

    def behind(self, steps: Sequence[Step], at: int) -> list[Comparison]:
        """Returns those of the join at this position of `steps`; the cache key is the steps' id."""
        found = self._known.get((id(steps), at))
        if found is None:
            found = self._known[id(steps), at] = _behind(steps, at)
        return found


def _behind(steps: Sequence[Step], at: int) -> list[Comparison]:
    join, found = steps[at], list[Comparison]()
    assert isinstance(join, Join)
    for step in steps[at + 1 :]:
        comparison = _comparison(step.test, join) if isinstance(step, Filter) else None
        if comparison is None:
            break
        found.append(comparison)
    for later in all_steps(tuple(steps[at + 1 :])) if found else ():
        if isinstance(later, Join) and later.reuse and later.reuse.variable == join.variable:
            return []  # it starts from this level's lists, and wants them as they are
    return found


def _comparison(test: Expr, join: Join) -> Comparison | None:
    if not isinstance(test, Apply) or test.function not in _TURNED:
        return None
    if join.type == "symbol" and test.function not in ("=", "!="):
        return None  # the order of codes means nothing
    left, right = test.args
    own = Slot(join.variable, join.type)
    for mine, other, op in ((left, right, test.function), (right, left, _TURNED[test.function])):
        if mine == own and other.type == own.type and join.variable not in slots(other):
            return op, other
    return None
