"""Reused lists: a level starts from the list that an earlier level has intersected.

In `E(a,c), E(b,c), E(a,d), E(b,d), E(c,d)`, d is among the common neighbours of a and b, which c
has computed. A list can be reused only if the later level implies all its tries and cuts. Other
participants of the earlier level (that c has neighbours itself) are looked up after its list is
computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdatalog.plan import join_plan as p
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import Comparisons
from gdatalog.records import replace


def reuse_lists(
    steps: Sequence[p.Step], atoms: Sequence[AtomState], comparisons: Comparisons
) -> tuple[p.Step, ...]:
    """The steps, where each level names the earlier list that it can start from."""
    joins = [step for step in steps if isinstance(step, p.Join)]
    if sum([len(join.participants) > 1 for join in joins]) < 2:
        return tuple(steps)
    # For each level its lists, by number: equal lists have one number.
    tries: dict[p.TrieRef, int] = {}
    same = [tries.setdefault(atom.trie(), len(tries)) for atom in atoms]
    numbers: dict[object, int] = {None: -1}
    lists: dict[str, list[int]] = {}
    for join in joins:
        own = lists[join.variable] = []
        for place in range(len(join.participants)):
            own.append(numbers.setdefault(_list(join, place, atoms, same), len(numbers)))
    made_of: dict[str, list[int]] = {}  # of the levels that are reused: the parts of their lists
    reads: dict[str, tuple[p.Join, list[int]]] = {}
    holding: dict[int, list[int]] = {}  # for each list, the earlier levels that it is part of
    for at, join in enumerate(joins):
        best: tuple[p.Join, list[int]] | None = None
        parts_here = set(lists[join.variable])
        shares = Counter([number for part in parts_here for number in holding.get(part, ())])
        for earlier in (joins[number] for number in sorted(shares) if shares[number] > 1):
            shared = (
                part
                for part in lists[earlier.variable]
                if part >= 0 and part in lists[join.variable]
            )
            parts = made_of.get(earlier.variable) or list(dict.fromkeys(shared))
            # A list that reuses another includes the other's tries and cuts.
            through = reads[earlier.variable][1] if earlier.variable in reads else []
            if (
                len(parts) >= 2
                and all(part in parts for part in through)
                and all(part in lists[join.variable] for part in parts)
                and all(_implied(cut, join, comparisons) for cut in earlier.cuts)
                and (best is None or len(parts) >= len(best[1]))
            ):
                best = earlier, parts
        for part in set(lists[join.variable]) - {-1}:
            holding.setdefault(part, []).append(at)
        if best is not None:
            reads[join.variable] = best
            made_of[best[0].variable] = best[1]
    done: list[p.Step] = []
    for step in steps:
        if not isinstance(step, p.Join):
            done.append(step)
            continue
        mine = lists[step.variable]
        reader = _reader(step, *reads[step.variable], mine) if step.variable in reads else step
        done += _made(reader, mine, made_of.get(step.variable))
    return tuple(done)


def _reader(step: p.Join, earlier: p.Join, parts: list[int], mine: list[int]) -> p.Join:
    covers = tuple([place for place, part in enumerate(mine) if part in parts])
    implied = tuple(
        at
        for at, cut in enumerate(step.cuts)
        if cut in earlier.cuts or any((place, at) in step.implied for place in covers)
    )
    return replace(step, reuse=p.Reuse(earlier.variable, covers, implied))


def _made(step: p.Join, mine: list[int], parts: list[int] | None) -> list[p.Step]:
    """A level whose list is reused has only the shared participants; the others are looked up."""
    if parts is None:
        return [step]
    kept = [place for place, part in enumerate(mine) if part in parts]
    others = tuple([each for place, each in enumerate(step.participants) if place not in kept])
    if not others:
        return [step]
    reuse = step.reuse
    if reuse is not None:
        reuse = replace(reuse, covers=tuple([kept.index(place) for place in reuse.covers]))
    level = replace(
        step,
        participants=tuple([step.participants[place] for place in kept]),
        implied=tuple([(kept.index(place), at) for place, at in step.implied if place in kept]),
        reuse=reuse,
    )
    return [level, p.Seek(p.Slot(step.variable, step.type), others)]


def _list(step: p.Join, place: int, atoms: Sequence[AtomState], same: Sequence[int]) -> object:
    """What identifies a participant's list; None if the trie continues below it. `same`: a number
    for each atom, equal for those with one trie."""
    part = step.participants[place]
    atom = atoms[part.trie]
    if part.depth + 1 != len(atom.order) or atom.weighted:
        return None
    return same[part.trie], atom.prefix()


def _implied(cut: p.Comparison, step: p.Join, comparisons: Comparisons) -> bool:
    if cut in step.cuts:
        return True
    op, bound = cut
    return isinstance(bound, p.Slot) and comparisons.implies(step.variable, op, bound.name)
