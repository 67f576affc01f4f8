"""Connected graphs, generated edge by edge, and their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from gdatalog.cancellation import current_watch
from gdatalog.patterns.shapes import Images, Shape, embeddings, moved_by


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


def parts(shape: Shape, smaller: Sequence[Shape], directed: bool) -> Iterator[tuple[int, Images]]:
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


def turns(shape: Shape) -> Iterator[list[Images]]:
    """The automorphisms, factored: each is a product of one map of each list, in order."""
    for vertex in range(shape.size):
        images = moved_by(shape, vertex, range(vertex))
        if len(images) > 1:
            yield list(images.values())


def onto(one: Shape, other: Shape) -> Images | None:
    """An isomorphism between graphs with the same number of edges, if there is one."""
    return next(embeddings(one, other), None)


def degrees_of(shape: Shape) -> tuple[object, ...]:
    """An invariant of isomorphism: the degrees."""
    ends = [[edge[end] for edge in shape.edges] for end in (0, 1)]
    return tuple(sorted((ends[0].count(v), ends[1].count(v)) for v in range(shape.size)))
