"""Orbits of graphlets: rules that count homomorphisms, and the induced counts computed from them.

A homomorphism maps the vertices of a small graph to vertices of the data, and edges to edges;
vertices may share an image. Rooted at a vertex, these counts need few relations: numbers for each
edge (`RULES`), multiplied and summed along edges. Each homomorphism maps its graph onto some
graphlet, so that the counts of all graphs with up to five vertices are linear combinations of the
graphlet degrees, for which they are solved (`induced`). ORCA (Hocevar and Demsar 2014) and ESCAPE
(Pinar et al. 2017) use such relations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

from gdatalog.patterns.pattern import Pattern
from gdatalog.patterns.suites import GRAPHLETS, suite
from gdatalog.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]  # of all vertices

# E has each edge in both directions, and no loops. By edge: `tri` and `four`, the number of
# triangles and 4-cliques of the edge, for all orders of the other vertices; `walk`, the walks of
# three edges between its ends. `hN` counts the homomorphisms of orbit N's graph with root v.
RULES = """
deg(v, count()) <- E(v, _).
tri(u, v, count()) <- E(u, v), E(u, w), E(v, w).
near(u, v, count()) <- E(u, v), E(u, w), E(v, w), E(w, _).
fan(u, v, sum(n)) <- E(u, v), tri(u, w, n), E(v, w).
walk(u, v, count()) <- E(u, v), E(v, w), E(w, x), E(x, u).
square(u, v, count()) <- E(u, v), E(v, w), E(u, x), E(x, w), E(u, y), E(y, w).
four(u, v, count()) <- E(u, v), E(u, w), E(v, w), E(u, x), E(v, x), E(w, x).
cross(u, v, count()) <- E(u, v), E(u, w), E(v, w), E(v, x), E(w, x), E(x, y), E(y, u).
tip(u, v, count()) <- E(u, v), E(v, x), E(u, w), E(u, y), E(w, y), E(w, x), E(y, x).
wheel(u, v, count()) <- E(u, v), E(v, w), E(v, x), E(v, y), E(u, w), E(w, x), E(x, y), E(y, u).

h0(v, n) <- deg(v, n).
h2(v, n * n) <- deg(v, n).
h3(v, sum(n)) <- tri(v, _, n).

h7(v, n * n * n) <- deg(v, n).
h8(v, sum(n)) <- walk(v, _, n).
h10(v, sum(n * m)) <- tri(v, u, n), deg(u, m).
h12(v, sum(n)) <- E(v, u), E(v, w), tri(u, w, n).
h13(v, sum(n * n)) <- tri(v, _, n).
h14(v, sum(n)) <- four(v, _, n).

