"""Shortest paths, ours and SciPy's: weights that are no ints, and several sources at once.

Beside the rows of `recursion`. Both sides answer anew from data that is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.columns import Columns
from benchmarks.graphs import Graph, directed_rmat, weights
from benchmarks.records import Case, faster
from benchmarks.recursion import NOTE, SHORTEST, busiest
from benchmarks.setting import Setting
from benchmarks.sides import Recursive
from benchmarks.worker import Side

SEVERAL = """
    dist(s, s, 0) <- s in {{{sources}}}.
    dist(s, y, min(d + w)) <- dist(s, x, d), edge(x, y, w).
    n(count(), sum(d)) <- dist(_, _, d)."""
FLOATS = SHORTEST.replace("{source}, 0)", "{source}, 0.0)").replace(
    "sum(d))", "to_int(8.0 * sum(d)) / 8)"
)
EIGHTH = 8  # weights that are no ints, of which any sum is exact
SOURCES = 8
WANTED = 1.2


@dataclass(frozen=True, slots=True)
class SciPy(peers.SciPy):
    """The same from several sources."""

    way: str = "shortest"
    sources: tuple[int, ...] = ()

    def answer(self, given: Any) -> Any:
        from scipy.sparse import csgraph

        return csgraph.dijkstra(self.matrix(given), indices=list(self.sources)).ravel()


def run(setting: Setting) -> Iterator[Case]:
    if not setting.wants("shortest paths, R-MAT, floats and several sources", 120):
        return
    graph = directed_rmat(*((10, 8_000) if setting.small else (18, 4_000_000)))
    sources = busiest_of(graph, SOURCES)
    ints = Recursive(SEVERAL.format(sources=", ".join(map(str, sources))))
    floats = Recursive(FLOATS.format(source=busiest(graph)))
    works: list[tuple[str, bool, list[Side]]] = [
        ("shortest paths by floats", True, [floats, SciPy(sources=(busiest(graph),))]),
        (f"shortest paths from {SOURCES} sources", False, [ints, SciPy(sources=sources)]),
    ]
    for name, by_floats, sides in works:
        what = f"{name}, {graph.name}"
        data = setting.stored(what, partial(weighted, graph, by_floats))
        case = setting.race("recursion", what, data, sides, notes=(NOTE,), afresh=True)
        case.asks.append(faster(case, sides[0].name, ["SciPy"], WANTED))
        yield case


def weighted(graph: Graph, by_floats: bool) -> Columns:
    given = weights(graph)
    return {"edge": {"a": graph.u, "b": graph.v, "w": given / EIGHTH if by_floats else given}}


def busiest_of(graph: Graph, count: int) -> tuple[int, ...]:
    """The vertices of largest out-degrees."""
    degrees = np.bincount(graph.u)
    return tuple(np.argsort(-degrees, kind="stable")[:count].tolist())
