"""Deduplication of a join's rows group by group."""

from __future__ import annotations

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import binds, one_row_each, reads
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class DedupGroups:
    """`by`: the variables that identify a group; `keys`: those that identify a row within its
    group, in the order of the head. `first`: the number of the first step inside a group.
    `estimate`: expected rows, including duplicates."""

    by: tuple[str, ...]
    keys: tuple[str, ...]
    first: int
    estimate: float


def groups_of(join: p.JoinPlan) -> DedupGroups | None:
    """The groups by which a join's loops can deduplicate; None if that is impossible or
    unnecessary."""
    if join.bag or join.given is not None or not join.outputs or one_row_each(join):
        return None
    outputs = {output.name for output in join.outputs if isinstance(output, p.Slot)}
    by: list[str] = []
    known: set[str] = set()  # variables that are constant within a group
    first = -1
    for step in join.steps:
        first += 1
        if isinstance(step, (p.Guard, p.Filter, p.Compact)):
            continue
        if isinstance(step, (p.Join, p.Generate)) and step.variable not in outputs:
            break
        if isinstance(step, p.Join):
            by.append(step.variable)
        elif not isinstance(step, (p.Seek, p.Assign, p.Branch)) or not reads(step) <= known:
            return None
        known.update(binds(step))
    levels = {step.variable for step in join.steps if isinstance(step, p.Join)}
    keys: list[str] = []
    for output in join.outputs:
        if p.slots(output) <= known:
            continue
        if not isinstance(output, p.Slot) or output.name not in levels:
            return None  # the range of its values is unknown
        if output.name not in keys:
            keys.append(output.name)
    if not by or not keys:
        return None
    last = [step.estimate for step in join.steps if isinstance(step, p.Join)]
    return DedupGroups(tuple(by), tuple(keys), first, last[-1])


def ascends(join: p.JoinPlan) -> bool:
    """Whether a join's rows are sorted by the head: either its loops bind exactly the head's
    columns, in order; or its groups are emitted in order."""
    outputs = [output.name for output in join.outputs if isinstance(output, p.Slot)]
    if len(outputs) < len(join.outputs) or join.given is not None or join.bag:
        return False
    groups = groups_of(join)
    if groups is not None:
        return outputs == [*groups.by, *groups.keys]
    wide = [step.variable for step in join.steps if isinstance(step, (p.Join, p.Generate))]
    ranked = any(trie.ranked for trie in join.tries)
    plain = not any(isinstance(step, p.Generate) for step in join.steps)
    return plain and not ranked and outputs == wide


def kept_apart(join: p.JoinPlan, groups: DedupGroups, step: p.Compact) -> tuple[str, ...] | None:
    """The variables by which a step can drop duplicates within a group; None if there are none, or
    one of them has no list of values."""
    levels = {step.variable for step in join.steps if isinstance(step, p.Join)}
    names = tuple([name for name in step.keep if name not in groups.by])
    if not names or not levels.issuperset(names) or not set(groups.by) <= set(step.keep):
        return None
    return names


def level_of(join: p.JoinPlan, variable: str) -> p.Participant:
    """A participant whose list contains all values of a variable."""
    joins = (step for step in join.steps if isinstance(step, p.Join))
    return next(step.participants[0] for step in joins if step.variable == variable)
