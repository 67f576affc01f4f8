"""GAMMA (Hu et al. 2022): k-cliques, subgraph matching and frequent patterns, and their memory."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.bench import Bench, Row
from benchmarks.papers.frequent import mined
from gdatalog.patterns import clique, named

MATCHED = ("P1", "P4", "house")  # with four labels
MINED = (("lab-citeseer", 3, 100), ("lab-citeseer", 4, 100), ("lab-yeast", 3, 100),
         ("lab-human", 3, 200), ("lab-wordnet", 3, 1000))  # fmt: skip


def run(bench: Bench) -> Iterator[Row]:
    for graph in bench.graphs("ca-GrQc", "email-Enron"):
        with bench.database(graph) as db:
            for size in (3, 4, 5):
                yield bench.counted("GAMMA: k-cliques", clique(size), graph, db)
        labels = bench.labels(graph, 4)
        with bench.database(graph, labels) as db:
            for name in MATCHED:
                pattern = named(name)
                told = pattern.labelled(
                    {v: at % 4 for at, v in enumerate(sorted(pattern.vertices))}
                )
                yield bench.counted("GAMMA: subgraph matching", told, graph, db, labels)
    for name, edges, support in MINED[:1] if bench.small else MINED:
        yield mined(bench, "GAMMA: frequent patterns", name, edges, support)
