"""Chooses the executor of a join, and whether a rule of one atom scans its relation.

The breadth-first executor needs no compilation, so it finishes small work before a compiler would.
It may look at a limited number of rows, because the work is only estimated; if these are not
enough, the depth-first executor runs the whole join. No choice depends on a clock.

A scan reads every row, and an index only matching ones, but it has to be built first. A rule scans
unless a suitable index exists, or the same columns have been compared with constants so often that
an index would have paid.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.depth import AHEAD, Form, JoinNest, form_of_bag
from gdatalog.engine.device import CPU, shared_by
from gdatalog.engine.parallel import cut_at_first
from gdatalog.plan.effects import all_steps, expressions, generates
from gdatalog.plan.join_plan import JoinPlan, RulePlan, Tally
from gdatalog.plan.placement import ExecutorChoice, Shared
from gdatalog.planner.placement import Work, sum_of
from gdatalog.records import dataclass
from gdatalog.settings import Settings
from gdatalog.storage.kept import Kept

MOST_REMEMBERED = 1000

ASKED_FOR = "asked for"

_looked: dict[object, int] = {}  # rows looked at, by join and output

Scans = Mapping[frozenset[int], int]
# How often the rows of a relation were scanned for constants, by the constants' columns.
SCANS = Kept[Scans](follows=True)
# How often rows that have not changed were scanned for some columns, without constants.
WHOLE_SCANS = Kept[Scans]()
ARRAYS = 200.0  # launches of a join that runs once, with those of its operations on arrays
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

    def at_hand(self, label: str) -> bool:
        return False

    def waits(self, label: str) -> bool:
        return False


def remember(nest: JoinNest, rows: int) -> None:
    """Records how many rows a join read breadth-first."""
    if rows >= nest.settings.thresholds.overrun_counted:
        if len(_looked) >= MOST_REMEMBERED:
            _looked.clear()
        _looked[nest.join, nest.form] = _looked.get((nest.join, nest.form), 0) + rows


def choose(nest: JoinNest | PlannedJoin, label: str = "") -> ExecutorChoice:
    """Returns the executor that runs a join; `label`: what may be compiled for it."""
    if any(isinstance(step, Tally) for step in nest.join.steps):
        return ExecutorChoice(False, "its loops keep tables of counts", shared=nest.shared)
    if nest.form.images:
        return ExecutorChoice(False, "each match counts for all that its orbit has")
    by_all = nest.shared if cut_at_first(nest.join) else None
    if nest.settings.strategy == "levelwise":
        return ExecutorChoice(True, ASKED_FOR, shared=by_all)
    small = looked_at(nest.join.cost)
    if (
        nest.join.scan is not None
        and nest.settings.strategy == "auto"
        and (nest.settings.scans == "always" or not generates(nest.join))
    ):
        return ExecutorChoice(True, small, scans=True)
    allowed = int(nest.worth * nest.settings.thresholds.overrun)
    # Joins of more expected work start depth-first.
    cheap = nest.join.cost < nest.worth
    looked = _looked.get((nest.join, nest.form), 0) if _looked else 0
    seen = looked if cheap else 0
    if nest.settings.strategy == "auto" and seen <= allowed and cheap:
        if nest.at_hand(label):
            return ExecutorChoice(False, "asked for often, and compiled by now")
        return ExecutorChoice(True, small, allowed)
    if nest.settings.strategy == "auto" and looked <= AHEAD * allowed and nest.waits(label):
        return ExecutorChoice(True, f"{small}; its kernel is being compiled", AHEAD * allowed)
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
    plan: RulePlan, number: int, settings: Settings, members: tuple[str, ...], copied: float = 0.0
) -> ExecutorChoice:
    """Predicts the choice for a join, as far as it is known without its indexes, on a device of
    these members; `copied`: the bytes of the indexes that each copies from the first."""
    join = plan.joins[number]
    form = form_of_bag(plan.keys, plan.gathers) if plan.gathers else Form(join.outputs)
    if plan.terms and plan.terms[number].images:
        form = Form(images=plan.terms[number].images)
    shared = shared_by(members, join.cost, settings.thresholds, lambda: copied)
    return choose(PlannedJoin(join, form, settings, unprintable(join), shared=shared))


def work_of_rule(plan: RulePlan, context: ExecutionContext) -> Work:
    """What the joins of a rule are expected to do on the CPU."""
    looked = arrays = 0.0
    for number, join in enumerate(plan.joins):
        first = planned_choice(plan, number, context.settings, CPU.members).breadth_first
        looked, arrays = (looked, arrays + join.cost) if first else (looked + join.cost, arrays)
    own = Work(looked, arrays, launches=ARRAYS * max(1, len(plan.joins)))
    return sum_of([own, *(work_of_rule(counts, context) for counts in plan.within)])


def unprintable(join: JoinPlan) -> str | None:
    """Returns why a join cannot run depth-first, judging by what it computes."""
    from gdatalog.printer.expressions import printable

    computed = (expr for step in all_steps(join.steps) for expr in expressions(step))
    return printable(*computed, *join.outputs)
