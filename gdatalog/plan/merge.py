"""Several join plans as one, for a function that has all of their loops in it."""

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
    """A plan with the tries of all, and the steps of each by the numbers that tries have there.

    Its own steps, those of all, one behind the other, say where its tries' levels are bound.
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
