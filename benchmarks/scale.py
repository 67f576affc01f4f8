"""What counting cliques of a graph of 128 billion edges would take: a calculation.

    python -m benchmarks.scale [--small] [--machines 64] [--threads 8] [--memory 1000] ...

Speeds are fitted to runs of one thread on this machine, over R-MAT graphs of growing size. How the
edges of the large graph lie in classes, and how many pairs of neighbours there are to look at for
each edge, is extrapolated from the same graphs. The planner that cuts joins for a cluster is then
asked for the shares of the large graph, and what it expects to move is told with the fitted speeds.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from time import process_time
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.columns import Array
from benchmarks.graphs import Graph, rmat
from benchmarks.patterns import clique
from gdatalog.cluster.joins.buckets import Grid, in_buckets
from gdatalog.cluster.joins.fragments import MAKING
from gdatalog.cluster.joins.layout import Layout
from gdatalog.cluster.joins.share_search import ShareChoice, weighed
from gdatalog.cluster.joins.shares import Domain, Shares, fine
from gdatalog.cluster.workers.own_process import room_of
from gdatalog.storage.graph import Ranking
from gdatalog.storage.trie_builder import trie_of_rows

SCALES = (14, 15, 16, 17)
DEGREE = 16  # edges for each vertex name of an R-MAT graph
SIZES = (3, 4)
SAMPLE = 100_000
TIMES = 5  # of which the quickest counts


@dataclass(frozen=True, slots=True)
class Measured:
    """One graph: seconds of one thread for each step."""

    edges: int
    pairs: float  # of higher neighbours of a vertex
    ranking: float
    bucketing: float
    indexing: float
    joining: dict[int, float]
    census: dict[int, Shares]


@dataclass(frozen=True, slots=True)
class Model:
    """Seconds of one thread: for each edge, but `joining` for each pair of higher neighbours, by
    the size of cliques. Of pairs there are `pairs * edges ** growth` for each edge."""

    ranking: float
    bucketing: float
    indexing: float
    joining: dict[int, float]
    pairs: float
    growth: float

    @staticmethod
    def fit(found: Sequence[Measured]) -> Model:
        edges = np.array([float(each.edges) for each in found])
        pairs = np.array([each.pairs for each in found])
        growth, first = np.polyfit(np.log(edges), np.log(pairs / edges), 1)
        return Model(
            _slope(edges, [each.ranking for each in found]),
            _slope(edges, [each.bucketing for each in found]),
            _slope(edges, [each.indexing for each in found]),
            {size: _slope(pairs, [each.joining[size] for each in found]) for size in SIZES},
            exp(first),
            float(growth),
        )

    def pairs_of(self, edges: float) -> float:
        return self.pairs * edges * exp(self.growth * log(edges))


def _slope(of: Array, seconds: Sequence[float]) -> float:
    """Seconds for one, where the largest count most."""
    return float(of @ np.array(seconds) / (of @ of))


def measure(graph: Graph) -> Measured:
    began = process_time()
    ranking = Ranking(graph.u, graph.v)
    ends = ranking.ranks(graph.u), ranking.ranks(graph.v)
    low, high = np.minimum(*ends), np.maximum(*ends)
    ranked = process_time() - began
    db = gd.connect(device="cpu", threads=1)
    db["E"] = np.concatenate([np.stack([graph.u, graph.v], 1), np.stack([graph.v, graph.u], 1)])
    joining, census = {}, {}
    for size in SIZES:
        rule = clique(size).rule()
        layout = Layout.of(db.explain(rule).strata[0].rules[0].plan.joins[0])
        step = max(1, len(low) // SAMPLE)
        domains = fine(layout, [[(low, high)[dim.column][::step] for dim in layout.dims[0]]])
        grid = Grid(layout.sources[0], layout.dims[0], domains)
        bucketing, (_, counts) = _quickest(lambda grid=grid: in_buckets({0: low, 1: high}, grid))
        census[size] = Shares(layout, domains, (counts,), (8,))
        db.query(rule, strategy="lftj").fetchall()  # which makes indexes, and compiles
        joining[size], _ = _quickest(lambda rule=rule: db.query(rule, strategy="lftj").fetchall())
    order = np.random.default_rng(1).permutation(len(low))
    rows = low[order], high[order]
    indexing, _ = _quickest(lambda: trie_of_rows(rows, len(low), False))
    higher = np.bincount(low).astype(np.float64)
    pairs = float((higher * (higher - 1)).sum()) / 2
    return Measured(len(low), pairs, ranked, bucketing, indexing, joining, census)


def _quickest(run: Callable[[], Any]) -> tuple[float, Any]:
    """The least seconds of work that it took, and what it gave."""
    least, given = float("inf"), None
    for _ in range(TIMES):
        began = process_time()
        given = run()
        least = min(least, process_time() - began)
    return least, given


@dataclass(frozen=True, slots=True)
class Machines:
    """`memory` and `bandwidth` (bytes, and bytes a second each way) are those of one machine, on
    which one worker runs with so many threads."""

    number: int
    threads: int
    memory: float
    bandwidth: float

    @property
    def room(self) -> int:
        """Bytes of buckets that a thread can have, beside what is made of them."""
        return int(room_of(int(self.memory)) / self.threads / MAKING)


@dataclass(frozen=True, slots=True)
class Needed:
    """What counting cliques of one size needs of each machine: bytes to come, seconds by step."""

    size: int
    choice: ShareChoice
    buckets: float
    ranks: float
    seconds: dict[str, float]


def needed(
    model: Model, census: Shares, size: int, edges: float, vertices: float, machines: Machines
) -> Needed | None:
    """With as many threads as have memory for shares; None: not even one has."""
    large = scaled(census, edges, vertices)
    choice = weighed(large, machines.room, machines.number, machines.threads)
    if choice is None:
        fewer = replace(machines, threads=machines.threads // 2)
        return needed(model, census, size, edges, vertices, fewer) if fewer.threads else None
    slots = machines.number * machines.threads
    key = large.row_bytes[0] // 2
    buckets = choice.moved / machines.number
    # Degrees of the vertices that others own go out, and the ranks of all come in.
    ranks = 2 * key * vertices * (machines.number - 1) / machines.number
    indexed = sum(
        int(choice.shares.rows[0].reshape(-1)[batch.buckets].sum())
        for given in choice.batches
        for batch in given
    )
    seconds = {
        "rank": edges * model.ranking / slots,
        "bucket": edges * model.bucketing / slots,
        "move": (buckets + ranks) / machines.bandwidth,
        "index": indexed * model.indexing / slots,
        "join": model.pairs_of(edges) * model.joining[size] / slots * choice.uneven,
    }
    return Needed(size, choice, buckets, ranks, seconds)


def scaled(census: Shares, edges: float, vertices: float) -> Shares:
    """The census of a graph whose edges lie in classes as those of another do."""
    (rows,) = census.rows
    (domain,) = census.domains
    by = vertices / (domain.span[1] + 1)
    bounds = tuple(round(bound * by) for bound in domain.bounds)
    large = Domain(bounds, (0, round(vertices) - 1))
    counts = np.round(rows * (edges / rows.sum())).astype(np.int64)
    row = 8 if vertices < 1 << 31 else 16
    return Shares(census.layout, (large,), (counts,), (row,))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    graphs = [rmat(scale, DEGREE << scale) for scale in (SCALES[:2] if options.small else SCALES)]
    found = [measure(graph) for graph in graphs]
    print("\n".join(fitted(found, model := Model.fit(found))), end="\n\n")
    machines = Machines(
        options.machines, options.threads, options.memory * 1e9, options.bandwidth * 1e9 / 8
    )
    census = found[-1].census
    all_of_them = [
        needed(model, census[size], size, options.edges, options.vertices, machines)
        for size in SIZES
    ]
    print("\n".join(told(all_of_them, options, machines)))
    return 0


def fitted(found: Sequence[Measured], model: Model) -> Iterator[str]:
    """What was measured, and the model, as Markdown."""
    yield "| edges | pairs for each edge | rank | bucket | index | triangles | 4-cliques |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for each in found:
        steps = (each.ranking, each.bucketing, each.indexing, *each.joining.values())
        times = " | ".join(f"{seconds:.3f} s" for seconds in steps)
        yield f"| {each.edges:,} | {each.pairs / each.edges:.1f} | {times} |"
    yield ""
    yield "Fitted costs of one thread:"
    yield ""
    for what, seconds in (
        ("ranking an edge", model.ranking),
        ("bucketing an edge", model.bucketing),
        ("indexing a row", model.indexing),
        ("triangles, for each pair of higher neighbours", model.joining[3]),
        ("4-cliques, for each pair of higher neighbours", model.joining[4]),
    ):
        yield f"- {what}: {1e9 * seconds:.1f} ns"
    yield f"- pairs for each edge: {model.pairs:.3g} * edges^{model.growth:.2f}"


def told(found: Sequence[Needed | None], options: Namespace, machines: Machines) -> Iterator[str]:
    yield (
        f"{options.edges:.3g} edges, {options.vertices:.3g} vertices; {machines.number} machines "
        f"of {machines.threads} threads, {machines.memory / 1e9:.0f} GB and "
        f"{8 * machines.bandwidth / 1e9:.0f} Gbit/s each:"
    )
    yield ""
    yield "| | " + " | ".join(f"{size}-cliques" for size in SIZES) + " |"
    yield "| --- |" + " ---: |" * len(SIZES)
    rows: dict[str, list[str]] = {}
    for each in found:
        for name, value in _row(each):
            rows.setdefault(name, []).append(value)
    for name, values in rows.items():
        yield f"| {name} | {' | '.join(values)} |"


def _row(each: Needed | None) -> Iterator[tuple[str, str]]:
    if each is None:
        yield "", "no shares fit the memory"
        return
    shares = each.choice.shares
    batches = sum(map(len, each.choice.batches))
    yield "calls at a time on a machine", f"{each.choice.threads}"
    yield "memory for the buckets of a call", f"{each.choice.memory / 1e9:.0f} GB"
    yield "classes of vertices", f"{shares.domains[0].classes}"
    yield "blocks of the hypercube", f"{len(shares.blocks):,}"
    yield "calls", f"{batches:,}"
    yield "buckets for the largest block", f"{shares.largest / 1e9:.1f} GB"
    yield "edges' bytes, as rows of two keys", f"{shares.total / 1e12:.2f} TB"
    yield "buckets moved in all", f"{each.choice.moved / 1e12:.2f} TB"
    yield "buckets that come to a machine", f"{each.buckets / 1e9:.0f} GB"
    yield "degrees and ranks that come to a machine", f"{each.ranks / 1e9:.0f} GB"
    for step, seconds in each.seconds.items():
        yield f"{step}", _time(seconds)
    yield "all", _time(sum(each.seconds.values()))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _options(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--small", action="store_true", help="small graphs: to see that all runs")
    parser.add_argument("--edges", type=float, default=128e9)
    parser.add_argument("--vertices", type=float, default=3.5e9)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--threads", type=int, default=4, help="that run calls, on each machine")
    parser.add_argument("--memory", type=float, default=1000, help="GB of a machine")
    parser.add_argument("--bandwidth", type=float, default=100, help="Gbit/s of a machine")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
