"""Patterns: small graphs, whose occurrences a rule finds; and shapes, whose vertices are numbered.

Shapes are generated edge by edge. Searches for automorphisms and embeddings are by backtracking:
they place one vertex after the other, and stop where an edge has no image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations, product
from math import prod
from numbers import Integral
from typing import Any

from gdatalog.cancellation import current_watch
from gdatalog.errors import UsageError
from gdatalog.records import dataclass

MOST_VERTICES = 10  # automorphisms are found by trying orders of the vertices

# Words of the language, which cannot name variables.
_WORDS = {"true", "false", "not", "inf", "null", "nil", "in", "exists", "distinct", "match"}
_WORDS |= {"count", "sum", "min", "max", "mean", "any_value", "count_distinct", "bnot", "lnot"}
_WORDS |= {"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"}

NAMES = "abcdefghij"  # of vertices
Label = int | str
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A small graph: `edges` between vertices, which are the variables of a rule.

    `absent`: pairs that must not be edges. `labels`: the label of each vertex that has one.
    `directed`: whether an edge goes from its first vertex to its second, or both ways.

    >>> from gdatalog import patterns
    >>> print(patterns.path(3))
    path3(a, b, c) <- E(a, b), E(b, c), a < c, distinct(a, b, c).
    """

    name: str
    edges: tuple[Pair, ...]
    absent: tuple[Pair, ...] = ()
    labels: tuple[tuple[str, Label], ...] = ()
    directed: bool = False

    @property
    def vertices(self) -> tuple[str, ...]:
        """The vertices, in the order of the edges, then of the labels."""
        ends = [v for pair in (*self.edges, *self.absent) for v in pair]
        return tuple(dict.fromkeys([*ends, *(vertex for vertex, _ in self.labels)]))

    @property
    def automorphisms(self) -> int:
        """The number of automorphisms. A count of embeddings counts each occurrence so many
        times."""
        return prod(map(len, turns(self.shape())))

    def shape(self) -> Shape:
        """The pattern with numbered vertices."""
        place = {vertex: at for at, vertex in enumerate(self.vertices)}
        labels = [dict(self.labels).get(vertex) for vertex in place]
        edges, absent = (
            [(place[u], place[v]) for u, v in pairs] for pairs in (self.edges, self.absent)
        )
        return Shape.of(len(place), edges, absent, labels, self.directed)

    def labelled(self, labels: Mapping[str, Label] | Sequence[Label]) -> Pattern:
        """The pattern with labels for its vertices, by name or in order.

        >>> from gdatalog import patterns
        >>> print(patterns.path(2).labelled([0, 1]))
        path2(a, b) <- E(a, b), L(a, 0), L(b, 1), distinct(a, b).
        """
        if not isinstance(labels, Mapping):
            if len(labels) != len(self.vertices):
                raise UsageError(f"{self.name} has {len(self.vertices)} vertices to be labelled")
            labels = dict(zip(self.vertices, labels, strict=True))
        if unknown := [name for name in labels if name not in self.vertices]:
            raise UsageError(f"{self.name} has no vertex {unknown[0]!r}")
        return Pattern(self.name, self.edges, self.absent, tuple(labels.items()), self.directed)

    # ------------------------------------------------------------------------------- as rules

    def body(self, edges: str = "E", labels: str = "L", induced: bool = False) -> list[str]:
        """The literals of an occurrence, without the inequality of its vertices."""
        found = [f"{edges}({u}, {v})" for u, v in self.edges]
        found += [f"{labels}({vertex}, {_literal(label)})" for vertex, label in self.labels]
        absent = dict.fromkeys(self.absent)
        if induced:
            pairs = permutations if self.directed else combinations
            known = {*self.edges, *absent}
            known |= set() if self.directed else {(v, u) for u, v in known}
            absent |= dict.fromkeys(pair for pair in pairs(self.vertices, 2) if pair not in known)
        found += [f"not {edges}({u}, {v})" for u, v in absent]
        return found

    def rule(
        self, edges: str = "E", labels: str = "L", induced: bool = False, head: str = ""
    ) -> str:
        """The rule that derives each occurrence once, whatever the order of its vertices.

        `head`: the relation to derive; by default the pattern's name.
        """
        body = self.body(edges, labels, induced)
        names = self.vertices
        body += [f"{names[u]} < {names[v]}" for u, v in restrictions(self.shape())]
        body += self._apart()
        return f"{head or variable(self.name)}({', '.join(names)}) <- {', '.join(body)}."

    def count_rule(
        self, edges: str = "E", labels: str = "L", induced: bool = False, head: str = "n"
    ) -> str:
        """The rule that counts all embeddings: each occurrence once for every automorphism."""
        body = [*self.body(edges, labels, induced), *self._apart()]
        return f"{head}(count()) <- {', '.join(body)}."

    def _apart(self) -> list[str]:
        return [f"distinct({', '.join(self.vertices)})"] if len(self.vertices) > 1 else []

    def __str__(self) -> str:
        return self.rule()


