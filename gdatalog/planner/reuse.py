"""Lists of an earlier level that a later one refines: `E(a,c), E(b,c), E(a,d), E(b,d), E(c,d)`.

The common neighbours of a and b, found for c, are those that d is among. A list is reused only
where whatever it went through, tries and cuts, is demanded of the reader as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gdatalog.plan.nodes import Cut, Join, Reuse, Slot, Step
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import Comparisons


def reuse_lists(
    steps: Sequence[Step], atoms: Sequence[AtomState], comparisons: Comparisons
) -> tuple[Step, ...]:
    """The steps, with each level told which earlier list it can start from."""
    done: list[Step] = []
    for step in steps:
        if isinstance(step, Join):
            choices = [
                reuse
                for earlier in done
                if isinstance(earlier, Join)
                and (reuse := _reuse(step, earlier, atoms, comparisons)) is not None
            ]
            if choices:
                # The one that covers most, the latest among equals.
                best = max(reversed(choices), key=lambda reuse: len(reuse.covers))
                step = replace(step, reuse=best)
        done.append(step)
    return tuple(done)


def _reuse(
    step: Join, earlier: Join, atoms: Sequence[AtomState], comparisons: Comparisons
) -> Reuse | None:
    if len(earlier.participants) < 2:
        return None
    lists = [_list(step, place, atoms) for place in range(len(step.participants))]
    covers = []
    for place in range(len(earlier.participants)):
        wanted = _list(earlier, place, atoms)
        if wanted is None or wanted not in lists:
            return None
        covers.append(lists.index(wanted))
    if not all(_implied(cut, step, comparisons) for cut in earlier.cuts):
        return None
    implied = [
        at
        for at, cut in enumerate(step.cuts)
        if cut in earlier.cuts or any((place, at) in step.implied for place in covers)
    ]
    return Reuse(earlier.variable, tuple(sorted(set(covers))), tuple(implied))


def _list(step: Join, place: int, atoms: Sequence[AtomState]) -> object:
    """What makes a participant's list what it is; None if the trie goes on below it."""
    part = step.participants[place]
    atom = atoms[part.trie]
    if part.depth + 1 != len(atom.order) or atom.weighted:
        return None
    return atom.trie(), atom.prefix()


def _implied(cut: Cut, step: Join, comparisons: Comparisons) -> bool:
    if cut in step.cuts:
        return True
    bound = cut.bound
    return isinstance(bound, Slot) and comparisons.implies(step.variable, cut.op, bound.name)
