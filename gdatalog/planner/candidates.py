"""Candidates by degree: values whose list in a trie is long enough.

If `distinct` or comparisons make k variables different, and each is a neighbour of x in a relation,
x needs k neighbours there. cuTS (2021) filters the vertices of a graph so before it begins. Here
the lengths of lists are the degrees, and a level tests them when it binds x. No set of candidates
is made, and a trie with only the edges to greater vertices tells how many of these there are.

Variables that may be equal are one neighbour: a 4-cycle without `distinct` has matches in a single
edge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.planner.atoms import AtomState
from gdatalog.planner.comparisons import Comparisons
from gdatalog.records import replace

LONG = 4  # if the mean list is this many times longer than needed, few are too short


def with_candidates(
    steps: Sequence[p.Step], atoms: Sequence[AtomState], comparisons: Comparisons
) -> tuple[p.Step, ...]:
    """The steps, where joins name the lists that must have several values. `atoms`: those that
    every row of the join matches, each with a full trie."""
    tries = [atom.trie() for atom in atoms]
    apart = {frozenset(pair) for atom in atoms if atom.size.loopless for pair in _ends(atom, False)}
    numbers = {atom.number: atom for atom in atoms}
    # Of a trie that several atoms read, nobody reads a part: see `engine/semi_joins.py`.
    several = {
        trie for at, trie in enumerate(tries) if trie in tries[:at] and len(trie.columns) > 1
    }
    done: list[p.Step] = []
    for step in steps:
        if several and isinstance(step, p.Join):
            least: dict[p.TrieRef, tuple[int, int]] = {}
            for place, part in enumerate(step.participants):
                atom = numbers.get(part.trie)
                ref = None if atom is None or part.depth else atom.trie()
                if atom is None or ref not in several or ref in least:
                    continue
                near = _different(_near(step.variable, ref, atoms), comparisons, apart)
                if near > 1 and _some_are_short(atom, ref, near):
                    least[ref] = (place, near)
            step = replace(step, least=tuple(least.values()))
        done.append(step)
    return tuple(done)


def _near(name: str, ref: p.TrieRef, atoms: Sequence[AtomState]) -> set[str]:
    """The variables whose values are all in the list of a variable in a trie."""
    found: set[str] = set()
    for atom in atoms:
        trie = atom.trie()
        if (trie.relation, trie.version, trie.ranked) != (ref.relation, ref.version, ref.ranked):
            continue
        both = not ref.tests and (ref.ranked or atom.size.symmetric)
        if trie != ref and not both:
            continue
        for first, second in _ends(atom, both):
            if first == name:
                found.add(second)
    return found - {name}


def _ends(atom: AtomState, both: bool) -> Iterator[tuple[str, str]]:
    """The variables of an atom's first two levels; `both`: also the other way round."""
    ends = [atom.item.args[column] for column in atom.order[:2]]
    names = [end.name for end in ends if isinstance(end, p.Slot)]
    if len(names) == 2:
        yield names[0], names[1]
        if both:
            yield names[1], names[0]


def _different(
    names: Collection[str], comparisons: Comparisons, apart: Collection[frozenset[str]]
) -> int:
    """How many of the variables are certain to be different, as found greedily, with those first
    that differ from most. `apart`: pairs of neighbours in relations without loops."""
    differs = {
        name: {
            other
            for other in names
            if frozenset((name, other)) in apart or comparisons.implies(name, "!=", other)
        }
        for name in names
    }
    chosen: set[str] = set()
    for name in sorted(names, key=lambda name: (-len(differs[name]), name)):
        if chosen <= differs[name]:
            chosen.add(name)
    return len(chosen)


def _some_are_short(atom: AtomState, ref: p.TrieRef, least: int) -> bool:
    """Whether lists are so short that the test of their lengths pays."""
    powers = atom.size.degrees(ref.columns[0], ref.tests, ref.ranked).powers
    return powers[1] < LONG * least * powers[0]
