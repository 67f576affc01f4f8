"""Small graphs with numbered vertices: generation edge by edge, automorphisms, embeddings.

Searches are by backtracking: they place one vertex after the other, and stop where an edge has no
image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from gdatalog.cancellation import current_watch
from gdatalog.records import dataclass

Edge = tuple[int, int]
Mapping = tuple[int, ...]  # the image of each vertex


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph of `size` vertices. An undirected edge is stored in both directions."""

    size: int
    edges: frozenset[Edge]
    absent: frozenset[Edge]
    labels: tuple[int | str | None, ...]

    @staticmethod
    def of(
        size: int,
        edges: Iterable[Edge],
        absent: Iterable[Edge] = (),
        labels: Sequence[int | str | None] = (),
        directed: bool = False,
    ) -> Shape:
        def both(pairs: Iterable[Edge]) -> frozenset[Edge]:
            pairs = list(pairs)
            return frozenset([*pairs, *(() if directed else ((v, u) for u, v in pairs))])

        return Shape(size, both(edges), both(absent), tuple(labels) or (None,) * size)

    def automorphisms(self) -> list[Mapping]:
        return list(embeddings(self, self))


def embeddings(small: Shape, large: Shape) -> Iterator[Mapping]:
    """The injective maps of vertices that preserve edges, absent pairs and labels."""
    before = [
        [
            (other, pairs)
            for other in range(at + 1)
            for pairs in ("edges", "absent")
            if (at, other) in getattr(small, pairs) or (other, at) in getattr(small, pairs)
        ]
        for at in range(small.size)
    ]

    def fits(at: int, there: int, placed: list[int]) -> bool:
        if small.labels[at] != large.labels[there]:
            return False
        images = [*placed, there]
        for other, pairs in before[at]:
            mine, its = getattr(small, pairs), getattr(large, pairs)
            image = images[other]
            if (at, other) in mine and (there, image) not in its:
                return False
            if (other, at) in mine and (image, there) not in its:
                return False
        return True

    def placing(placed: list[int]) -> Iterator[Mapping]:
        at = len(placed)
        if at == small.size:
            yield tuple(placed)
            return
        for there in range(large.size):
            if there not in placed and fits(at, there, placed):
                yield from placing([*placed, there])

    yield from placing([])


def restrictions(shape: Shape) -> list[Edge]:
    """Pairs (u, v) such that u < v holds for one embedding of each class under automorphisms
    (Grochow and Kellis 2007); implied pairs are left out."""
    group, found = shape.automorphisms(), []
    while len(group) > 1:
        orbits = [{mapping[at] for mapping in group} for at in range(shape.size)]
        first = max(range(shape.size), key=lambda at: (len(orbits[at]), -at))
        found += [(first, other) for other in sorted(orbits[first]) if other != first]
        group = [mapping for mapping in group if mapping[first] == first]
    return [pair for pair in found if not _follows(pair, found)]


def _follows(pair: Edge, pairs: Sequence[Edge]) -> bool:
    """Whether other pairs imply this one by transitivity."""
    waiting = [v for u, v in pairs if u == pair[0] and v != pair[1]]
    seen = set(waiting)
    while waiting:
        at = waiting.pop()
        if at == pair[1]:
            return True
        more = {v for u, v in pairs if u == at} - seen
        seen |= more
        waiting += more
    return False


# Connected graphs, generated edge by edge, and their parts.


@cache
def grown(size: int, directed: bool) -> tuple[Shape, ...]:
    """The connected graphs of `size` edges, up to isomorphism: those with one edge less, plus an
    edge."""
    if size == 1:
        return (Shape.of(2, [(0, 1)], directed=directed),)
    found: dict[tuple[object, ...], list[Shape]] = {}
    for shape in grown(size - 1, directed):
        current_watch().poll()
        old = range(shape.size)
        pairs = [(u, v) for u in old for v in (*old, shape.size) if u != v]
        pairs += [(shape.size, v) for v in old]
        for u, v in pairs:
            if (u, v) in shape.edges:
                continue
            larger = max(u, v, shape.size - 1) + 1
            more = (*shape.edges, *Shape.of(larger, [(u, v)], directed=directed).edges)
            candidate = Shape(larger, frozenset(more), frozenset(), (None,) * larger)
            same = found.setdefault(degrees_of(candidate), [])
            if not any(onto(candidate, other) for other in same):
                same.append(candidate)
    return tuple(shape for same in found.values() for shape in same)


def parts(shape: Shape, smaller: Sequence[Shape], directed: bool) -> Iterator[tuple[int, Mapping]]:
    """The connected parts with one edge less: the number of the isomorphic smaller shape, and the
    positions of its vertices."""
    for u, v in sorted(shape.edges):
        if directed or u < v:
            taken = {(u, v)} if directed else {(u, v), (v, u)}
            rest = shape.edges - taken
            kept = sorted({end for edge in rest for end in edge})
            place = {vertex: at for at, vertex in enumerate(kept)}
            edges = frozenset((place[x], place[y]) for x, y in rest)
            part = Shape(len(kept), edges, frozenset(), (None,) * len(kept))
            for number, other in enumerate(smaller):
                if degrees_of(other) == degrees_of(part) and (mapping := onto(other, part)):
                    yield number, tuple(kept[there] for there in mapping)


def turns(shape: Shape) -> Iterator[list[Mapping]]:
    """The automorphisms, factored: each is a product of one map of each list, in order."""
    group = shape.automorphisms()
    for vertex in range(shape.size):
        images = {mapping[vertex]: mapping for mapping in group}
        if len(images) > 1:
            yield list(images.values())
        group = [mapping for mapping in group if mapping[vertex] == vertex]


def onto(one: Shape, other: Shape) -> Mapping | None:
    """An isomorphism between graphs with the same number of edges, if there is one."""
    return next(embeddings(one, other), None)


def degrees_of(shape: Shape) -> tuple[object, ...]:
    """An invariant of isomorphism: the degrees."""
    ends = [[edge[end] for edge in shape.edges] for end in (0, 1)]
    return tuple(sorted((ends[0].count(v), ends[1].count(v)) for v in range(shape.size)))
