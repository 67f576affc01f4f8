"""Counts of one solution of each orbit, in part: restrictions that leave some symmetry.

`symmetry.one_of_each` restricts a body until one solution of each orbit is left. A signed sum does
better with fewer restrictions: what is symmetric below them is counted by squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from gdatalog.planner.automorphisms import Symmetries, literals_of
from gdatalog.planner.edges import (
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
from gdatalog.planner.items import AtomItem, Item, item_may_fail
from gdatalog.planner.sizes import Statistics


def partly_restricted(
    items: Sequence[Item], sizes: Statistics
) -> Iterator[tuple[tuple[Item, ...], int]]:
    """Items with fewer solutions, and how many of the given ones' each stands for, after each of
    the steps by which restrictions are found. The automorphisms of the later steps are still there.

    Of an orbit of more than two variables the first has the greatest value: below a vertex of high
    degree most paths are short. By degree where the body is one graph's edges and `!=`. Steps that
    imply no `!=` yet are passed over: each term may restrict these variables itself.
    """
    edges = [item for item in items if isinstance(item, AtomItem) and edge_of(item) is not None]
    tests = [item for item in items if operator(item) == "!="]
    relations = {(atom.relation, atom.version) for atom in edges}
    alone = len(edges) + len(tests) == len(items) and len(relations) == 1
    by_degree = alone and all(rankable(sizes(*each)) for each in relations)
    by_degree = by_degree and not any(sizes(*each).rises for each in relations)
    types = types_of(items)
    literals = literals_of(items, lambda atom: sizes(atom.relation, atom.version).symmetric)
    if literals is None or any(map(item_may_fail, items)):
        return
    unlike = unlike_pairs(items, sizes)
    near = {frozenset(edge_of(atom) or ()) for atom in edges}
    found = Symmetries(literals, in_order(items)).restrictions(
        lambda a, b: (
            (by_degree or types.get(a, "symbol") != "symbol") and frozenset((a, b)) in unlike
        ),
        lambda a, b: frozenset((a, b)) in near,
    )
    restricted: list[Item] = []
    tested = {frozenset(ends(item)) for item in tests} - unlike_neighbours(edges, sizes)
    orbit, decides = 1, False
    for name, ways in found.moves:
        others = [other for other in ways if other != name]
        pairs = [(other, name) if len(others) > 1 else (name, other) for other in others]
        restricted += [comparison("<", a, b, "int" if by_degree else types[a]) for a, b in pairs]
        orbit *= len(ways)
        if not tested.isdisjoint(frozenset(pair) for pair in combinations(ways, 2)):
            decides = True
        if not decides:
            continue
        whole = (*items, *restricted)
        yield tuple(map(ranked, whole)) if by_degree else whole, orbit
