"""The peers, each set up as those who know it would, on as many threads as gdatalog.

Each peer gets the data in the form that it reads quickest, before any clock runs: DuckDB and
Kuzu Arrow tables, NetworKit and igraph arrays of edges, each edge once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from benchmarks.columns import Columns
from benchmarks.sides import THREADS, digest, digest_of, graph_of

PACKAGES = ("duckdb", "networkit", "igraph", "kuzu", "scipy")


@dataclass(frozen=True, slots=True)
class DuckDB:
    """A query over tables.

    A graph's E becomes e, each edge once from the smaller id to the larger, and s, both ways,
    where the query needs that. `scans`: no tables are made, the query reads the Arrow columns,
    which is the quicker way to a first answer where little of them is read more than once.
    """

    sql: str
    threads: int = THREADS
    arrow: bool = False
    scans: bool = False
    label: str = "DuckDB"

    @property
    def name(self) -> str:
        return self.label

    def load(self, data: Columns) -> Any:
        import duckdb
        import pyarrow as pa

        assert duckdb
        tables = {name: pa.table(relation) for name, relation in data.items()}
        if "E" in data:
            a, b = graph_of(data["E"])
            tables["e"] = pa.table({"a": a.astype(np.int32), "b": b.astype(np.int32)})
            del tables["E"]
        return tables

    def build(self, given: Any) -> Any:
        import duckdb

        con = duckdb.connect(config={"threads": self.threads})
        con.execute("set enable_progress_bar = false")
        con.execute("set preserve_insertion_order = false")
        for name, table in given.items():
            con.register(name if self.scans else f"arrow_{name}", table)
            if not self.scans:
                con.execute(f"create table {name} as select * from arrow_{name}")
        if "e" in given and " s " in self.sql:
            con.execute("create table s as select a, b from e union all select b, a from e")
        return con

    def answer(self, state: Any) -> Any:
        if self.arrow:
            return state.sql(self.sql).to_arrow_table()
        return int(state.execute(self.sql).fetchone()[0])

    def value(self, answer: Any) -> Any:
        return digest_of(answer) if self.arrow else answer


@dataclass(frozen=True, slots=True)
class NetworKit:
    """Triangles. Of its two quick ways, which its makers name, either can be the quicker one.

    "edges" is TriangleEdgeScore on sorted adjacencies and numbered edges, "vertices" is
    LocalClusteringCoefficient in its turbo mode; the scores are added up to the count.
    """

    way: str
    threads: int = THREADS

    @property
    def name(self) -> str:
        return f"NetworKit, {self.way}"

    def load(self, data: Columns) -> Any:
        import networkit

        networkit.setNumberOfThreads(self.threads)
        return tuple(ends.astype(np.uint64) for ends in graph_of(data["E"]))

    def build(self, given: Any) -> Any:
        import networkit

        count = 1 + int(max(given[0].max(), given[1].max()))
        graph = networkit.Graph(count)
        graph.addEdges(given)
        graph.sortEdges()
        if self.way == "edges":
            graph.indexEdges()
        degrees = np.bincount(np.concatenate(given).astype(np.int64), minlength=count)
        return graph, degrees * (degrees - 1) / 6

    def answer(self, state: Any) -> int:
        import networkit

        graph, wedges = state
        if self.way == "edges":
            found = networkit.sparsification.TriangleEdgeScore(graph)
            found.run()
            return sum(found.scores()) // 3
        found = networkit.centrality.LocalClusteringCoefficient(graph, turbo=True)
        found.run()
        return round(float(np.dot(found.scores(), wedges)))

    def value(self, answer: Any) -> Any:
        return answer


@dataclass(frozen=True, slots=True)
class IGraph:
    """Triangles, on one thread: "counted" from the transitivity, or "listed" into Arrow."""

    way: str = "counted"
    threads: int = 1

    @property
    def name(self) -> str:
        return "igraph"

    def load(self, data: Columns) -> Any:
        import igraph

        assert igraph
        return np.stack(graph_of(data["E"]), axis=1)

    def build(self, given: Any) -> Any:
        import igraph

        graph = igraph.Graph(n=1 + int(given.max()), edges=given)
        degrees = np.bincount(given.ravel())
        return graph, float((degrees * (degrees - 1) / 6).sum())

    def answer(self, state: Any) -> Any:
        import pyarrow as pa

        graph, wedges = state
        if self.way == "counted":
            return round(graph.transitivity_undirected() * wedges)
        corners = np.array(graph.list_triangles(), dtype=np.int32).reshape(-1, 3)
        return pa.table([corners[:, place].copy() for place in range(3)], names=list("abc"))

    def value(self, answer: Any) -> Any:
        if self.way == "counted":
            return answer
        return digest([column.to_numpy() for column in answer.columns])


@dataclass(frozen=True, slots=True)
class Kuzu:
    """A query over a graph of vertices V and relationships E, in memory."""

    cypher: str
    threads: int = THREADS

    @property
    def name(self) -> str:
        return "Kuzu"

    def load(self, data: Columns) -> Any:
        import kuzu
        import pyarrow as pa

        assert kuzu
        a, b = (ends.astype(np.int64) for ends in graph_of(data["E"]))
        vertices = np.arange(1 + int(max(a.max(), b.max())))
        return pa.table({"id": vertices}), pa.table({"a": a, "b": b})

    def build(self, given: Any) -> Any:
        import kuzu

        vertices, edges = given
        con = kuzu.Connection(kuzu.Database(), num_threads=self.threads)
        con.execute("create node table V(id int64, primary key(id))")
        con.execute("create rel table E(from V to V)")
        con.execute("copy V from $data", {"data": vertices})
        con.execute("copy E from $data", {"data": edges})
        return con

    def answer(self, state: Any) -> int:
        return int(state.execute(self.cypher).get_next()[0])

    def value(self, answer: Any) -> Any:
        return answer


@dataclass(frozen=True, slots=True)
class SciPy:
    """Graph algorithms of scipy.sparse.csgraph, on one thread, over `edge`: a, b, perhaps w.

    Its index, the matrix, is made with each answer, as ours is where races run afresh.
    "components": how many vertices have edges, and the sum of the least vertex of each one's
    component; "shortest": how many vertices are reached from `source` by Dijkstra's algorithm,
    and the sum of their distances; "reached": how many by breadth-first search; "sampled": the
    same from each of `sample` vertices, without themselves.
    """

    way: str
    source: int = 0
    sample: tuple[int, ...] = ()
    threads: int = 1

    @property
    def name(self) -> str:
        return "SciPy"

    def load(self, data: Columns) -> Any:
        import scipy.sparse.csgraph

        assert scipy.sparse.csgraph
        return data["edge"]

    def build(self, given: Any) -> Any:
        return given

    def matrix(self, given: Any) -> Any:
        from scipy.sparse import csr_matrix

        count = 1 + int(max(given["a"].max(), given["b"].max()))
        values = given["w"] if "w" in given else np.ones(len(given["a"]), dtype=np.int8)
        return csr_matrix((values, (given["a"], given["b"])), shape=(count, count))

    def answer(self, given: Any) -> Any:
        from scipy.sparse import csgraph

        state = self.matrix(given)
        if self.way == "components":
            return state, csgraph.connected_components(state, directed=False)[1]
        if self.way == "shortest":
            return csgraph.dijkstra(state, indices=self.source)
        sources = self.sample or (self.source,)
        return [
            len(csgraph.breadth_first_order(state, source, return_predecessors=False))
            for source in sources
        ]

    def value(self, answer: Any) -> Any:
        """Of a sample the start is no part, as it may be reached from itself or not."""
        if self.way == "components":
            edges, labels = answer
            least = np.full(len(labels), len(labels), dtype=np.int64)
            np.minimum.at(least, labels, np.arange(len(labels)))
            some = np.unique(np.concatenate([edges.indices, np.flatnonzero(np.diff(edges.indptr))]))
            return f"{len(some):,}, their sum {int(least[labels[some]].sum()):,}"
        if self.way == "shortest":
            reached = answer[np.isfinite(answer)]
            return f"{len(reached):,}, their sum {int(reached.sum()):,}"
        return sum(answer) - len(self.sample)


def package_of(side: object) -> str | None:
    """Which package a side is of; None: ours, or NumPy's."""
    name = type(side).__name__.lower()
    return name if name in PACKAGES else None


def is_peer(side: object) -> bool:
    return package_of(side) is not None


def installed() -> dict[str, str]:
    """Which peers there are, with their versions."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
