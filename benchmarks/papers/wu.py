"""Wu, Zinn, Aref, Yalamanchili (2014): triangles and 4-cliques in random graphs, and the memory.

Figures 5 to 8 there. `python -m benchmarks curves` and `python -m benchmarks.gpu` draw such curves
beside pairwise joins.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.graphs import wu
from benchmarks.papers.bench import Bench, Row, brute
from gdatalog.patterns import clique
from gdatalog.settings import Strategy

SIZES = (10_000, 100_000, 1_000_000)
LARGE = 10_000_000
SIDES: dict[str, Strategy] = {"depth-first": "lftj", "breadth-first": "levelwise"}


def run(bench: Bench) -> Iterator[Row]:
    for size in (3, 4):
        for edges in (300,) if bench.small else (*SIZES, *((LARGE,) if bench.full else ())):
            yield from _sides(bench, size, edges)


def _sides(bench: Bench, size: int, edges: int) -> Iterator[Row]:
    graph, pattern = wu(edges, size), clique(size)
    names = pattern.vertices
    ordered = ", ".join([*pattern.body(), *(f"{a} < {b}" for a, b in zip(names, names[1:]))])  # noqa: B905, RUF007
    answers = []
    for name, strategy in SIDES.items():
        with bench.database(graph) as db:
            row = bench.timed(
                Row("Wu et al.: random graphs", f"{pattern.name}, {graph.name}, {name}"),
                db,
                lambda db, how=strategy: db.query(
                    f"n(count()) <- {ordered}.", strategy=how
                ).fetchall()[0][0],
            )
        if row.warm:
            row.more["M edges/s"] = f"{edges / row.warm / 1e6:.3g}"
        if bench.small:
            bench.check(row, brute(pattern, graph), "brute force")
        elif not row.trouble and answers:
            bench.check(row, answers[0], "depth-first")
        answers.append(row.answer)
        yield row