h17(v, n * n) <- h1(v, n).
h21(v, n * n * m) <- deg(v, n), h1(v, m).
h23(v, n * n * n * n) <- deg(v, n).
h25(v, sum(n * m)) <- near(v, u, n), deg(u, m).
h29(v, sum(n * m)) <- tri(v, u, n), h1(u, m).
h30(v, n * m) <- h1(v, n), h3(v, m).
h32(v, sum(n * m)) <- tri(v, u, n), h2(u, m).
h33(v, n * n * m) <- deg(v, n), h3(v, m).
h34(v, count()) <- E(v, u), E(u, w), E(w, x), E(x, y), E(y, v).
h36(v, count()) <- E(v, u), E(u, w), E(v, x), E(x, w), E(w, _).
h37(v, sum(n * m)) <- walk(v, u, n), deg(u, m).
h40(v, sum(n * m)) <- fan(u, v, n), deg(u, m).
h41(v, sum(n * n * m)) <- tri(v, u, n), deg(u, m).
h43(v, sum(n * m)) <- tri(v, u, n), h3(u, m).
h44(v, n * n) <- h3(v, n).
h46(v, sum(n)) <- E(v, u), E(v, w), near(u, w, n).
h48(v, sum(n * m)) <- tri(v, u, n), near(v, u, m).
h49(v, sum(n)) <- square(_, v, n).
h50(v, count()) <- E(v, u), E(u, w), E(v, x), E(x, w), E(v, y), E(y, w).
h51(v, sum(n)) <- E(v, u), tri(u, w, n), E(w, x), E(x, v).
h52(v, sum(n)) <- E(v, u), E(v, w), walk(u, w, n).
h53(v, sum(n * m)) <- tri(v, u, n), walk(v, u, m).
h54(v, sum(n * n)) <- E(v, u), E(v, w), tri(u, w, n).
h55(v, sum(n * n * n)) <- tri(v, _, n).
h57(v, sum(n * m)) <- four(v, u, n), deg(u, m).
h59(v, sum(n)) <- E(v, u), E(v, w), fan(u, w, n).
h60(v, sum(n * m)) <- tri(v, u, n), fan(u, v, m).
h61(v, sum(n * m)) <- tri(v, u, n), fan(v, u, m).
h62(v, sum(n)) <- tip(_, v, n).
h63(v, sum(n)) <- cross(v, _, n).
h64(v, sum(n)) <- cross(_, v, n).
h65(v, sum(n)) <- E(v, u), E(v, w), four(u, w, n).
h66(v, count()) <- E(v, u), E(v, w), E(v, x), E(u, w), E(u, x), E(w, x), E(w, y), E(x, y).
h67(v, sum(n * m)) <- tri(v, u, n), four(v, u, m).
h68(v, sum(n)) <- wheel(v, _, n).
h69(v, sum(n)) <- wheel(_, v, n).
h70(v, count()) <- E(v, u), E(v, w), E(v, x), E(u, w), E(u, x), E(w, x), E(y, u), E(y, w), E(y, x).
h71(v, count()) <- E(v, u), E(v, w), E(u, w), E(v, x), E(u, x), E(w, x), E(v, y), E(u, y), E(w, y).
h72(v, count()) <- E(v, u), E(v, w), E(v, x), E(v, y), E(u, w), E(u, x), E(u, y), E(w, x), E(w, y),
    E(x, y).
