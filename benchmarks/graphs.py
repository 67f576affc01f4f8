"""The graphs that benchmarks run on: real ones where the data folder is, else generated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests import data


@dataclass(frozen=True, slots=True)
class Graph:
    """Undirected edges once each, from the smaller id to the larger: id-oriented."""

    name: str
    u: data.Array
    v: data.Array
    real: bool = True


# Vertices and edges of what stands in for a real graph where that is not there.
_STANDS_IN = {
    "email-Enron": (36_692, 183_831),
    "ego-Twitter": (81_306, 1_342_296),
}


def oriented(name: str) -> Graph:
    """A graph by name, or a generated one of its size."""
    if data.FOLDER is not None and (data.FOLDER / data.graph_path(name)).exists():
        _, u, v = data.graph(name)
        return Graph(name, u, v)
    vertices, edges = _STANDS_IN[name]
    u, v = skewed(vertices, edges, seed=1)
    return Graph(f"a generated graph of {name}'s size", u, v, real=False)


def closure(name: str) -> Graph:
    """A graph whose edges are directed, for recursion; or a generated one."""
    if data.FOLDER is not None and (data.FOLDER / data.closure_path(name)).exists():
        return Graph(name, *data.closure_edges(name))
    u, v = skewed(4_000, 40_000, seed=2)
    return Graph("a generated graph of 4,000 vertices", u, v, real=False)


def skewed(vertices: int, edges: int, seed: int) -> data.Columns:
    """Random edges u < v, of which few vertices have many."""
    random = np.random.default_rng(seed)
    ends = (vertices * random.power(0.45, size=(2, 2 * edges))).astype(np.int64)
    ends = vertices - 1 - random.permutation(vertices)[ends]
    u, v = ends.min(axis=0), ends.max(axis=0)
    packed = np.unique((u * vertices + v)[u < v])
    packed = np.sort(random.choice(packed, min(edges, len(packed)), replace=False))
    return packed // vertices, packed % vertices
