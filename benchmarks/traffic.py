"""What is moved between workers to count cliques: by shares, and by fetching lists on demand.

    python -m benchmarks.traffic [--small] [--run 2]

Bytes are told by the edges' bytes: each undirected edge once, two keys of 32 bits. Ours are those
of the plan: buckets as they are moved, and the ranks, of which every worker gets all. `--run 2`
runs it too, by two processes, and tells the bytes that they moved. No run of another system is
behind the figures of fetching: `on_demand.py` simulates it.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import gdatalog as gd
from benchmarks import on_demand
from benchmarks.columns import Array
from benchmarks.graphs import Graph, graph, rmat
from benchmarks.patterns import clique
from gdatalog.cluster.joins.layout import Layout
from gdatalog.cluster.joins.share_search import ShareChoice, weighed
from gdatalog.cluster.joins.shares import Shares, count, fine
from gdatalog.report.tree import ReportNode
from gdatalog.storage.graph import Ranking

WORKERS = 8
BOUNDS = {3: 6.0, 4: 12.0}  # times the edges' bytes, by the size of cliques
MEMORIES = (1 / 2, 1 / 4)  # of the edges' bytes, that a worker has for rows of others
KEY = 4  # bytes of a key
SAMPLE = 100_000  # keys that tell where classes begin


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved, and how they are told: by the bytes of the edges."""

    graph: str
    size: int
    memory: float
    edges: int
    shares: int
    ranks: int
    oriented: int
    full: int

    def times(self, moved: int) -> float:
        return moved / self.edges

    @property
    def ours(self) -> float:
        return self.times(self.shares + self.ranks)

    @property
    def trouble(self) -> str:
        """What is not as it should be."""
        if self.ours >= BOUNDS[self.size]:
            return f"not below {BOUNDS[self.size]:g}x"
        if self.ours >= min(self.times(self.oriented), self.times(self.full)):
            return "not below fetching on demand"
        return ""


def planned(graph: Graph, size: int, workers: int, memory: int) -> ShareChoice:
    """The shares for counting cliques where the edges lie spread over the workers."""
    db = gd.connect(device="cpu")
    db["E"] = both_ways(graph)
    (stratum,) = db.explain(clique(size).rule()).strata
    (join,) = stratum.rules[0].plan.joins
    layout = Layout.of(join)
    (source,) = layout.sources
    ends = [graph.u, graph.v]
    if source.ranked:
        ranking = Ranking(graph.u, graph.v)
        ends = [ranking.ranks(keys) for keys in ends]
    low, high = np.minimum(*ends), np.maximum(*ends)
    assert all(test == (0, "<", 1) for test in source.tests)
    rows = {0: low, 1: high}
    step = max(1, len(low) // SAMPLE)
    (dims,) = layout.dims
    domains = fine(layout, [[rows[dim.column][::step] for dim in dims]])
    census = Shares(layout, domains, (count(rows, dims, domains),), (2 * KEY,))
    choice = weighed(census, memory, workers)
    assert choice is not None, "a quarter of the edges is more than a block needs"
    return choice


def ranks(graph: Graph, workers: int) -> int:
    """Bytes to count degrees and have the ranks on all workers: each tells the others' vertices'
    degrees, and gets the others' ranks."""
    vertices = len(np.unique(np.concatenate([graph.u, graph.v])))
    return 2 * KEY * vertices * (workers - 1)


def traffic(graph: Graph, size: int, part: float, workers: int = WORKERS) -> Traffic:
    edges = 2 * KEY * len(graph.u)
    memory = int(part * edges)
    choice = planned(graph, size, workers, memory)
    (source,) = choice.shares.layout.sources
    return Traffic(
        graph.name,
        size,
        part,
        edges,
        choice.moved,
        ranks(graph, workers) if source.ranked else 0,
        on_demand.moved(graph, size, workers, memory),
        on_demand.moved(graph, size, workers, memory, oriented=False),
    )


def counted(db: gd.Database, size: int) -> int:
    """The bytes of buckets that the workers of a database move to count cliques."""
    db.workspace.force(spread="partition")
    moved = [
        fact
        for node in _nodes(db.profile(clique(size).rule()).tree)
        for name, fact in node.facts
        if name == "bytes moved between workers"
    ]
    return int(sum(fact for fact in moved if isinstance(fact, int)))


def _nodes(node: ReportNode) -> Iterator[ReportNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def run(graphs: Sequence[Graph], workers: int) -> Iterator[str]:
    """What workers move, each a process of this machine that has memory enough."""
    from dask.distributed import Client, LocalCluster

    yield "| cliques | of | counted | planned |"
    yield "| --- | --- | ---: | ---: |"
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        for each in graphs:
            db = gd.connect(device="cpu", cluster=client)
            db["E"] = both_ways(each)
            edges = 2 * KEY * len(each.u)
            for size in BOUNDS:
                expected = planned(each, size, workers, 1 << 40).moved
                moved = counted(db, size)
                yield f"| {each.name} | {size} | {moved / edges:.2f} | {expected / edges:.2f} |"
            db.close()


def both_ways(graph: Graph) -> Array:
    ways = np.stack([graph.u, graph.v], 1), np.stack([graph.v, graph.u], 1)
    return np.concatenate(ways).astype(np.int32)


def table(found: Sequence[Traffic]) -> Iterator[str]:
    """In times of the edges' bytes."""
    yield (
        "| cliques | of | edges | memory for rows of others | shares | ranks | ours | bound "
        "| lists of higher neighbours | whole lists | |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for each in found:
        figures = (each.shares, each.ranks, each.shares + each.ranks)
        ours = " | ".join(f"{each.times(moved):.2f}" for moved in figures)
        size = f"{each.edges / 1e6:.1f} MB"
        yield (
            f"| {each.graph} | {each.size} | {size} | {each.memory:.0%} | {ours} "
            f"| {BOUNDS[each.size]:g} | {each.times(each.oriented):.2f} "
            f"| {each.times(each.full):.1f} | {each.trouble} |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a small graph: to see that all runs")
    parser.add_argument("--run", type=int, default=0, metavar="N", help="by N processes too")
    options = parser.parse_args(arguments)
    graphs = [rmat(11, 20_000)] if options.small else [graph("ego-Twitter"), rmat(17, 2_000_000)]
    found = [traffic(each, size, part) for each in graphs for size in BOUNDS for part in MEMORIES]
    print("\n".join(table(found)))
    if options.run:
        print()
        for line in run(graphs, options.run):
            print(line)
    return 1 if any(each.trouble for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
