"""Recursion that falls apart into a fixpoint for each value of a column.

In `path(x, z) <- path(x, y), E(y, z)` the first column is passed on unchanged: what follows from
rows of one x are rows of the same x, so each x is a fixpoint of its own. A stratum splits if one
column of each of its relations can be chosen such that every rule hands the value of the chosen
column of its one recursive atom to the chosen column of its head.

That is a property of the rules alone; it is read off their plans, where every alternative stands
by itself and the recursive atom's columns are variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdatalog.plan.nodes import JoinPlan, RulePlan, Slot


@dataclass(frozen=True, slots=True)
class Split:
    """`columns`: by which column each relation of the stratum is split."""

    columns: Mapping[str, int]


Pairs = frozenset[tuple[int, int]]


def split_of(plans: Sequence[RulePlan], arities: Mapping[str, int]) -> Split | None:
    """How a stratum splits, by the plans of its recursive rules' later rounds; None: it does not.

    `arities` are those of the stratum's relations.
    """
    edges: list[tuple[str, str, Pairs]] = []
    for plan in plans:
        if plan.gathers:
            return None
        for join in plan.joins:
            if join.given is None or _recursive(join, arities):
                return None
            edges.append((join.given.relation, plan.relation, _passed_on(join)))
    found = next(_choices(edges, sorted(arities), arities, {}), None)
    return None if found is None else Split(found)


def _recursive(join: JoinPlan, names: Mapping[str, int]) -> bool:
    """Whether a join reads rows of the stratum beside those that it is given."""
    return any(ref.relation in names for ref in join.tries)


def _passed_on(join: JoinPlan) -> Pairs:
    """Which columns of the recursive atom reappear as which of the head."""
    assert join.given is not None
    return frozenset(
        (at, place)
        for at, slot in enumerate(join.given.slots)
        for place, output in enumerate(join.outputs)
        if isinstance(output, Slot) and output.name == slot.name
    )


def _choices(
    edges: Sequence[tuple[str, str, Pairs]],
    left: Sequence[str],
    arities: Mapping[str, int],
    chosen: dict[str, int],
) -> Iterator[dict[str, int]]:
    """The choices of a column for each relation that all edges agree to."""
    if not left:
        yield chosen
        return
    name, *rest = left
    for column in range(arities[name]):
        more = {**chosen, name: column}
        if all(
            (more[body], more[head]) in pairs
            for body, head, pairs in edges
            if name in (body, head) and body in more and head in more
        ):
            yield from _choices(edges, rest, arities, more)
