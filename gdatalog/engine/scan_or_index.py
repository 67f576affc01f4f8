"""Whether a rule of one atom scans its relation or reads an index."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.choose import FEWER, SCANS, WHOLE_SCANS, Scans
from gdatalog.plan.join_plan import (
    Apply,
    Constant,
    Expr,
    Filter,
    JoinPlan,
    Parameter,
    RulePlan,
)
from gdatalog.settings import Settings
from gdatalog.storage.kept import Kept
from gdatalog.storage.relation import Relation


def least_scanned(settings: Settings) -> int | None:
    """The least number of rows of a relation that is scanned: smaller ones are kept sorted, and
    indexing them costs almost nothing. None: no scans."""
    if settings.strategy != "auto" or settings.scans == "never":
        return None
    return 0 if settings.scans == "always" else settings.thresholds.scanned_from


def indexed(plan: RulePlan, relation_of: Callable[[str], Relation], scans: int) -> bool:
    """Whether a rule should use indexes instead of its plan's scans, as after this many `scans` of
    the same columns."""
    return any(_serves(join, relation_of, scans) for join in plan.joins)


def scanned(join: JoinPlan, relation: Relation) -> None:
    """Counts a scan of a relation."""
    kept, columns = _counted_as(join)
    before = kept.of(relation.store) or {}
    kept.put(relation.store, {**before, columns: before.get(columns, 0) + 1})


def _counted_as(join: JoinPlan) -> tuple[Kept[Scans], frozenset[int]]:
    """Where scans like this one are counted: by the columns that must equal constants, else by the
    columns that are read."""
    assert join.scan is not None
    fixed, _ = _compared(join)
    return (SCANS, fixed) if fixed else (WHOLE_SCANS, frozenset(join.scan.columns))


def _serves(join: JoinPlan, relation_of: Callable[[str], Relation], scans: int) -> bool:
    """Whether the relation has an index that finds the rows of a scan, or answers it alone; or
    whether to build one."""
    if join.scan is None:
        return False
    relation, used = relation_of(join.scan.relation), frozenset(join.scan.columns)
    fixed, bounded = _compared(join)
    kept, columns = _counted_as(join)
    if (kept.of(relation.store) or {}).get(columns, 0) >= scans:
        few = FEWER * relation.statistics.distinct(columns) <= relation.at_most
        if fixed or (few and not bounded):
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
