"""Shapes: patterns whose vertices are numbered.

Searches for automorphisms and embeddings are by backtracking: they place one vertex after the
other, and stop where an edge has no image.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gdatalog.records import dataclass

Label = int | str


Edge = tuple[int, int]
Images = tuple[int, ...]  # the image of each vertex


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

    def automorphisms(self) -> list[Images]:
        return list(embeddings(self, self))


def embeddings(
    small: Shape, large: Shape, given: Mapping[int, int] | None = None
) -> Iterator[Images]:
    """The injective maps of vertices that preserve edges, absent pairs and labels; `given`: the
    images of some vertices."""
    given = given or {}
    taken = set(given.values())
    # For each vertex, its pairs with vertices up to it: the other end, whether that is the second,
    # and the pairs that must have the image.
    tied: list[list[tuple[int, bool, frozenset[Edge]]]] = [[] for _ in range(small.size)]
    for mine, its in ((small.edges, large.edges), (small.absent, large.absent)):
        for u, v in mine:
            tied[max(u, v)].append((min(u, v), u > v, its))

    def placing(placed: list[int]) -> Iterator[Images]:
        at = len(placed)
        if at == small.size:
            yield tuple(placed)
            return
        free = (there for there in range(large.size) if there not in taken)
        for there in (given[at],) if at in given else free:
            if there in placed or small.labels[at] != large.labels[there]:
                continue
            images = [*placed, there]
            if all(
                ((there, images[other]) if second else (images[other], there)) in its
                for other, second, its in tied[at]
            ):
                yield from placing(images)

    yield from placing([])


def restrictions(shape: Shape) -> list[Edge]:
    """Pairs (u, v) such that u < v holds for one embedding of each class under automorphisms
    (Grochow and Kellis 2007); implied pairs are left out."""
    found: list[Edge] = []
    fixed: list[int] = []
    while True:
        orbits = [moved_by(shape, at, fixed).keys() for at in range(shape.size)]
        first = max(range(shape.size), key=lambda at: (len(orbits[at]), -at))
        if len(orbits[first]) == 1:
            return [pair for pair in found if not _follows(pair, found)]
        found += [(first, other) for other in sorted(orbits[first]) if other != first]
        fixed.append(first)


def moved_by(shape: Shape, vertex: int, fixed: Collection[int]) -> dict[int, Images]:
    """The images of a vertex under the automorphisms that keep others, and one for each."""
    found: dict[int, Images] = {}
    kept = {at: at for at in fixed}
    free = [at for at in range(shape.size) if at not in kept]
    for image in (vertex,) if vertex in kept else free:
        way = next(embeddings(shape, shape, {**kept, vertex: image}), None)
        if way is not None:
            found[image] = way
    return found


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
