"""All triangles of a graph, listed into Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.patterns import clique
from benchmarks.peers import DuckDB, IGraph
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import DEPTH, Gdatalog


def run(setting: Setting) -> Iterator[Case]:
    graph, pattern = setting.graph("ego-Twitter"), clique(3)
    ours = Gdatalog(pattern.listing(), arrow=True)
    sides = [
        ours,
        DuckDB(pattern.sql("*"), arrow=True),
        IGraph("listed"),
        ours.breadth_first(),
    ]
    if not setting.wants("listing", 60):
        return
    what = f"triangles listed, {graph.name}"
    case = setting.race("listing", what, setting.graph_data(graph), sides)
    case.asks = [faster(case, DEPTH, [peer], 5) for peer in ("DuckDB", "igraph")]
    yield case
