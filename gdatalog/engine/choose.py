"""Chooses the executor of a join, and whether a rule of one atom scans its relation.

The breadth-first executor needs no compilation, so it finishes small work before a compiler would.
It may look at a limited number of rows, because the work is only estimated; if these are not
enough, the depth-first executor runs the whole join. No choice depends on a clock.

A scan reads every row, and an index only matching ones, but it has to be built first. A rule scans
unless a suitable index exists, or the same columns have been compared with constants so often that
an index would have paid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gdatalog.engine.depth import Form, JoinNest, form_of_bag
from gdatalog.engine.device import shared_by
from gdatalog.engine.parallel import cut_at_first
from gdatalog.plan.effects import all_steps, expressions, widens
from gdatalog.plan.join_plan import (
    Apply,
    Constant,
    Expr,
    Filter,
    JoinPlan,
    Parameter,
    RulePlan,
    Tally,
)
from gdatalog.plan.placement import ExecutorChoice, Shared
from gdatalog.records import dataclass
from gdatalog.settings import Settings
from gdatalog.storage.kept import Kept
from gdatalog.storage.relation import Relation

MOST_REMEMBERED = 1000

ASKED_FOR = "asked for"

_looked: dict[object, int] = {}  # rows looked at, by join and output

Scans = Mapping[frozenset[int], int]
# How often the rows of a relation were scanned for constants, by the constants' columns.
_SCANS = Kept[Scans](follows=True)
# How often rows that have not changed were scanned for some columns, without constants.
_WHOLE_SCANS = Kept[Scans]()
FEWER = 8  # times fewer distinct values than rows, for an index instead of scans of all rows


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """A join whose indexes are not built yet. `reason`: why it cannot be printed; `shared`:
    the devices that run its loops together."""

    join: JoinPlan
    form: Form
    settings: Settings
    reason: str | None
    shared: Shared | None = None

    @property
    def worth(self) -> float:
        return self.settings.thresholds.loops_worth


def remember(nest: JoinNest, rows: int) -> None:
    """Records how many rows a join read breadth-first."""
    if rows >= nest.settings.thresholds.overrun_counted:
        if len(_looked) >= MOST_REMEMBERED:
            _looked.clear()
        _looked[nest.join, nest.form] = _looked.get((nest.join, nest.form), 0) + rows


def choose(nest: JoinNest | PlannedJoin) -> ExecutorChoice:
    """Returns the executor that runs a join."""
    if any(isinstance(step, Tally) for step in nest.join.steps):
        return ExecutorChoice(False, "its loops keep tables of counts", shared=nest.shared)
    if nest.form.images:
        return ExecutorChoice(False, "each match counts for all that its orbit has")
    by_all = nest.shared if cut_at_first(nest.join) else None
    if nest.settings.strategy == "levelwise":
        return ExecutorChoice(True, ASKED_FOR, shared=by_all)
    small = looked_at(nest.join.cost)
    narrow = not widens(nest.join) or nest.settings.scans == "always"
    if nest.join.scan is not None and nest.settings.strategy == "auto" and narrow:
        return ExecutorChoice(True, small, scans=True)
    allowed = int(nest.worth * nest.settings.thresholds.overrun)
    # Joins of more expected work start depth-first.
    seen = _looked.get((nest.join, nest.form), 0) if nest.join.cost < nest.worth else 0
    if nest.settings.strategy == "auto" and seen <= allowed and nest.join.cost < nest.worth:
        return ExecutorChoice(True, small, allowed)
    if nest.reason is not None:
        return ExecutorChoice(True, nest.reason, shared=by_all)
    if nest.settings.strategy == "lftj":
        return ExecutorChoice(False, ASKED_FOR, shared=nest.shared)
    more = seen > allowed
    why = "there are more rows to look at than expected" if more else small
    return ExecutorChoice(False, why, shared=nest.shared)


def looked_at(cost: float) -> str:
    """
    >>> looked_at(0.3), looked_at(123456.0)
    ('about 1 row to look at', 'about 120,000 rows to look at')
    """
    rows = float(f"{cost:.2g}")
    return "about 1 row to look at" if rows < 1.5 else f"about {rows:,.0f} rows to look at"


def planned_choice(
    plan: RulePlan, number: int, settings: Settings, members: tuple[str, ...]
) -> ExecutorChoice:
    """Predicts the choice for a join, as far as it is known without its indexes, on a device of
    these members."""
    join = plan.joins[number]
    form = form_of_bag(plan.keys, plan.gathers) if plan.gathers else Form(join.outputs)
    if plan.terms and plan.terms[number].images:
        form = Form(images=plan.terms[number].images)
    shared = shared_by(members, join.cost, settings.thresholds)
    return choose(PlannedJoin(join, form, settings, unprintable(join), shared=shared))


def unprintable(join: JoinPlan) -> str | None:
    """Returns why a join cannot run depth-first, judging by what it computes."""
    from gdatalog.printer.expressions import printable

    computed = (expr for step in all_steps(join.steps) for expr in expressions(step))
    return printable(*computed, *join.outputs)


# Whether a rule of one atom scans its relation or reads an index.


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
    return (_SCANS, fixed) if fixed else (_WHOLE_SCANS, frozenset(join.scan.columns))


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
