"""Kudu (Chen and Qian 2022): triangles, cliques, motifs, frequent patterns, and COST.

COST (McSherry et al. 2015): on how many threads a system is as fast as a loop on one. The loop is
written by hand (`benchmarks/loops.py`), for Numba; where that is missing there is no such table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from benchmarks.graphs import Graph
from benchmarks.machine import cores
from benchmarks.measure import once
from benchmarks.papers.bench import Bench, Row, brute
from benchmarks.papers.frequent import mined
from benchmarks.sides import Loop
from gdatalog.patterns import clique, graphlets

LOOPS = {3: "merge", 4: "bitset", 5: "bitset"}
MINED = (("lab-citeseer", 3, 50), ("lab-yeast", 3, 50))


def run(bench: Bench) -> Iterator[Row]:
    for graph in bench.graphs("wiki-Vote", "email-Enron"):
        with bench.database(graph) as db:
            for size in (3, 4, 5):
                yield bench.counted("Kudu: triangles and cliques", clique(size), graph, db)
            for size in (3, 4):
                row = Row("Kudu: motifs", f"{size}-motifs, {graph.name}")
                row = bench.timed(row, db, lambda db, size=size: db.motifs(size))
                if not row.trouble and bench.small:
                    bench.check(row, _motifs(graph, size), "brute force")
                elif not row.trouble:
                    # the densest has no other edges: it is counted as a clique, too
                    row.checked = "cliques"
                    if list(row.answer.values())[-1] != db.count(clique(size)):
                        row.trouble = "WRONG: cliques are counted otherwise"
                yield row
        yield from _cost(bench, graph)
    for name, edges, support in MINED[:1] if bench.small else MINED:
        yield mined(bench, "Kudu: frequent patterns", name, edges, support)


def _motifs(graph: Graph, size: int) -> dict[str, int]:
    """Induced occurrences, by trying all."""
    found = {}
    for one in graphlets(size):
        edges = set(one.edges) | {(v, u) for u, v in one.edges}
        pairs = [(u, v) for u in one.vertices for v in one.vertices if u < v]
        absent = tuple(pair for pair in pairs if pair not in edges)
        found[one.name] = brute(type(one)(one.name, one.edges, absent), graph)
    return found


def _cost(bench: Bench, graph: Graph) -> Iterator[Row]:
    if find_spec("numba") is None or bench.device != "cpu":
        return
    table = "Kudu: COST"
    for size in (3,) if bench.small else (3, 4, 5):
        pattern = clique(size)
        loop = Loop(LOOPS[size], size, threads=1)
        state = loop.build(loop.load(graph.columns()))
        loop.answer(state)  # compiles it
        seconds, found = min(once(partial(loop.answer, state)) for _ in range(3))
        work = f"{pattern.name}, {graph.name}"
        yield Row(table, f"{work}, a loop on one thread", int(found), warm=seconds)
        for threads in range(1, cores() + 1):
            with bench.database(graph, threads=threads) as db:
                row = Row(table, f"{work}, {threads} of ours")
                row = bench.timed(row, db, lambda db, one=pattern: db.count(one))
                if not row.trouble:
                    bench.check(row, int(found), "the loop")
            row.more["of the loop"] = f"{row.warm / seconds:.2f}x" if row.warm else ""
            yield row
