"""Merges several join plans into one, for a function that contains the loops of all."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import join_plan as p
from gdatalog.records import replace

Steps = tuple[p.Step, ...]


def merged(joins: Sequence[p.JoinPlan]) -> tuple[p.JoinPlan, list[Steps]]:
    """A plan with the tries of all joins, and the steps of each join with renumbered tries.

    Its own steps are those of all joins in a row; they tell where its tries' levels are bound.
    """
    tries: list[p.TrieRef] = []
    parts: list[Steps] = []
    for join in joins:
        parts.append(tuple([_moved(step, len(tries)) for step in join.steps]))
        tries += join.tries
    cost = sum([join.cost for join in joins])
    steps = tuple([step for part in parts for step in part])
    return p.JoinPlan(tuple(tries), steps, (), cost=cost), parts


def _moved(step: p.Step, by: int) -> p.Step:
    match step:
        case p.Guard() | p.Restore():
            return replace(step, trie=step.trie + by)
        case p.Seek() | p.Join() | p.Assign() | p.Generate():
            parts = tuple([p.Participant(part.trie + by, part.depth) for part in step.participants])
            return replace(step, participants=parts)
        case p.Branch():
            inside = (tuple([_moved(s, by) for s in inner]) for inner in step.alternatives)
            return replace(step, alternatives=tuple(inside))
        case _:
            return step
