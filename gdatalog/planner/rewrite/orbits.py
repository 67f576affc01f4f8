"""Counts with partial symmetry breaking, as two equal halves, and split by degree.

`symmetry.one_of_each` restricts a body to one solution of each orbit. For a signed sum fewer
restrictions are better: symmetric parts below them are counted as squares.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import combinations

from gdatalog.plan.join_plan import Apply, Constant, Slot
from gdatalog.planner import items as n
from gdatalog.planner.order import automorphisms
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.rewrite.isomorphic import Isomorphic
from gdatalog.planner.rewrite.quotients import Signed, merged
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass
from gdatalog.storage.graph import RankedEdges

# Least degrees of heavy vertices: the square root of the number of edges divided by these.
HEAVY = (4, 16, 1)
MOST_WALKED = 1 << 24  # rows of a graph whose lists of ranks are walked


@dataclass(frozen=True, slots=True)
class Restricted:
    """The restrictions that select one solution of each orbit of a body. `by_degree`: on ranks."""

    items: tuple[n.Item, ...]
    found: automorphisms.Restrictions
    by_degree: bool

    def whole(self, pairs: Sequence[tuple[str, str]]) -> tuple[n.Item, ...]:
        """The items with a `<` for each pair; over ranks if by degree."""
        types = e.types_of(self.items)
        less = (e.comparison("<", a, b, "int" if self.by_degree else types[a]) for a, b in pairs)
        whole = (*self.items, *less)
        return tuple(map(e.ranked, whole)) if self.by_degree else whole


def has_ranks(items: Sequence[n.Item], sizes: Statistics) -> bool:
    """Whether the items are edges of one symmetric graph and `!=` tests, so that ranks can replace
    their values."""
    edges = e.edges_in(items)
    tests = [item for item in items if e.operator(item) == "!="]
    relations = {(atom.relation, atom.version) for atom in edges}
    return (
        len(edges) + len(tests) == len(items)
        and len(relations) == 1
        and not any(atom.ranked for atom in edges)
        and all(e.rankable(sizes(*each)) and not sizes(*each).rises for each in relations)
    )


def restricted(
    items: Sequence[n.Item], sizes: Statistics, by_degree: bool = False
) -> Restricted | None:
    """The restrictions of the items; None if automorphisms are not supported."""
    found = (
        None
        if any(map(n.item_may_fail, items))
        else automorphisms.restrictions_of(items, sizes, by_degree)
    )
    return None if found is None else Restricted(tuple(items), found, by_degree)


def partly_restricted(
    items: Sequence[n.Item], sizes: Statistics
) -> Iterator[tuple[tuple[n.Item, ...], int]]:
    """Restricted items, and the number of solutions each solution stands for, after each step of
    symmetry breaking. The automorphisms of later steps remain.

    In an orbit of more than two variables the first has the greatest value, since most paths below
    a vertex of high degree are short. Ranks by degree are used if the body is one graph's edges and
    `!=`. Steps that imply no `!=` yet are skipped: each term can break these symmetries itself.
    """
    found = restricted(items, sizes, has_ranks(items, sizes))
    if found is None:
        return
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    tested = {frozenset(e.ends(item)) for item in items if e.operator(item) == "!="}
    tested -= e.unlike_neighbours(atoms, sizes)
    decides = False
    for ways, body, orbit in _steps(found):
        if not tested.isdisjoint(frozenset(pair) for pair in combinations(ways, 2)):
            decides = True
        if decides:
            yield body, orbit


def _steps(found: Restricted) -> Iterator[tuple[Collection[str], n.Conjunction, int]]:
    """The steps of symmetry breaking: an orbit of variables, the items with all restrictions so
    far, and the number of solutions that each stands for."""
    pairs: list[tuple[str, str]] = []
    orbit = 1
    for name, ways in found.found.moves:
        others = [other for other in ways if other != name]
        pairs += [(other, name) if len(others) > 1 else (name, other) for other in others]
        orbit *= len(ways)
        yield ways, found.whole(pairs), orbit


def graph_of(items: n.Conjunction, sizes: Statistics) -> RankedEdges:
    """The graph whose edges a body has."""
    found: RankedEdges | None = next(
        sizes(i.relation, i.version).graph for i in items if isinstance(i, n.AtomItem)
    )
    assert found is not None
    return found


def bodies_to_split(items: n.Conjunction, sizes: Statistics) -> list[tuple[n.Conjunction, int]]:
    """The items of a count over one graph as edges between ranks, with the number of bindings that
    each stands for: all symmetries may be left, or those after any step of symmetry breaking."""
    found = restricted(items, sizes, True) if has_ranks(items, sizes) else None
    rows = [sizes(i.relation, i.version).rows for i in items if isinstance(i, n.AtomItem)]
    if found is None or not rows or rows[0] > MOST_WALKED:
        return []
    return [(found.whole(()), 1), *((body, orbit) for _, body, orbit in _steps(found))]


def split_by_degree(
    body: n.Conjunction, inputs: PlanInputs
) -> Iterator[list[tuple[n.Conjunction, n.Conjunction]]]:
    """Splits of a body over ranks, for each variable that has no bound, by several degrees: its
    bindings in which the variable has a lower degree, and the others."""
    sizes = inputs.sizes
    steps = sorted(graph_of(body, sizes).degree_steps.items())
    rows = next(sizes(i.relation, i.version).rows for i in body if isinstance(i, n.AtomItem))
    least = (rows**0.5 / divisor for divisor in HEAVY)
    ranks = [next((rank for degree, rank in steps if degree > each), None) for each in least]
    some = [Constant(rank, "int") for rank in dict.fromkeys(ranks) if rank is not None]
    isomorphic = Isomorphic(inputs)
    bounded = n.variables_of(item for item in body if len(item.variables) == 1)
    free = sorted(e.types_of(body).keys() - bounded)
    names = {isomorphic.key(body, (name,)): name for name in free}
    for slot in (Slot(name, "int") for name in names.values()):
        tests = [[n.TestItem(Apply(op, (slot, r), "bool")) for op in ("<", ">=")] for r in some]
        yield [((*body, light), (*body, heavy)) for light, heavy in tests]


def halves(items: n.Conjunction, inputs: PlanInputs) -> Iterator[list[Signed]]:
    """A count as twice the bindings with one variable less than another, plus those with both
    equal; for pairs that an automorphism exchanges and that may be equal."""
    sizes = inputs.sizes
    by_degree = has_ranks(items, sizes)
    types = e.types_of(items)
    unlike = e.unlike_pairs(items, sizes)
    isomorphic, seen = Isomorphic(inputs), set[Hashable]()
    if automorphisms.literals_of(items, sizes) is None:
        return
    for a, b in combinations(sorted(types), 2):
        if frozenset((a, b)) in unlike or not (by_degree or types[a] == types[b] != "symbol"):
            continue
        key = isomorphic.key(items, (a, b))
        if key in seen or key != isomorphic.key(items, (b, a)):
            continue
        seen.add(key)
        less = (*items, e.comparison("<", a, b, "int" if by_degree else types[a]))
        equal = merged(items, {b: a}, sizes)
        rest = [] if equal is None else [(1, equal)]
        yield [(2, tuple(map(e.ranked, less)) if by_degree else less), *rest]
