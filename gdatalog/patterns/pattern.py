"""Patterns: small graphs, whose occurrences a rule finds."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations, permutations
from math import prod
from typing import Any

from gdatalog.errors import UsageError
from gdatalog.patterns.grown import turns
from gdatalog.patterns.shapes import Label, Shape, restrictions
from gdatalog.records import dataclass

MOST_VERTICES = 10  # automorphisms are found by trying orders of the vertices
# Words of the language, which cannot name variables.
_WORDS = {"true", "false", "not", "inf", "null", "nil", "in", "exists", "distinct", "match"}
_WORDS |= {"count", "sum", "min", "max", "mean", "any_value", "count_distinct", "bnot", "lnot"}
_WORDS |= {"lor", "lxor", "land", "bor", "bxor", "band", "bshl", "bshr", "bshru"}
NAMES = "abcdefghij"  # of vertices
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


def pattern_of(shape: Shape, labels: Sequence[Label], directed: bool) -> Pattern:
    """A shape with letters as vertices."""
    ends = sorted(shape.edges if directed else {(min(e), max(e)) for e in shape.edges})
    edges = tuple((NAMES[u], NAMES[v]) for u, v in ends)
    return Pattern("pattern", edges, (), tuple(zip(NAMES, labels, strict=False)), directed)


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
