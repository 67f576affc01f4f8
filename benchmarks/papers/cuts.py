"""cuTS (Xiang et al. 2021): its 33 queries, and the words that matches take as a tree of prefixes.

Queries are the eleven connected graphs with most edges of 5, 6 and 7 vertices each. A partial match
of all rows takes a word for each of its vertices; in cuTS' tree, a vertex and its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import gdatalog as gd
from benchmarks.graphs import Graph
from benchmarks.papers.bench import Bench, Row, brute
from gdatalog.patterns import Pattern, suite

GRAPHS = ("ca-GrQc", "lab-yeast")


def run(bench: Bench) -> Iterator[Row]:
    queries = suite("cuts")[:: 8 if bench.small else 1]
    for name in GRAPHS[:1] if bench.small else (*GRAPHS, *(("email-Enron",) if bench.full else ())):
        graph = bench.graph(name)
        with bench.database(graph) as db:
            for pattern in queries:
                yield bench.counted("cuTS: queries", pattern, graph, db)
            for pattern in queries:
                yield _compressed(bench, pattern, graph, db)


def _compressed(bench: Bench, pattern: Pattern, graph: Graph, db: gd.Database) -> Row:
    """Words of all partial matches, of all prefixes of cuTS' order of the vertices."""
    prefixes = list(_prefixes(pattern))

    def words(counts: Sequence[int]) -> tuple[int, int]:
        """As rows, and as a tree, of the matches of each prefix in all of its orders."""
        found = [count * one.automorphisms for count, one in zip(counts, prefixes, strict=True)]
        return sum(at * n for at, n in enumerate(found, 2)), 2 * sum(found)

    row = Row("cuTS: compression", f"{pattern.name}, {graph.name}")
    row = bench.timed(row, db, lambda db: words(db.count(prefixes)))
    if row.answer is not None:
        if bench.small:
            bench.check(row, words([brute(one, graph) for one in prefixes]), "brute force")
        rows, tree = row.answer
        row.answer = row.cold = row.warm = row.grown = None  # only the words are asked for
        row.more = {"words as rows": f"{rows:,}", "as a tree": f"{tree:,}",
                    "ratio": f"{rows / max(1, tree):.2f}"}  # fmt: skip
    return row


def _prefixes(pattern: Pattern) -> Iterator[Pattern]:
    """The vertex with most neighbours first, then the one with most among those before it."""
    beside = {
        v: {w for e in pattern.edges if v in e for w in e if w != v} for v in pattern.vertices
    }
    order = [max(pattern.vertices, key=lambda v: len(beside[v]))]
    while len(order) < len(beside):
        rest = [v for v in pattern.vertices if v not in order]
        order.append(max(rest, key=lambda v: (len(beside[v] & set(order)), len(beside[v]))))
        edges = tuple(edge for edge in pattern.edges if set(edge) <= set(order))
        yield Pattern(f"{pattern.name}_{len(order)}", edges)
