"""Local counts: the matches of a part of a body for each vertex, or each edge.

A part that hangs at one variable, or at both ends of an edge, is a function of these, and becomes a
table (`elimination.py`). If the part's automorphisms move them, one match of each orbit is enough,
in degree order: it counts for all vertices, or edges, in the orbit of the key. So triangles by edge
take one pass over the triangles.

If variables of an orbit may be equal, matches are divided by which of these have the greatest value
(`peaks`). Most paths below a vertex of high degree are short, so closed walks by edge take few
steps more than the cycles of four vertices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations

from gdatalog.plan.join_plan import JoinPlan
from gdatalog.plan.nest import entries
from gdatalog.planner import items as n
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.rewrite.orbits import has_ranks, restricted
from gdatalog.planner.rewrite.quotients import merged
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds

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
