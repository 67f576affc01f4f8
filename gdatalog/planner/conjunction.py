"""Rewrites a conjunction before its join is built: adds and drops tests, and ranks vertices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.planner import items as n
from gdatalog.planner.aggregate_items import renamed
from gdatalog.planner.comparisons import without_looser
from gdatalog.planner.order.degree_order import in_degree_order
from gdatalog.planner.order.edges import ends, operator
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.passes import PassNotes
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
        return (n.body_text(self.items),)

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


MANY = 3  # variables; with two, an early test saves nothing


def with_lone_witnesses(items: Sequence[n.Item], outer: Names) -> Sequence[n.Item]:
    """The items, and an implied existence test for each variable that only `!=` connects.

    A body may need only a witness. Suppose that some of its variables occur in one atom each, and
    that only `x != y` tests connect them. If the list of one contains only values that it must
    differ from, the loops over the others fail for each of their combinations. So each variable is
    tested alone, as soon as its list and the values it must differ from are known.
    """
    last = {name for name in n.variables_of(items) - outer if _is_last(name, items)}
    tests = [item for item in items if operator(item) == "!="]
    coupled = {name for test in tests if set(ends(test)) <= last for name in ends(test)}
    if len(coupled) < MANY:
        return items
    return [*items, *(test for name in sorted(coupled) for test in _alone(name, items, last))]


def _is_last(name: str, items: Sequence[n.Item]) -> bool:
    """Whether a variable occurs in one atom, together with others, and otherwise only in `!=`
    tests."""
    own = [item for item in items if name in item.variables]
    atoms = [item for item in own if isinstance(item, n.AtomItem)]
    return (
        len(atoms) == 1
        and len(atoms[0].variables) > 1
        and all(operator(item) == "!=" for item in own if item is not atoms[0])
    )


def _alone(name: str, items: Sequence[n.Item], last: set[str]) -> Iterator[n.Item]:
    """The test that a variable has a value, whatever values the other last variables have; none if
    its atom has another of them."""
    own = [item for item in items if name in item.variables]
    held = [item for item in own if item.variables.isdisjoint(last - {name})]
    if any(isinstance(item, n.AtomItem) for item in held):
        part = tuple([renamed(item, {name: f"{name}~"}) for item in held])
        reads = n.variables_of(held) - {name}
        yield n.NotItem(((n.NotItem((part,), reads),),), reads)
