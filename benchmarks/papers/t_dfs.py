"""T-DFS (Yuan et al. 2024): P1 to P7 without labels and with 4, 8 and 16, and its time limit.

Vertex i of a pattern has label i modulo their number; vertices of a graph have one at random. The
time limit after which a task is split is a knob of depth-first kernels: `--device cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.papers.bench import Bench, Row
from gdatalog.patterns import suite

LABELS = (0, 4, 8, 16)
MILLISECOND = 1_000_000
LIMITS = {"0.1 ms": MILLISECOND // 10, "1 ms": MILLISECOND, "10 ms": 10 * MILLISECOND,
          "100 ms": 100 * MILLISECOND, "never": -1}  # fmt: skip


def run(bench: Bench) -> Iterator[Row]:
    for graph in bench.graphs("wiki-Vote", "email-Enron"):
        for number in LABELS[::2] if bench.small else LABELS:
            labels = bench.labels(graph, number) if number else None
            every = 3 if bench.small and number else 1
            with bench.database(graph, labels) as db:
                for pattern in suite("t-dfs")[::every]:
                    if number:
                        names = sorted(pattern.vertices)
                        told = {name: at % number for at, name in enumerate(names)}
                        pattern = pattern.labelled(told)
                    table = f"T-DFS: {number or 'no'} labels"
                    yield bench.counted(table, pattern, graph, db, labels)
        yield from _swept(bench, graph)


def _swept(bench: Bench, graph: Any) -> Iterator[Row]:
    with bench.database(graph) as db:
        if db.device == "cpu":
            return
        usual = db.settings.thresholds.tile_shares_after
        db.workspace.force(algebra="never")
        for pattern in suite("t-dfs")[1::5]:
            for told, limit in LIMITS.items():
                db.workspace.tune(tile_shares_after=limit)
                row = Row("T-DFS: the time limit", f"{pattern.name}, {graph.name}, {told}")
                yield bench.timed(row, db, lambda db, one=pattern: db.count(one))
        db.workspace.tune(tile_shares_after=usual)
