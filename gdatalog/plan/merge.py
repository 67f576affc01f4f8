"""Merges several join plans into one, for a function that contains the loops of all."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.nodes import (
    Assign,
    Branch,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Participant,
    Restore,
    Seek,
    Step,
    TrieRef,
)
from gdatalog.records import replace

Steps = tuple[Step, ...]


def merged(joins: Sequence[JoinPlan]) -> tuple[JoinPlan, list[Steps]]:
    """A plan with the tries of all joins, and the steps of each join with renumbered tries.

    Its own steps are those of all joins in a row; they tell where its tries' levels are bound.
    """
    tries: list[TrieRef] = []
    parts: list[Steps] = []
    for join in joins:
        parts.append(_renumbered(join.steps, len(tries)))
        tries += join.tries
    cost = sum(join.cost for join in joins)
    steps = tuple(step for part in parts for step in part)
    return JoinPlan(tuple(tries), steps, (), cost=cost), parts


def _renumbered(steps: Steps, by: int) -> Steps:
    return tuple(_moved(step, by) for step in steps)


def _moved(step: Step, by: int) -> Step:
    match step:
        case Guard() | Restore():
            return replace(step, trie=step.trie + by)
        case Seek() | Join() | Assign() | Generate():
            parts = tuple(Participant(part.trie + by, part.depth) for part in step.participants)
            return replace(step, participants=parts)
        case Branch():
            inside = tuple(_renumbered(alternative, by) for alternative in step.alternatives)
            return replace(step, alternatives=inside)
        case _:
            return step
