"""Local counts: the number of matches of a part of a body for each vertex, or each edge.

A part that hangs at one variable, or at both ends of an edge, is a function of these, and becomes a
table (`elimination.py`). If the part's automorphisms move them, one match of each orbit is enough,
in degree order: it counts for all vertices, or edges, in the orbit of the key. So triangles by edge
take one pass over the triangles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gdatalog.plan import JoinPlan
from gdatalog.plan.nest import entries
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.build import PlanBuilder
from gdatalog.planner.items import AtomItem, Conjunction
from gdatalog.planner.order import Statistics
from gdatalog.planner.order.edges import ranked, types_of
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.rewrite.orbits import has_ranks, restricted
from gdatalog.records import dataclass

Names = frozenset[str]
Moves = Sequence[tuple[str, Mapping[str, Mapping[str, str]]]]


@dataclass(frozen=True, slots=True)
class LocalCounts:
    """A join, and the images of the key at whose values each match counts."""

    join: JoinPlan
    images: tuple[tuple[str, ...], ...]


def in_ranks(items: Conjunction, sizes: Statistics, tuning: Tuning) -> Conjunction:
    """The items with ranks in place of values, if degrees are skewed enough for that to help."""
    if not has_ranks(items, sizes):
        return items
    graphs = [sizes(i.relation, i.version).graph for i in items if isinstance(i, AtomItem)]
    symbols = "symbol" in types_of(items).values()  # symbols have no order that can cut lists
    helps = all(g is not None and (symbols or g.skew >= tuning.degree_skew) for g in graphs)
    return tuple(map(ranked, items)) if helps else items


def local_counts(
    items: Conjunction, key: tuple[str, ...], sizes: Statistics, builder: PlanBuilder
) -> LocalCounts | None:
    """The counts of a body by one variable, or by two that share an atom; None if no automorphism
    moves the key, or if values would need a lookup."""
    found = restricted(items, sizes)
    if found is None or not found.found.moves:
        return None
    if len(key) == 1 and not all(i.ranked for i in items if isinstance(i, AtomItem)):
        return None  # values may be sparse; ranks are dense
    told = _images(key, found.found.moves)
    if told is None:
        return None
    times, images = told
    body = without_implied(found.whole(found.found.pairs), sizes)
    live = frozenset(name for image in images for name in image)
    builder.ascending = len(key) == 2  # so that all edges are entries of one trie
    steps = builder.whole(body, live, True, frozenset(), 1.0)
    join = JoinPlan(builder.tries(), steps, (), True, times, builder.cost)
    turned = images if len(key) == 1 else _turned(join, images)
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
                moved[tuple(way[name] for name in image)] += times
        found = moved
    if len(set(found.values())) > 1 or any(image[::-1] not in found for image in found):
        return None
    once = {frozenset(image): image for image in found}
    return found[key], list(once.values())


def _turned(join: JoinPlan, images: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]] | None:
    """The pairs in the join's order; None unless all are entries of one trie with one order of each
    pair."""
    there = entries(join)
    turned = [image if image in there else image[::-1] for image in images]
    tries = {there[image].trie if image in there else None for image in turned}
    if len(tries) > 1:
        return None
    (trie,) = tries
    one_way = trie is not None and [test.op in ("<", ">") for test in trie.tests] == [True]
    return turned if one_way and trie is not None and not trie.weighted else None