_EDGES = '"ab bc ca", or [("a", "b"), ("b", "c")]'


def from_edges(
    edges: str | Iterable[tuple[Hashable, Hashable]],
    *,
    name: str = "pattern",
    labels: Mapping[Any, Label] | None = None,
    directed: bool = False,
) -> Pattern:
    """The pattern of an edge list: pairs, or a text with pairs of letters.

    >>> from gdatalog import patterns
    >>> patterns.from_edges("ab bc ca").automorphisms
    6
    >>> patterns.from_edges([(0, 1), (1, 2)], directed=True).edges
    (('v0', 'v1'), ('v1', 'v2'))
    """
    given: Iterable[Iterable[Hashable]] = edges.split() if isinstance(edges, str) else edges
    try:
        pairs = [tuple(pair) for pair in given]
    except TypeError:
        raise UsageError(f"not a list of edges: {edges!r}", hint=_EDGES) from None
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError("an edge has two ends", hint=_EDGES)
    named = {vertex: variable(vertex) for pair in pairs for vertex in pair}
    for vertex in labels or ():
        named.setdefault(vertex, variable(vertex))
    if len(set(named.values())) < len(named):
        raise UsageError(f"two vertices would have one name: {', '.join(map(str, named))}")
    ends = [(named[u], named[v]) for u, v in pairs]
    if loop := next((u for u, v in ends if u == v), None):
        raise UsageError(f"a pattern has no loops: {loop} is connected to itself")
    if not ends:
        raise UsageError("a pattern needs at least one edge")
    if len(named) > MOST_VERTICES:
        raise UsageError(f"a pattern has at most {MOST_VERTICES} vertices, not {len(named)}")
    once = dict.fromkeys(pair if directed else _either_way(pair, ends) for pair in ends)
    told = tuple((named[vertex], label) for vertex, label in (labels or {}).items())
    return Pattern(name, tuple(once), (), told, directed)


def from_networkx(graph: Any, *, name: str = "pattern", label: str = "label") -> Pattern:
    """The pattern of a networkx graph; the nodes' attribute `label` gives labels.

    >>> import networkx as nx
    >>> from gdatalog import patterns
    >>> patterns.from_networkx(nx.complete_bipartite_graph(2, 3)).automorphisms
    12
    """
    labels = {node: told[label] for node, told in graph.nodes(data=True) if label in told}
    directed = bool(graph.is_directed())
    return from_edges(list(graph.edges()), name=name, labels=labels, directed=directed)


# ------------------------------------------------------------------------------------ families


def clique(size: int) -> Pattern:
    """The complete graph of `size` vertices."""
    return _made(f"clique{size}", _whole(size), 2, lambda: combinations(range(size), 2))


def path(size: int) -> Pattern:
    """A path of `size` vertices."""
    return _made(f"path{size}", _whole(size), 2, lambda: ((at, at + 1) for at in range(size - 1)))


def cycle(size: int) -> Pattern:
    """A cycle of `size` vertices."""
    return _made(
        f"cycle{size}", _whole(size), 3, lambda: ((at, (at + 1) % size) for at in range(size))
    )


def star(leaves: int) -> Pattern:
    """A vertex with `leaves` neighbours."""
    return _made(
        f"star{leaves}", _whole(leaves) + 1, 2, lambda: ((0, at + 1) for at in range(leaves))
    )


def biclique(left: int, right: int) -> Pattern:
    """The complete bipartite graph of `left` and `right` vertices."""
    if _whole(left) < 1 or _whole(right) < 1:
        raise UsageError("each side of a biclique has a vertex at least")
    name = f"biclique{left}_{right}"
    sides = range(left), range(left, left + right)
    return _made(name, left + right, 2, lambda: product(*sides))


