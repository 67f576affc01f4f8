"""Graphs: real ones where the data folder has them, else made up; and three kinds of random ones.

They are simple and undirected. As data they are one relation E(a, b) with each edge both ways, in
random order: neither side gets them sorted. For recursion there are directed ones too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.columns import Array, Columns, distinct
from tests import data

Edges = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Graph:
    """Each edge once, from the smaller id to the larger."""

    name: str
    u: Array
    v: Array
    real: bool = True

    def columns(self) -> Columns:
        """As a relation, both ways, shuffled."""
        a, b = data.both_ways(self.u, self.v)
        order = np.random.default_rng(len(a)).permutation(len(a))
        return {"E": {"a": a[order].astype(np.int32), "b": b[order].astype(np.int32)}}


# Vertices and edges of what stands in for a real graph where that is not there.
_STANDS_IN = {
    "email-Enron": (36_692, 183_831),
    "ego-Twitter": (81_306, 1_342_296),
    "cnr-2000": (325_557, 2_738_969),
    "ogbl-ddi": (4_267, 1_334_889),
    "ca-GrQc": (5_242, 14_484),
    "wiki-Vote": (7_115, 100_762),
    "lab-yeast": (3_112, 12_519),
    "soc-Slashdot0902": (82_168, 504_230),
    "dblp-2010": (326_186, 807_700),
}


def graph(name: str) -> Graph:
    """A graph by name, or a generated one of its size."""
    if data.FOLDER is not None and (data.FOLDER / data.graph_path(name)).exists():
        _, u, v = data.graph(name)
        return Graph(name, u, v)
    vertices, edges = _STANDS_IN[name]
    return Graph(f"made up like {name}", *skewed(vertices, edges, seed=1), real=False)


def closure(name: str) -> Graph:
    """A graph whose edges are directed, for recursion; or a generated one."""
    if data.FOLDER is not None and (data.FOLDER / data.closure_path(name)).exists():
        return Graph(name, *data.closure_edges(name))
    u, v = skewed(4_000, 40_000, seed=2)
    return Graph("a generated graph of 4,000 vertices", u, v, real=False)


def wu(edges: int, clique: int, seed: int = 7) -> Graph:
    """Edges at random over edges^((C-1)/(2C-4)) vertices, C the size of cliques looked for.

    So Wu et al. (2014) made the graphs of their figures: the more edges, the fewer cliques of
    that size for each edge are left by chance.
    """
    vertices = round(edges ** ((clique - 1) / (2 * clique - 4)))
    name = f"{short(edges)} random edges over {short(vertices)} vertices"
    return Graph(name, *uniform(vertices, edges, seed), real=False)


def rmat(scale: int, edges: int, seed: int = 8) -> Graph:
    """R-MAT over 2^scale vertices, with Graph500's probabilities 0.57, 0.19, 0.19, 0.05."""
    random = np.random.default_rng(seed)
    ends = _rmat_ends(scale, edges + edges // 2, random)
    u, v = _simple(*ends, 1 << scale, edges, random)
    return Graph(f"R-MAT, scale {scale}, {short(len(u))} edges", u, v, real=False)


def directed_rmat(scale: int = 18, edges: int = 4_000_000, seed: int = 8) -> Graph:
    """The same directed: so many different edges u -> v, u != v, in random order."""
    random = np.random.default_rng(seed)
    u, v = _rmat_ends(scale, edges + edges // 2, random)
    packed = distinct((u << scale | v)[u != v])
    packed = random.permutation(packed)[:edges]
    name = f"R-MAT, scale {scale}, {short(len(packed))} directed edges"
    return Graph(name, packed >> scale, packed & (1 << scale) - 1, real=False)


def weights(graph: Graph, most: int = 100, seed: int = 9) -> Array:
    """A weight for each edge: 1 to `most`."""
    return np.random.default_rng(seed).integers(1, most + 1, len(graph.u))


def _rmat_ends(scale: int, drawn: int, random: np.random.Generator) -> Edges:
    u, v = np.zeros(drawn, dtype=np.int64), np.zeros(drawn, dtype=np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], random.random(drawn, dtype=np.float32))
        u, v = u << 1 | quadrant >> 1, v << 1 | quadrant & 1
    renamed = random.permutation(1 << scale)
    return renamed[u], renamed[v]


def uniform(vertices: int, edges: int, seed: int) -> Edges:
    """So many different edges, each pair as likely as any other."""
    random = np.random.default_rng(seed)
    twice = 2 * edges / (vertices * (vertices - 1) / 2)  # about what share is drawn in vain
    assert twice < 0.5, "the graph would be too dense to draw so"
    ends = random.integers(0, vertices, size=(2, round(edges * (1.01 + twice)) + 100))
    return _simple(*ends, vertices, edges, random)


def skewed(vertices: int, edges: int, seed: int) -> Edges:
    """Random edges of which few vertices have many."""
    random = np.random.default_rng(seed)
    ends = (vertices * random.power(0.45, size=(2, 2 * edges))).astype(np.int64)
    return _simple(*random.permutation(vertices)[vertices - 1 - ends], vertices, edges, random)


def _simple(u: Array, v: Array, vertices: int, edges: int, random: np.random.Generator) -> Edges:
    """At most so many different edges u < v of those drawn, in order."""
    low, high = np.minimum(u, v), np.maximum(u, v)
    packed = distinct((low * vertices + high)[low < high])
    if len(packed) > edges:
        keep = np.ones(len(packed), dtype=bool)
        keep[random.choice(len(packed), len(packed) - edges, replace=False)] = False
        packed = packed[keep]
    return packed // vertices, packed % vertices


def short(number: int) -> str:
    """As people say it: 10K, 1.5M, 2G."""
    for unit, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")):
        if number >= unit:
            return f"{number / unit:.3g}{letter}"
    return str(number)
