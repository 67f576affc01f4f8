"""Counts with partial symmetry breaking, as two equal halves, and split by degree.

`symmetry.one_of_each` restricts a body to one solution of each orbit. For a signed sum fewer
restrictions are better: symmetric parts below them are counted as squares.

Local counts are the matches of a part of a body for each vertex, or each edge. A part that hangs at
one variable, or at both ends of an edge, is a function of these, and becomes a table
(`elimination.py`). If the part's automorphisms move them, one match of each orbit is enough, in
degree order: it counts for all vertices, or edges, in the orbit of the key. So triangles by edge
take one pass over the triangles.

If variables of an orbit may be equal, matches are divided by which of these have the greatest value
(`peaks`). Most paths below a vertex of high degree are short, so closed walks by edge take few
steps more than the cycles of four vertices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import combinations, permutations

from gdatalog.plan.join_plan import Apply, Constant, JoinPlan, Slot
from gdatalog.plan.nest import entries
from gdatalog.planner import items as n
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.search import PlanInputs
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.rewrite.quotients import Isomorphic, Signed, merged
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds
from gdatalog.storage.graph import RankedEdges

# Least degrees of heavy vertices: the square root of the number of edges divided by these.
HEAVY = (4, 16, 1)
MOST_WALKED = 1 << 24  # rows of a graph whose lists of ranks are walked


@dataclass(frozen=True, slots=True)
class Restricted:
    """The restrictions that select one solution of each orbit of a body. `by_degree`: on ranks."""

    items: tuple[n.Item, ...]
    found: e.Restrictions
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
    found = None if any(map(n.item_may_fail, items)) else e.restrictions_of(items, sizes, by_degree)
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
    if e.literals_of(items, sizes) is None:
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


# ----------------------------------------------------------------------------- local counts


Names = frozenset[str]
Moves = Sequence[tuple[str, Mapping[str, Mapping[str, str]]]]


@dataclass(frozen=True, slots=True)
class LocalCounts:
    """A join, and the images of the key at whose values each match counts."""

    join: JoinPlan
    images: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Peak:
    """The matches in which certain variables are the greatest of their orbit: a body in which these
    are one variable, and the images of the key at whose values each match counts."""

    items: n.Conjunction
    images: tuple[tuple[str, ...], ...]


def in_ranks(items: n.Conjunction, sizes: Statistics, thresholds: Thresholds) -> n.Conjunction:
    """The items with ranks in place of values, if degrees are skewed enough for that to help."""
    if not has_ranks(items, sizes):
        return items
    graphs = [sizes(i.relation, i.version).graph for i in items if isinstance(i, n.AtomItem)]
    symbols = "symbol" in e.types_of(items).values()  # symbols have no order that can cut lists
    helps = all(g is not None and (symbols or g.skew >= thresholds.degree_skew) for g in graphs)
    return tuple(map(e.ranked, items)) if helps else items


def local_counts(
    items: n.Conjunction, key: tuple[str, ...], sizes: Statistics, builder: PlanBuilder
) -> LocalCounts | None:
    """The counts of a body by one variable, or by two that share an atom; None if no automorphism
    moves the key, or if values would need a lookup."""
    found = restricted(items, sizes)
    if found is None or not found.found.moves:
        return None
    if len(key) == 1 and not all(i.ranked for i in items if isinstance(i, n.AtomItem)):
        return None  # values may be sparse; ranks are dense
    told = _images(key, found.found.moves)
    if told is None:
        return None
    times, images = told
    body = without_implied(found.whole(found.found.pairs), sizes)
    live = frozenset([name for image in images for name in image])
    builder.ascending = len(key) == 2  # so that all edges are entries of one trie
    join = builder.counting(body, live, times)
    turned = turned_images(join, images)
    return None if turned is None else LocalCounts(join, tuple(turned))


def _images(key: tuple[str, ...], moves: Moves) -> tuple[int, list[tuple[str, ...]]] | None:
    """The images of the key under the orbit, and how often each occurs; a pair in one of its two
    orders."""
    found = Counter([key])
    for _, ways in moves:
        back = [{image: name for name, image in way.items()} for way in ways.values()]
        moved: Counter[tuple[str, ...]] = Counter()
        for image, times in found.items():
            for way in back:
                moved[tuple([way[name] for name in image])] += times
        found = moved
    if len(set(found.values())) > 1 or any(image[::-1] not in found for image in found):
        return None
    once = {frozenset(image): image for image in found}
    return found[key], list(once.values())


def turned_images(
    join: JoinPlan, images: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]] | None:
    """Images of a key; pairs in the join's order, None unless all are entries of one trie."""
    if len(images[0]) == 1:
        return list(images)
    there = entries(join)
    turned = [image if image in there else image[::-1] for image in images]
    tries = {there[image].trie if image in there else None for image in turned}
    trie = tries.pop() if len(tries) == 1 else None
    plain = trie is not None and all(op in ("<", ">") for _, op, _ in trie.tests)
    return turned if plain and trie is not None and not trie.weighted else None


