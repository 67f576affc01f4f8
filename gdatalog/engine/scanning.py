"""Whether a rule of one atom scans its relation or reads an index.

A scan reads every row, and an index only matching ones, but it has to be built first. A rule scans
unless a suitable index exists, or the same columns have been compared with constants so often that
an index would have paid.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.session.knobs import Knobs
from gdatalog.plan.nodes import Apply, Constant, Expr, Filter, JoinPlan, Parameter, RulePlan
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import FEW


def least_scanned(knobs: Knobs) -> int | None:
    """The least number of rows of a relation that is scanned: smaller ones are kept sorted, and
    indexing them costs almost nothing. None: no scans."""
    if knobs.strategy != "auto" or knobs.scans == "never":
        return None
    return 0 if knobs.scans == "always" else FEW


def indexed(plan: RulePlan, relation_of: Callable[[str], Relation], scans: int) -> bool:
    """Whether a rule should use indexes instead of its plan's scans, as after this many `scans` of
    the same columns."""
    return any(
        _serves(join, relation_of(join.scan.relation), scans)
        for join in plan.joins
        if join.scan is not None
    )


def scanned(join: JoinPlan, relation: Relation) -> None:
    """Counts a scan of a relation."""
    fixed, _ = _compared(join)
    if fixed:
        relation.scans[fixed] = relation.scans.get(fixed, 0) + 1


def _serves(join: JoinPlan, relation: Relation, scans: int) -> bool:
    """Whether the relation has an index that finds the rows of a scan, or answers it alone; or
    whether to build one."""
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
    """The columns that must equal constants, and those with bounds."""
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