"""

# Other rules, by orbit: the sum of a number over the neighbours, and a number times the degree.
SUMS = {1: "deg", 4: "h1", 6: "h2", 9: "h3", 15: "h4", 18: "h6", 19: "h5", 22: "h7", 24: "h10",
        27: "h9", 31: "h11", 35: "h8", 39: "h13", 45: "h12", 56: "h14"}  # fmt: skip
PRODUCTS = {5: "h1", 11: "h3", 16: "h4", 20: "h6", 26: "h10", 28: "h9", 38: "h8", 42: "h13", 47:
            "h12", 58: "h14"}  # fmt: skip


Pairs = frozenset[tuple[int, int]]

# For each graphlet an orbit by whose rule its homomorphisms are counted; graphlets that are faster
# to count without a root; and those of these whose embeddings are faster to count than all
# homomorphisms.
TOTALS = (0, 2, 3, 5, 7, 8, 11, 13, 14, 17, 21, 23, 26, 30, 33, 34, 38, 42, 44, 47, 50, 53, 55, 58,
          61, 63, 67, 69, 71, 72)  # fmt: skip
ROOTLESS = 8, 14, 34, 38, 47, 50, 53, 61, 63, 69, 71, 72
EMBEDDED = 8, 34, 69, 72


@dataclass(frozen=True, slots=True)
class Orbit:
    """Vertices of a graphlet that its automorphisms map onto each other: `root` is one of them."""

    number: int
    pattern: Pattern
    root: str
    members: int  # the number of vertices

    @property
    def size(self) -> int:
        return len(self.pattern.vertices)

    def pairs(self) -> Pairs:
        """The edges in both directions, between numbers of vertices; the root is 0."""
        names = sorted(self.pattern.vertices, key=lambda name: (name != self.root, name))
        ends = [(names.index(u), names.index(v)) for u, v in self.pattern.edges]
        return frozenset([*ends, *((v, u) for u, v in ends)])


@cache
def orbits() -> tuple[Orbit, ...]:
    """O0 to O72."""
    found: dict[int, Orbit] = {}
    for pattern, (_, numbers) in zip(suite("graphlets"), GRAPHLETS, strict=True):
        for vertex, number in zip(sorted(pattern.vertices), numbers, strict=True):
            found.setdefault(number, Orbit(number, pattern, vertex, numbers.count(number)))
    return tuple(found[number] for number in sorted(found))


def rules(edges: str, prefix: str, numbers: Iterable[int]) -> str:
    """The rules for some orbits over a relation of edges; other relations get the prefix."""
    texts = re.findall(r"^\w.*?\.$", RULES, re.M | re.S)
    texts += [f"h{at}(v, sum(n)) <- E(v, u), {of}(u, n)." for at, of in SUMS.items()]
    texts += [f"h{at}(v, n * m) <- deg(v, n), {of}(v, m)." for at, of in PRODUCTS.items()]
    every = {text.partition("(")[0]: text for text in texts}
    needed, waiting = set[str](), [f"h{number}" for number in numbers]
    while waiting:
        name = waiting.pop()
        if name in every and name not in needed:
            needed.add(name)
            waiting += re.findall(r"(\w+)\(", every[name])

    def named(found: re.Match[str]) -> str:
        name = found[1]
        return (edges if name == "E" else prefix + name if name in every else name) + "("

    chosen = (text for name, text in every.items() if name in needed)
    return "".join(re.sub(r"(\w+)\(", named, text) + "\n" for text in chosen)


@cache
def onto(number: int) -> Mapping[int, int]:
    """For each orbit, the number of homomorphisms from the graph of orbit `number` onto a subgraph
    of its graph, root to root: the coefficients of the graphlet degrees in a count of
    homomorphisms."""
    orbit = orbits()[number]
    images: Counter[tuple[int, Pairs]] = Counter()
    for blocks in _partitions(orbit.size):
        merged = {(blocks[u], blocks[v]) for u, v in orbit.pairs()}
        if all(u != v for u, v in merged):
            for way in permutations(range(1, max(blocks) + 1)):
                to = (0, *way)
                images[len(to), frozenset((to[u], to[v]) for u, v in merged)] += 1
    found: Counter[int] = Counter()
    for (size, image), times in images.items():
        for other, pairs in _pairs(size):
            if image <= pairs:
                found[other] += times
    return found


@cache
def _pairs(size: int) -> list[tuple[int, Pairs]]:
    return [(orbit.number, orbit.pairs()) for orbit in orbits() if orbit.size == size]


def _partitions(size: int) -> Iterator[tuple[int, ...]]:
    """For each partition of `size` vertices, the block of each vertex; the first has block 0."""
    ways: list[tuple[int, ...]] = [(0,)]
    for _ in range(size - 1):
        ways = [(*way, block) for way in ways for block in range(max(way) + 2)]
    yield from ways


def induced(numbers: Iterable[int], maps: Callable[[int], Counts]) -> dict[int, Counts]:
    """The graphlet degrees of orbits, which must include those of all smaller graphs, from counts
    of homomorphisms."""
    found: dict[int, Counts] = {}
    every = [orbits()[number] for number in numbers]
    for orbit in sorted(every, key=lambda one: (one.size, -len(one.pattern.edges))):
        times = dict(onto(orbit.number))
        own = times.pop(orbit.number)
        counts = maps(orbit.number)
        for other, many in times.items():
            counts = counts - many * found[other]
        found[orbit.number] = counts // own
    return found


def copies(counts: Mapping[int, int], embedded: Collection[int]) -> dict[str, int]:
    """The number of induced subgraphs of each graphlet, from a count for one orbit of each: of all
    homomorphisms, or, for `embedded` orbits, of the injective ones."""
    found: dict[str, int] = {}
    every = [orbits()[number] for number in counts]
    for orbit in sorted(every, key=lambda one: (one.size, -len(one.pattern.edges))):
        rest, own = counts[orbit.number], 0
        for number, times in onto(orbit.number).items():
            other = orbits()[number]
            if other.pattern is orbit.pattern:
                own += times * other.members
            elif other.size == orbit.size or orbit.number not in embedded:
                rest -= times * other.members * found[other.pattern.name]
        found[orbit.pattern.name] = rest // own
    return found