FAMILIES = {"clique": clique, "path": path, "cycle": cycle, "star": star, "biclique": biclique}


def _whole(size: object) -> int:
    if not isinstance(size, Integral):
        raise UsageError(f"a number of vertices is whole, not {size!r}")
    return int(size)


def _made(
    name: str, size: int, least: int, pairs: Callable[[], Iterable[tuple[int, int]]]
) -> Pattern:
    if not least <= size <= MOST_VERTICES:
        raise UsageError(f"{name} would have {size} vertices: from {least} to {MOST_VERTICES}")
    return from_edges([(NAMES[u], NAMES[v]) for u, v in pairs()], name=name)


# --------------------------------------------------------------------------------------- texts


def _either_way(pair: Pair, pairs: Sequence[Pair]) -> Pair:
    """The direction in which the pair occurs first."""
    turned = pair[1], pair[0]
    return pair if turned not in pairs or pairs.index(pair) < pairs.index(turned) else turned


def variable(vertex: object) -> str:
    """The variable of a vertex."""
    told = str(vertex)
    plain = re.fullmatch(r"[A-Za-z]\w*", told, re.ASCII) and told not in _WORDS
    return told if plain else "v" + re.sub(r"\W", "_", told, flags=re.ASCII)


def _literal(label: Label) -> str:
    if isinstance(label, str):
        return json.dumps(label)
    if int(label) != label:
        raise UsageError(f"a label is a whole number or a text, not {label!r}")
    return str(int(label))


# A pattern on one line, as graph query languages draw it: `(a:0)-(b:1)-(c:0), (b)-(d:2)`.


def drawn(pattern: Pattern) -> str:
    """The pattern as walks along its edges, in which each edge occurs once.

    >>> from gdatalog import patterns
    >>> print(drawn(patterns.clique(3).labelled([0, 1, 1])))
    (a:0)-(b:1)-(c:1)-(a)
    """
    left, told = list(pattern.edges), dict(pattern.labels)
    shown: set[str] = set()

    def vertex(name: str) -> str:
        label = f":{told[name]}" if name in told and name not in shown else ""
        shown.add(name)
        return f"({name}{label})"

    walks = []
    while left:
        ends = {v: sum(v in edge for edge in left) for v in pattern.vertices}
        odd = [v for v in ends if ends[v] % 2 and (v in shown or not shown)]
        here = min(odd, key=ends.__getitem__, default=left[0][0])
        walk = vertex(here)
        while edge := next((edge for edge in left if here in edge), None):
            left.remove(edge)
            forth = edge[0] == here
            here = edge[1] if forth else edge[0]
            arrow = "-" if not pattern.directed else "->" if forth else "<-"
            walk += arrow + vertex(here)
        walks.append(walk)
    return ", ".join([*walks, *(vertex(v) for v in pattern.vertices if v not in shown)])


# -------------------------------------------------------------------- shapes: vertices are numbered


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

    def pattern(self, labels: Sequence[Label], directed: bool) -> Pattern:
        """The graph with letters as vertices."""
        ends = sorted(self.edges if directed else {(min(e), max(e)) for e in self.edges})
        edges = tuple((NAMES[u], NAMES[v]) for u, v in ends)
        return Pattern("pattern", edges, (), tuple(zip(NAMES, labels, strict=False)), directed)

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
        orbits = [_moved(shape, at, fixed).keys() for at in range(shape.size)]
        first = max(range(shape.size), key=lambda at: (len(orbits[at]), -at))
        if len(orbits[first]) == 1:
            return [pair for pair in found if not _follows(pair, found)]
        found += [(first, other) for other in sorted(orbits[first]) if other != first]
        fixed.append(first)


def _moved(shape: Shape, vertex: int, fixed: Collection[int]) -> dict[int, Images]:
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
        images = _moved(shape, vertex, range(vertex))
        if len(images) > 1:
            yield list(images.values())


def onto(one: Shape, other: Shape) -> Images | None:
    """An isomorphism between graphs with the same number of edges, if there is one."""
    return next(embeddings(one, other), None)


def degrees_of(shape: Shape) -> tuple[object, ...]:
    """An invariant of isomorphism: the degrees."""
    ends = [[edge[end] for edge in shape.edges] for end in (0, 1)]
    return tuple(sorted((ends[0].count(v), ends[1].count(v)) for v in range(shape.size)))
