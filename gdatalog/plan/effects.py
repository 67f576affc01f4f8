"""What steps read and bind; a plan without one of its values; several plans as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.records import replace


def reads(step: p.Step) -> frozenset[str]:
    """The variables that must be bound before a step."""
    if isinstance(step, p.Restore):
        return frozenset(step.ranks)
    if isinstance(step, (p.Branch, p.Tally)):
        return frozenset(step.reads)
    found = expressions(step)
    return frozenset().union(*map(p.slots, found)) if found else frozenset()


def expressions(step: p.Step) -> tuple[p.Expr, ...]:
    """The expressions that a step computes, without those of its branches."""
    match step:
        case p.Seek():
            return (step.value,)
        case p.Join():
            return tuple([bound for _, bound in step.cuts])
        case p.Assign():
            return (step.expr,)
        case p.Generate():
            return (*step.values, *(step.span or ()))
        case p.Filter():
            return (step.test,)
        case p.Branch():
            return step.reduction.targets if step.reduction is not None else ()
        case _:
            return ()


def binds(step: p.Step) -> tuple[str, ...]:
    """The variables that a step binds."""
    if isinstance(step, (p.Join, p.Assign, p.Generate)):
        return (step.variable,)
    if isinstance(step, p.Restore):
        return step.variables
    if isinstance(step, p.Branch) and step.reduction is not None:
        return (step.reduction.variable, *(name for name, _ in step.reduction.exports))
    return ()


def participants(step: p.Step) -> tuple[p.Participant, ...]:
    if isinstance(step, (p.Seek, p.Join, p.Assign, p.Generate)):
        return step.participants
    return ()


def may_fail(steps: tuple[p.Step, ...]) -> bool:
    """Whether any expression in the steps can fail (division, overflow of a sum, ...)."""
    for step in steps:
        if isinstance(step, (p.Assign, p.Generate)) and step.may_fail:
            return True
        if isinstance(step, p.Branch):
            sums = step.reduction is not None and step.reduction.kind in ("sum", "mean")
            if sums or any(map(may_fail, step.alternatives)):
                return True
    return False


def all_steps(steps: tuple[p.Step, ...]) -> list[p.Step]:
    """The steps, and all steps inside their branches and tallies."""
    found = []
    for step in steps:
        found.append(step)
        if isinstance(step, p.Branch):
            for inner in step.alternatives:
                found += all_steps(inner)
        elif isinstance(step, p.Tally):
            found += all_steps(step.steps)
    return found


def without(steps: tuple[p.Step, ...], variable: str) -> tuple[p.Step, ...]:
    """The steps that do not need the variable's value, directly or indirectly.

    A failed computation is an error only if the rest of the body holds: this is the rest.
    """
    if steps and variable in binds(steps[0]):
        step, *others = steps
        if isinstance(step, (p.Assign, p.Generate)) and step.participants:
            # The first step failed: atoms that contain its variable bind it instead.
            return (p.Join(variable, step.type, step.participants), *others)
        steps = tuple(others)
    return _rest(steps, {variable}, set())


def _rest(steps: tuple[p.Step, ...], missing: set[str], wider: set[str]) -> tuple[p.Step, ...]:
    """The steps that remain without the `missing` variables. `wider`: levels whose lists lack some
    of their cuts."""
    lost: set[int] = set()  # tries with a missing level above
    kept: list[p.Step] = []
    for step in steps:
        if isinstance(step, p.Compact):
            continue
        if isinstance(step, p.Branch) and step.mode != "aggregate" and reads(step) & missing:
            if step.mode == "not exists":
                # An alternative without the missing variables still decides.
                sure = (inner for inner in step.alternatives if not _needs(inner) & missing)
            else:
                sure = (_rest(inner, set(missing), set(wider)) for inner in step.alternatives)
            names = tuple([name for name in step.reads if name not in missing])
            alternatives = tuple(sure)
            if alternatives:
                kept.append(replace(step, alternatives=alternatives, reads=names))
            continue
        if isinstance(step, p.Join) and reads(step) & missing:
            step = _without_cuts(step, missing)
            wider.add(step.variable)
        if isinstance(step, p.Join) and step.reuse is not None and step.reuse.variable in wider:
            step = replace(step, reuse=None)
            wider.add(step.variable)
        parts = tuple([part for part in participants(step) if part.trie not in lost])
        lacks = bool(reads(step) & missing)
        if lacks and isinstance(step, (p.Assign, p.Generate)) and parts:
            # The atom binds the variable in place of the expression.
            kept.append(p.Join(step.variable, step.type, parts))
        elif lacks:
            missing.update(binds(step))
            lost.update(part.trie for part in participants(step))
        elif len(parts) == len(participants(step)):
            kept.append(step)
        elif isinstance(step, (p.Seek, p.Join)) and not parts:
            missing.update(binds(step))
        elif isinstance(step, p.Join):
            left = [at for at, part in enumerate(step.participants) if part.trie not in lost]
            implied = tuple([(left.index(at), cut) for at, cut in step.implied if at in left])
            kept.append(replace(step, participants=parts, implied=implied, reuse=None))
            wider.add(step.variable)
        elif isinstance(step, (p.Seek, p.Assign, p.Generate)):
            kept.append(replace(step, participants=parts))
    return tuple(kept)


def _without_cuts(step: p.Join, missing: Collection[str]) -> p.Join:
    """A level without cuts by missing variables."""
    bounds = [p.slots(bound) for _, bound in step.cuts]
    kept = [at for at, names in enumerate(bounds) if names.isdisjoint(missing)]
    implied = tuple([(part, kept.index(at)) for part, at in step.implied if at in kept])
    cuts = tuple([step.cuts[at] for at in kept])
    return replace(step, cuts=cuts, implied=implied, reuse=None)


def _needs(steps: tuple[p.Step, ...]) -> frozenset[str]:
    """All variables that steps, or steps inside them, read."""
    return frozenset().union(*map(reads, all_steps(steps)))


def one_row_each(join: p.JoinPlan) -> bool:
    """Whether different bindings give different rows, because the outputs determine all variables
    that loops bind."""
    outputs = {output.name for output in join.outputs if isinstance(output, p.Slot)}
    for step in join.steps:
        if isinstance(step, p.Restore) and outputs.issuperset(step.variables):
            outputs.update(step.ranks)
    for slot in () if join.given is None else join.given.slots:
        if slot.name not in outputs:
            return False
    for step in join.steps:
        if isinstance(step, (p.Join, p.Generate)) and step.variable not in outputs:
            return False
        if isinstance(step, p.Branch) and step.reduction is not None:
            for name, _ in step.reduction.exports:
                if name not in outputs:
                    return False
    return True


def widens(join: p.JoinPlan) -> bool:
    """Whether a binding can become several, or needs a branch."""
    return any(isinstance(step, (p.Join, p.Generate, p.Branch)) for step in join.steps)


def generates(join: p.JoinPlan) -> bool:
    """Whether a generator binds a variable."""
    return any(isinstance(step, p.Generate) for step in join.steps)


def relations_read(plan: p.RulePlan) -> list[p.TrieRef]:
    """The distinct tries of stored relations that a plan reads, without tables that it computes."""
    made = {term.table for term in plan.terms} | {inner.relation for inner in plan.within}
    made |= {
        s.table for join in plan.joins for s in all_steps(join.steps) if isinstance(s, p.Tally)
    }
    refs = dict.fromkeys(ref for join in plan.joins for ref in longest_first(join.tries))
    inner = (ref for rule in plan.within for ref in relations_read(rule))
    return list(dict.fromkeys((*inner, *(ref for ref in refs if ref.relation not in made))))


def longest_first(tries: tuple[p.TrieRef, ...]) -> list[p.TrieRef]:
    """A plan's tries, longest first: some are prefixes of others."""
    return sorted(tries, key=lambda ref: -len(ref.columns))


def falls(join: p.JoinPlan) -> bool:
    """Whether each value that a recursive join derives is smaller than some value of its given
    row."""
    return _compared(join, ("<", "<="))


def rises(join: p.JoinPlan) -> bool:
    """The same for greater values."""
    return _compared(join, (">", ">="))


def _compared(join: p.JoinPlan, ops: tuple[str, ...]) -> bool:
    given = () if join.given is None else join.given.slots
    cuts = [cut for step in join.steps if isinstance(step, p.Join) for cut in step.cuts]
    return any(op in ops and bound in given for op, bound in cuts)


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
