"""Counts with partial symmetry breaking, as two equal halves, and split by degree.

`symmetry.one_of_each` restricts a body to one solution of each orbit. For a signed sum fewer
restrictions are better: symmetric parts below them are counted as squares.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import combinations

from gdatalog.plan import Apply, Constant, Slot
from gdatalog.planner.items import AtomItem, Conjunction, Item, TestItem, item_may_fail
from gdatalog.planner.order import Statistics
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
from gdatalog.planner.rewrite.automorphisms import Restrictions, Symmetries, literals_of
from gdatalog.planner.rewrite.quotients import Isomorphic, Signed, merged
from gdatalog.records import dataclass

# Least degrees of heavy vertices: the square root of the number of edges divided by these.
HEAVY = (4, 16, 1)
MOST_WALKED = 1 << 24  # rows of a graph whose lists of ranks are walked


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
    decides = False
    for ways, body, orbit in _steps(found):
        if not tested.isdisjoint(frozenset(pair) for pair in combinations(ways, 2)):
            decides = True
        if decides:
            yield body, orbit


def _steps(found: Restricted) -> Iterator[tuple[Collection[str], Conjunction, int]]:
    """The steps of symmetry breaking: an orbit of variables, the items with all restrictions so
    far, and the number of solutions that each stands for."""
    pairs: list[tuple[str, str]] = []
    orbit = 1
    for name, ways in found.found.moves:
        others = [other for other in ways if other != name]
        pairs += [(other, name) if len(others) > 1 else (name, other) for other in others]
        orbit *= len(ways)
        yield ways, found.whole(pairs), orbit


def split_by_degree(
    items: Conjunction, sizes: Statistics
) -> Iterator[tuple[int, list[tuple[Conjunction, Conjunction]]]]:
    """Splits of a count over one graph, for each variable, by several degrees: those of its
    bindings in which the variable has a lower degree, and the others. Each stands for a number of
    bindings. All symmetries may be left, or those after any step of symmetry breaking."""
    found = restricted(items, sizes, True) if has_ranks(items, sizes) else None
    graphs = [sizes(i.relation, i.version) for i in items if isinstance(i, AtomItem)]
    if found is None or not graphs or graphs[0].graph is None or graphs[0].rows > MOST_WALKED:
        return
    graph = graphs[0].graph
    graph.walk_ranks()
    isomorphic = Isomorphic(sizes, {})
    wholes = [(found.whole(()), 1), *((body, orbit) for _, body, orbit in _steps(found))]
    steps = sorted(graph.degree_steps.items())
    least = (graphs[0].rows ** 0.5 / divisor for divisor in HEAVY)
    ranks = [next((rank for degree, rank in steps if degree > each), None) for each in least]
    some = [Constant(rank, "int") for rank in dict.fromkeys(ranks) if rank is not None]
    for body, orbit in wholes:
        names = {isomorphic.key(body, (name,)): name for name in sorted(types_of(body))}
        for slot in (Slot(name, "int") for name in names.values()):
            tests = [[TestItem(Apply(op, (slot, r), "bool")) for op in ("<", ">=")] for r in some]
            yield orbit, [((*body, light), (*body, heavy)) for light, heavy in tests]


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
