"""Compaction: variables that no later step needs are dropped, and duplicate rows with them.

In `sg(x,y) <- E(a,x), sg(a,b), E(b,y)`, a is dead once x is bound, and many a have the same (x, b).
This holds only under set semantics: a count needs every binding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, binds, participants, reads


def compact_rows(
    steps: Sequence[p.Step],
    tries: Sequence[p.TrieRef],
    live: frozenset[str],
    recursive: Collection[str] = (),
    given: Sequence[str] = (),
) -> tuple[p.Step, ...]:
    """The steps, with a `Compact` before each join at which a variable has died.

    `recursive`: the relations that change in the current fixpoint. `given`: the variables that are
    bound before the first step.
    """
    for step in steps:
        if isinstance(step, p.Join) and step.reuse is not None:
            return tuple(steps)  # a list to be reused must not change
    bindings = list(map(binds, steps))
    lasts = _lasts(steps, bindings)
    bound: list[str] = list(given)
    dead: set[str] = set()
    ended: list[str] = []  # bound variables without a later use
    ends: dict[int, list[str]] = {}  # bound variables, by the step of their last use
    for name in bound:
        ends.setdefault(lasts.get(name, -1), []).append(name)
    computed: dict[str, frozenset[str]] = {}  # computed variables, and those they are computed from
    done: list[p.Step] = []
    for at, step in enumerate(steps):
        for name in ends.pop(at - 1, ()):
            if name not in live:
                ended.append(name)
        if isinstance(step, p.Join) and bound and ended:
            needed = {name for name in bound if name in live or lasts.get(name, -1) >= at}
            newly = [name for name in ended if not _determined(name, needed, computed)]
            if newly:
                dead.update(newly)
                ended = [name for name in ended if name not in dead]
                keep = tuple([name for name in bound if name in needed])
                rest = steps[at:]
                lasting = all(tries[trie].relation not in recursive for trie in _used(rest))
                done.append(p.Compact(keep, lasting))
        done.append(step)
        for name in bindings[at]:
            bound.append(name)
            ends.setdefault(max(at, lasts.get(name, -1)), []).append(name)
        if isinstance(step, p.Assign) or (
            isinstance(step, p.Branch) and step.reduction is not None and not step.reduction.exports
        ):
            computed[bindings[at][0]] = reads(step)
    return tuple(done)


def _lasts(steps: Sequence[p.Step], bindings: Sequence[Sequence[str]]) -> dict[str, int]:
    """The last step that needs each variable: it reads the variable, or descends in a trie from the
    variable's position."""
    walks: dict[int, int] = {}
    found: dict[str, int] = {}
    parts_of = list(map(participants, steps))
    for at, (step, parts) in enumerate(zip(steps, parts_of, strict=True)):
        for part in parts:
            walks[part.trie] = at
        for name in reads(step):
            found[name] = at
    for step, parts, bound in zip(steps, parts_of, bindings, strict=True):
        for name in (bound or reads(step)) if parts else ():
            for part in parts:
                found[name] = max(found.get(name, -1), walks[part.trie])
    return found


def _determined(name: str, by: Collection[str], computed: Mapping[str, frozenset[str]]) -> bool:
    """Whether other variables determine a variable's value, so that it cannot make rows differ."""
    return name in by or (
        name in computed and all(_determined(other, by, computed) for other in computed[name])
    )


def _used(steps: Sequence[p.Step]) -> set[int]:
    """The tries that steps read."""
    every = list(all_steps(tuple(steps)))
    guarded = {step.trie for step in every if isinstance(step, p.Guard)}
    return guarded | {part.trie for step in every for part in participants(step)}
