"""Whether a rule of one atom scans its relation, or reads an index of it.

A scan looks at every row, an index at those that are asked for; but an index has to be built
first. So a scan is chosen unless an index is there that serves the query, or the same constants'
columns have been searched so often that an index would have paid for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.knobs import Knobs
from gdatalog.plan.nodes import Apply, Constant, Expr, Filter, JoinPlan, Parameter, RulePlan
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import FEW


def least_scanned(knobs: Knobs) -> int | None:
    """How many rows a relation has, at least, that is scanned: fewer are kept sorted, and an index
    of them costs next to nothing. None if nothing is scanned."""
    if knobs.strategy != "auto" or knobs.scans == "never":
        return None
    return 0 if knobs.scans == "always" else FEW


def indexed(plan: RulePlan, relation_of: Callable[[str], Relation], scans: int) -> bool:
    """Whether indexes serve a rule better than the scans of its plan. After so many `scans` of the
    same columns they do."""
    return any(
        _serves(join, relation_of(join.scan.relation), scans)
        for join in plan.joins
        if join.scan is not None
    )


def scanned(join: JoinPlan, relation: Relation) -> None:
    """Notes that a relation is scanned."""
    fixed, _ = _compared(join)
    if fixed:
        relation.scans[fixed] = relation.scans.get(fixed, 0) + 1


def _serves(join: JoinPlan, relation: Relation, scans: int) -> bool:
    """Whether an index of the relation is there that leads to the rows that a scan looks for, or
    has all that it asks; or whether one should be built."""
    assert join.scan is not None
    used = frozenset(join.scan.columns)
    fixed, bounded = _compared(join)
    if relation.scans.get(fixed, 0) >= scans:
        return True
    for order, tests, weighted, ranked in relation.indexes:
        whole = weighted or not join.bag or len(order) == len(relation.types)
        if tests or ranked or not whole or frozenset(order[: len(used)]) != used:
            continue
        if fixed:
            if frozenset(order[: len(fixed)]) == fixed:
                return True
        elif not bounded or order[0] in bounded:
            return True
    return False


def _compared(join: JoinPlan) -> tuple[frozenset[int], frozenset[int]]:
    """The columns that have to be equal to constants, and those that these bound."""
    assert join.scan is not None
    columns: dict[Expr, int] = dict(zip(join.scan.slots, join.scan.columns, strict=True))
    fixed: set[int] = set()
    bounded: set[int] = set()
    for step in join.steps:
        test = step.test if isinstance(step, Filter) else None
        if not isinstance(test, Apply) or len(test.args) != 2 or test.function == "!=":
            continue
        left, right = test.args
        if isinstance(left, (Constant, Parameter)):
            left, right = right, left
        if isinstance(right, (Constant, Parameter)) and left in columns:
            (fixed if test.function == "=" else bounded).add(columns[left])
    return frozenset(fixed), frozenset(bounded)
