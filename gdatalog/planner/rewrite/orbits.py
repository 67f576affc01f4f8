"""Counts with partial symmetry breaking, and counts as two equal halves.

`symmetry.one_of_each` restricts a body to one solution of each orbit. For a signed sum fewer
restrictions are better: symmetric parts below them are counted as squares.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations

from gdatalog.planner.items import AtomItem, Conjunction, Item, item_may_fail
from gdatalog.planner.order.edges import (
    comparison,
    edge_of,
    ends,
    in_order,
    operator,
    rankable,
    ranked,
    types_of,
    unlike_neighbours,
    unlike_pairs,
)
from gdatalog.planner.order.sizes import Statistics
from gdatalog.planner.rewrite.automorphisms import Restrictions, Symmetries, literals_of
from gdatalog.planner.rewrite.quotients import Isomorphic, Signed, merged
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Restricted:
    """The restrictions that select one solution of each orbit of a body. `by_degree`: on ranks."""

    items: tuple[Item, ...]
    found: Restrictions
    by_degree: bool

    def whole(self, pairs: Sequence[tuple[str, str]]) -> tuple[Item, ...]:
        """The items with a `<` for each pair; over ranks if by degree."""
        types = types_of(self.items)
        less = (comparison("<", a, b, "int" if self.by_degree else types[a]) for a, b in pairs)
        whole = (*self.items, *less)
        return tuple(map(ranked, whole)) if self.by_degree else whole


def has_ranks(items: Sequence[Item], sizes: Statistics) -> bool:
    """Whether the items are edges of one symmetric graph and `!=` tests, so that ranks can replace
    their values."""
    edges = [item for item in items if isinstance(item, AtomItem) and edge_of(item) is not None]
    tests = [item for item in items if operator(item) == "!="]
    relations = {(atom.relation, atom.version) for atom in edges}
    return (
        len(edges) + len(tests) == len(items)
        and len(relations) == 1
        and not any(atom.ranked for atom in edges)
        and all(rankable(sizes(*each)) and not sizes(*each).rises for each in relations)
    )


def restricted(
    items: Sequence[Item], sizes: Statistics, by_degree: bool = False
) -> Restricted | None:
    """The restrictions of the items; None if automorphisms are not supported."""
    edges = [item for item in items if isinstance(item, AtomItem) and edge_of(item) is not None]
    types = types_of(items)
    literals = literals_of(items, lambda atom: sizes(atom.relation, atom.version).symmetric)
    if literals is None or any(map(item_may_fail, items)):
        return None
    unlike = unlike_pairs(items, sizes)
    near = {frozenset(edge_of(atom) or ()) for atom in edges}
    found = Symmetries(literals, in_order(items)).restrictions(
        lambda a, b: (
            (by_degree or types.get(a, "symbol") != "symbol") and frozenset((a, b)) in unlike
        ),
        lambda a, b: frozenset((a, b)) in near,
    )
    return Restricted(tuple(items), found, by_degree)


def partly_restricted(
    items: Sequence[Item], sizes: Statistics
) -> Iterator[tuple[tuple[Item, ...], int]]:
    """Restricted items, and the number of solutions each solution stands for, after each step of
    symmetry breaking. The automorphisms of later steps remain.

    In an orbit of more than two variables the first has the greatest value, since most paths below
    a vertex of high degree are short. Ranks by degree are used if the body is one graph's edges and
    `!=`. Steps that imply no `!=` yet are skipped: each term can break these symmetries itself.
    """
    found = restricted(items, sizes, has_ranks(items, sizes))
    if found is None:
        return
    atoms = [item for item in items if isinstance(item, AtomItem)]
    tested = {frozenset(ends(item)) for item in items if operator(item) == "!="}
    tested -= unlike_neighbours(atoms, sizes)
    pairs: list[tuple[str, str]] = []
    orbit, decides = 1, False
    for name, ways in found.found.moves:
        others = [other for other in ways if other != name]
        pairs += [(other, name) if len(others) > 1 else (name, other) for other in others]
        orbit *= len(ways)
        if not tested.isdisjoint(frozenset(pair) for pair in combinations(ways, 2)):
            decides = True
        if decides:
            yield found.whole(pairs), orbit


def halves(items: Conjunction, sizes: Statistics) -> Iterator[list[Signed]]:
    """A count as twice the bindings with one variable less than another, plus those with both
    equal; for pairs that an automorphism exchanges and that may be equal."""
    by_degree = has_ranks(items, sizes)
    types = types_of(items)
    unlike = unlike_pairs(items, sizes)
    isomorphic, seen = Isomorphic(sizes, {}), set[Hashable]()
    if literals_of(items, lambda atom: sizes(atom.relation, atom.version).symmetric) is None:
        return
    for a, b in combinations(sorted(types), 2):
        if frozenset((a, b)) in unlike or not (by_degree or types[a] == types[b] != "symbol"):
            continue
        key = isomorphic.key(items, (a, b))
        if key in seen or key != isomorphic.key(items, (b, a)):
            continue
        seen.add(key)
        less = (*items, comparison("<", a, b, "int" if by_degree else types[a]))
        equal = merged(items, {b: a}, sizes)
        rest = [] if equal is None else [(1, equal)]
        yield [(2, tuple(map(ranked, less)) if by_degree else less), *rest]
