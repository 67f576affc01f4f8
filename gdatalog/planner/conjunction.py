"""Rewrites a conjunction before its join is built: adds and drops tests, and ranks vertices."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.planner import items as n
from gdatalog.planner.body_text import body_text
from gdatalog.planner.comparisons import without_looser
from gdatalog.planner.order.degree_order import in_degree_order
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.witnesses import with_lone_witnesses
from gdatalog.records import dataclass

Names = frozenset[str]


@dataclass(slots=True, eq=False)
class ConjunctionDraft:
    """A conjunction that is being rewritten. `outer`: the variables that are bound before it;
    `live`: those that are read after it. `nested`: it is a branch. `restores`: values may be
    replaced by ranks, and restored."""

    inputs: PlanInputs
    items: Sequence[n.Item]
    outer: Names
    live: Names
    bag: bool
    nested: bool
    restores: bool

    def lines(self) -> tuple[str, ...]:
        return (body_text(self.items),)

    def rewritten(self, notes: PassNotes | None = None) -> Sequence[n.Item]:
        for each in PASSES:
            each(self)
            if notes is not None:
                notes.note(each, self.lines())
        return self.items


def look_for_witnesses(draft: ConjunctionDraft) -> None:
    """Variables of a branch that only `!=` connects are tested early, each alone."""
    if draft.nested and not draft.bag and not draft.live:
        draft.items = with_lone_witnesses(draft.items, draft.outer)


def drop_looser(draft: ConjunctionDraft) -> None:
    """Comparisons that a tighter one implies are dropped, and duplicates."""
    draft.items = without_looser(tuple(dict.fromkeys(draft.items)))


def order_by_degree(draft: ConjunctionDraft) -> None:
    """Vertices that a chain of comparisons orders are replaced by their ranks by degree."""
    draft.items = in_degree_order(
        draft.items, draft.outer, draft.live, draft.bag, draft.restores, draft.inputs
    )


def drop_implied(draft: ConjunctionDraft) -> None:
    """Tests `x != y` that an atom or another comparison implies are dropped."""
    draft.items = without_implied(draft.items, draft.inputs.sizes)


PASSES = (look_for_witnesses, drop_looser, order_by_degree, drop_implied)
