"""Plans a join: `PASSES` order the variables, build the steps, and drop dead variables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan.join_plan import Expr, GivenRows, JoinPlan, Restore, Slot, Version
from gdatalog.plan.labels import format_join
from gdatalog.planner import items as n
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.compaction import compact_rows
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.scans import scanning
from gdatalog.records import dataclass, replace


def plan_join(
    inputs: PlanInputs,
    items: n.Conjunction,
    outputs: Sequence[Expr],
    live: frozenset[str],
    bag: bool,
    given: GivenRows | None = None,
    recursive: Collection[str] = (),
) -> JoinPlan:
    """The join of a conjunction. `live`: the variables that are read after it; `given`: the rows
    that it runs for; `recursive`: the relations of its stratum."""
    draft = JoinDraft(inputs, items, outputs, live, bag, given, recursive)
    notes = None if inputs.notes is None else inputs.notes.within(None)
    for each in PASSES:
        each(draft)
        if notes is not None:
            notes.note(each, draft.lines())
    assert draft.join is not None
    return draft.join


@dataclass(slots=True, eq=False)
class JoinDraft:
    """A join that is being planned; `rows` are expected to be given."""

    inputs: PlanInputs
    items: n.Conjunction
    outputs: Sequence[Expr]
    live: frozenset[str]
    bag: bool
    given: GivenRows | None
    recursive: Collection[str]
    rows: float = 1.0
    join: JoinPlan | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the given rows bind."""
        return () if self.given is None else tuple([slot.name for slot in self.given.slots])

    def lines(self) -> tuple[str, ...]:
        return () if self.join is None else tuple(format_join(self.join))


def build_steps(draft: JoinDraft) -> None:
    """A step for each variable, in the cheapest order."""
    inputs, given = draft.inputs, draft.given
    if given is not None:
        version: Version = "full" if given.columns else "delta"
        draft.rows = inputs.sizes(given.relation, version).rows
        given = replace(given, rows=draft.rows)
    asked = [output.name for output in draft.outputs if isinstance(output, Slot)]
    whole = draft.items, draft.live, draft.bag, frozenset(draft.names), draft.rows
    builder = PlanBuilder(inputs, asked, restores=True)
    steps = builder.whole(*whole).build()
    if any(isinstance(step, Restore) for step in steps):
        other = PlanBuilder(inputs, asked)
        others = other.whole(*whole).build()
        if other.cost <= builder.cost:
            builder, steps = other, others
    if inputs.notes is not None and builder.notes is not None:
        inputs.notes.records += builder.notes.records
    outputs = tuple(draft.outputs)
    draft.join = JoinPlan(
        builder.tries(), steps, outputs, draft.bag, cost=builder.cost, given=given
    )


def drop_dead_variables(draft: JoinDraft) -> None:
    """Variables that no later step reads are dropped, and duplicate rows with them."""
    if not draft.bag and draft.join is not None:
        steps, tries = draft.join.steps, draft.join.tries
        found = compact_rows(steps, tries, draft.live, draft.recursive, draft.names)
        if found != steps:
            draft.join = replace(draft.join, steps=found)


def scan_columns(draft: JoinDraft) -> None:
    """A scan reads only the columns that are used."""
    if draft.join is not None and draft.join.scan is not None:
        cost = draft.rows + draft.join.cost
        draft.join = replace(scanning(draft.join, draft.live), cost=cost)


PASSES = (build_steps, drop_dead_variables, scan_columns)
