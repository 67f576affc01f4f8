"""How a join tells equal rows apart while it makes them: group by group.

Where the first variables that a join binds are all in its head, rows that differ in one of them
differ, and the rows of one group, which agree in all of them, come one after the other. So each
group is deduplicated by itself, by a set of a few keys that stays in the cache.
"""

from __future__ import annotations

from gdatalog.plan.effects import binds, one_row_each, reads
from gdatalog.plan.nodes import (
    Assign,
    Branch,
    Compact,
    Filter,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Participant,
    Seek,
    Slot,
    slots,
)
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class DedupGroups:
    """`by`: the variables that a group has in common; `keys`: those that tell its rows apart, in
    the order of the head. `first`: the number of the first step of those that each group has for
    itself. `estimate`: rows that are expected, equal ones included."""

    by: tuple[str, ...]
    keys: tuple[str, ...]
    first: int
    estimate: float


def groups_of(join: JoinPlan) -> DedupGroups | None:
    """The groups whose rows a join's loops can tell apart; None if there are none, or no need."""
    if join.bag or join.given is not None or not join.outputs or one_row_each(join):
        return None
    outputs = {output.name for output in join.outputs if isinstance(output, Slot)}
    by: list[str] = []
    known: set[str] = set()  # what a group has in common
    first = -1
    for step in join.steps:
        first += 1
        if isinstance(step, (Guard, Filter, Compact)):
            continue
        if isinstance(step, (Join, Generate)) and step.variable not in outputs:
            break
        if isinstance(step, Join):
            by.append(step.variable)
        elif not isinstance(step, (Seek, Assign, Branch)) or not reads(step) <= known:
            return None
        known.update(binds(step))
    levels = {step.variable for step in join.steps if isinstance(step, Join)}
    keys: list[str] = []
    for output in join.outputs:
        if slots(output) <= known:
            continue
        if not isinstance(output, Slot) or output.name not in levels:
            return None  # nothing tells which values it may have
        if output.name not in keys:
            keys.append(output.name)
    if not by or not keys:
        return None
    last = [step.estimate for step in join.steps if isinstance(step, Join)]
    return DedupGroups(tuple(by), tuple(keys), first, last[-1])


def ascends(join: JoinPlan) -> bool:
    """Whether a join's rows come in the order of the head: it binds what the head has, column by
    column, and nothing else; or its groups are read in order, what the loops bind besides."""
    outputs = [output.name for output in join.outputs if isinstance(output, Slot)]
    if len(outputs) < len(join.outputs) or join.given is not None or join.bag:
        return False
    groups = groups_of(join)
    if groups is not None:
        return outputs == [*groups.by, *groups.keys]
    wide = [step.variable for step in join.steps if isinstance(step, (Join, Generate))]
    ranked = any(trie.ranked for trie in join.tries)
    plain = not any(isinstance(step, Generate) for step in join.steps)
    return plain and not ranked and outputs == wide


def kept_apart(join: JoinPlan, groups: DedupGroups, step: Compact) -> tuple[str, ...] | None:
    """The variables by which rows of a group that are equal in all that is still needed become
    one at a step; None if there are none, or one of them has no list of values."""
    levels = {step.variable for step in join.steps if isinstance(step, Join)}
    names = tuple(name for name in step.keep if name not in groups.by)
    if not names or not levels.issuperset(names) or not set(groups.by) <= set(step.keep):
        return None
    return names


def level_of(join: JoinPlan, variable: str) -> Participant:
    """A participant whose list has all values that a variable takes."""
    return next(
        step.participants[0]
        for step in join.steps
        if isinstance(step, Join) and step.variable == variable
    )
