"""Plans with an outer loop and the tables that it fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.plan.join_plan import Branch, Filter, Join, JoinPlan, Seek, Step, Tally
from gdatalog.planner.items import AtomItem, Item


def binds(item: Item, name: str, tables: Mapping[str, object]) -> bool:
    """Whether an item is an atom that contains the variable and reads a relation."""
    return isinstance(item, AtomItem) and name in item.variables and is_relation(item, tables)


def is_relation(atom: AtomItem, tables: Mapping[str, object]) -> bool:
    """Whether an atom reads a relation, or a table by edges, which is indexed like one."""
    return atom.relation not in tables or atom.counted > 0


def fills_first(plan: JoinPlan, first: Sequence[str]) -> bool:
    """Whether a plan has the outer loop first, reads each table by its keys alone, and binds each
    key from a list, which bounds its values."""
    bound = [step.variable for step in plan.steps if isinstance(step, Join)]
    filled = [step for step in plan.steps if isinstance(step, Tally)]
    columns = {step.table: tuple(range(len(step.reads) + 1)) for step in filled}
    before = plan.steps[: plan.steps.index(filled[0])]
    in_order = all(
        ref.columns == columns[ref.relation] for ref in plan.tries if ref.relation in columns
    )
    return (
        tuple(bound[: len(first)]) == tuple(first)
        and in_order
        and not any(isinstance(step, Branch) for step in before)
        and all(
            step.key in [inner.variable for inner in step.steps if isinstance(inner, Join)]
            for step in filled
        )
    )


def behind(steps: Sequence[Step], first: Sequence[str]) -> int:
    """The index after the steps that bind the first variables and test them."""
    left, at = set(first), 0
    while at < len(steps) and (left or isinstance(steps[at], Seek | Filter)):
        step = steps[at]
        if isinstance(step, Join):
            left.discard(step.variable)
        at += 1
    return at