MOST_PEAKS = 6  # variables of a body whose peaks are found


def peaks(items: n.Conjunction, key: tuple[str, ...], sizes: Statistics) -> Iterator[list[Peak]]:
    """The matches of a body by which variables of an orbit have the greatest value, for each orbit
    whose variables may be equal. The automorphisms of the body map these to each other, so one
    case of each kind is enough. The body must be edges between ranks of one graph."""
    names = sorted(n.variables_of(items))
    edges = e.pairs_of(i for i in items if isinstance(i, n.AtomItem) and i.ranked)
    relations = {i.relation for i in items if isinstance(i, n.AtomItem)}
    if len(edges) < len(items) or len(relations) > 1 or len(names) > MOST_PEAKS:
        return
    ways = [dict(zip(names, image, strict=True)) for image in permutations(names)]
    group = [way for way in ways if all({way[name] for name in edge} in edges for edge in edges)]
    for orbit in sorted({tuple(sorted({way[name] for way in group})) for name in names}):
        found = [_peak(items, key, peak, orbit, group, sizes) for peak in _kinds(orbit, group)]
        cases = [each for each in found if each is not None]
        if len(cases) > 1 and all(each.images for each in cases):
            yield cases


def _kinds(orbit: Sequence[str], group: Sequence[Mapping[str, str]]) -> Iterator[Names]:
    """The sets of variables of an orbit, one of those that automorphisms map to each other."""
    seen: set[Names] = set()
    for size in range(1, len(orbit) + 1):
        for members in map(frozenset, combinations(orbit, size)):
            if members not in seen:
                seen |= {frozenset([way[name] for name in members]) for way in group}
                yield members


def _peak(
    items: n.Conjunction,
    key: tuple[str, ...],
    peak: Names,
    orbit: Sequence[str],
    group: Sequence[Mapping[str, str]],
    sizes: Statistics,
) -> Peak | None:
    """The matches with one set of greatest variables; None if neighbours would be equal. Without
    images if these are not pairs of variables in both orders."""
    top = min(peak)
    body = merged(items, dict.fromkeys(peak - {top}, top), sizes)
    if body is None:
        return None
    body = (*body, *(e.comparison(">", top, other) for other in orbit if other not in peak))
    # Each set that the peak is mapped to has one image of the key: the first by name.
    least: dict[Names, tuple[str, ...]] = {}
    for way in group:
        back = {image: top if name in peak else name for name, image in way.items()}
        there, image = frozenset([way[name] for name in peak]), tuple([back[name] for name in key])
        least[there] = min(least.get(there, image), image, key=sorted)
    images = Counter(least.values())
    if len(key) == 2 and any(images[each] != images[each[::-1]] for each in images):
        return Peak(body, ())
    return Peak(body, tuple(sorted([each for each in images.elements() if each <= each[::-1]])))
