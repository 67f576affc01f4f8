"""One worker of a cluster and several, of a core each: the same count.

    python -m benchmarks.workers [--workers 2] [--times 8]

5-cliques of ego-Twitter, or of a made-up graph where that is not there. The answers are compared
with those of one thread without a cluster; what compiles and places data is told apart.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from time import perf_counter

import gdatalog as gd
from benchmarks.graphs import Graph, graph
from benchmarks.machine import cores
from benchmarks.patterns import KNOWN, clique

GRAPH, SIZE = "ego-Twitter", 5
WANTED = 1.7  # times one worker's speed, of two


def timed(graph: Graph, rule: str, times: int, cluster: str | None, threads: int) -> list[float]:
    """The count, and the seconds that it took, the first time and each time after."""
    with gd.connect(device="cpu", cluster=cluster, threads=threads) as db:
        if cluster is not None:
            db.workspace.force(spread="replicate")  # however short the query
        db["E"] = graph.columns()["E"]
        seconds = []
        for _ in range(1 + times):
            started = perf_counter()
            ((found,),) = db.query(rule).fetchall()
            seconds.append(perf_counter() - started)
    return [found, *seconds]


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=8)
    told = parser.parse_args(arguments)
    edges, pattern = graph(GRAPH), clique(SIZE)
    print(f"{pattern.name}, {edges.name}, {len(edges.u):,} edges; {cores()} cores")
    rule, best = pattern.rule(), {}
    expected = {KNOWN.get((edges.name, pattern.name))} - {None}
    for workers in (0, 1, told.workers):
        where = "local" if workers else None
        found, first, *again = timed(edges, rule, told.times, where, workers or 1)
        expected.add(int(found))
        best[workers] = min(again)
        name = f"{workers} worker{'s' * (workers > 1)}" if workers else "one thread, no cluster"
        print(
            f"{name:<24}{found:>14,.0f}  first {first:6.2f} s  then {best[workers] * 1e3:6.1f} ms"
        )
    ratio = best[1] / best[told.workers]
    print(f"{told.workers} workers: {ratio:.2f}x one ({WANTED:g}x was asked of two)")
    if len(expected) > 1:
        print(f"the answers differ: {sorted(expected)}")
    return len(expected) > 1


if __name__ == "__main__":
    sys.exit(main())
