"""cuTS (Xiang et al. 2021): its 33 queries, and the words that matches take as a tree of prefixes.

Queries are the eleven connected graphs with most edges of 5, 6 and 7 vertices each. A partial match
of all rows takes a word for each of its vertices; in cuTS' tree, a vertex and its parent. Table 1
has the words of 5-cliques, level by level; candidates of each vertex have at least its degree. The
sweeps are of lanes to a subtree (virtual warps there), of rows of a chunk, and of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import gdatalog as gd
from benchmarks.graphs import Graph
from benchmarks.papers.bench import Bench, brute
from benchmarks.papers.report import Row
from gdatalog.patterns import Pattern, clique, suite

GRAPHS = ("ca-GrQc", "lab-yeast")
TABLE_1, CLIQUE = "cuTS: table 1", 5
# Words of email-Enron as the paper has them, with all levels before: as a tree.
THEIRS = (33_028, 647_832, 9_217_116, 121_472_508, 1_515_717_948)
TILES = (1, 2, 4, 8, 16, 32)
CHUNKS = tuple(1 << bits for bits in (12, 16, 20, 24))
BLOCKS = (33, 66, 132, 264, 528)


def run(bench: Bench) -> Iterator[Row]:
    queries = suite("cuts")[:: 8 if bench.small else 1]
    graph = bench.graph("email-Enron")
    yield from _table_1(bench, graph)
    yield from _sweeps(bench, graph)
    more = ("email-Enron",) if bench.full or bench.on_gpu else ()
    for name in bench.few((*GRAPHS, *more)):
        graph = bench.graph(name)
        with bench.database(graph) as db:
            for pattern in queries:
                yield bench.counted("cuTS: queries", pattern, graph, db)
    for name in bench.few(GRAPHS) if not bench.on_gpu else ():  # the words are the same
        graph = bench.graph(name)
        with bench.database(graph) as db:
            for pattern in queries:
                yield _compressed(bench, pattern, graph, db)


def _table_1(bench: Bench, graph: Graph) -> Iterator[Row]:
    """Partial matches of a clique among the vertices with enough neighbours."""
    work = f"clique{CLIQUE}, {graph.name}"
    done = [bench.done.get((TABLE_1, f"{work}, level {at + 1}")) for at in range(CLIQUE)]
    if all(done):
        yield from (row for row in done if row)
        return
    degrees = np.bincount(np.concatenate([graph.u, graph.v]))
    candidates = degrees >= CLIQUE - 1
    among = candidates[graph.u] & candidates[graph.v]
    kept = Graph(graph.name, graph.u[among], graph.v[among], graph.real)
    matches = [int(candidates.sum()), 2 * len(kept.u)]
    row = Row(TABLE_1, work)
    with bench.database(kept) as db:
        cliques = [clique(size) for size in range(3, CLIQUE + 1)]
        row = bench.timed(row, db, lambda db: db.count(cliques))
        if row.trouble:
            yield row
            return
        matches += [n * one.automorphisms for n, one in zip(row.answer, cliques, strict=True)]
        if bench.small:
            bench.check(row, [brute(one, kept) for one in cliques], "brute force")
    rows = tree = 0
    for level, (count, theirs) in enumerate(zip(matches, THEIRS, strict=True), 1):
        rows, tree = rows + level * count, tree + 2 * count
        told = Row(TABLE_1, f"{work}, level {level}", count, row.checked)
        told.more = {"words as rows": f"{rows:,}", "as a tree": f"{tree:,}"}
        if graph.name == "email-Enron":
            told.checked = "the paper's words"
            if tree != theirs:
                told.trouble = f"WRONG: {tree:,} words, {theirs:,} in the paper"
        told.trouble = told.trouble or row.trouble
        yield told


def _sweeps(bench: Bench, graph: Graph) -> Iterator[Row]:
    """What the sizes do, by a pattern whose matches are enumerated."""
    pattern = clique(4) if bench.small else clique(5)
    text = f"n(count()) <- {pattern.rule().partition(' <- ')[2]}"
    table, expected = "cuTS: sweeps", None
    settings = [("lanes to a subtree", "tile", TILES), ("blocks", "grid_blocks", BLOCKS)]
    kinds = [*(settings if bench.on_gpu else ()), ("rows of a chunk", "chunk_rows", CHUNKS)]
    for told, name, values in kinds:
        for value in values[-2:] if bench.small else values:
            with bench.database(graph) as db:
                strategy = "levelwise" if name == "chunk_rows" else "lftj"
                db.workspace.force(algebra="never", strategy=strategy)
                if name == "tile":
                    db.workspace.force(tile=value)
                elif name == "grid_blocks":
                    db.workspace.tune(grid_blocks=value)
                else:
                    db.workspace.chunk_rows = value
                row = Row(table, f"{pattern.name}, {graph.name}, {value:,} {told}")
                row = bench.timed(row, db, lambda db: int(db.query(text).fetchall()[0][0]))
            if not row.trouble:
                expected = expected or (brute(pattern, graph) if bench.small else row.answer)
                bench.check(row, expected, "brute force" if bench.small else "each other")
            yield row


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
        row.answer = row.cold = row.warm = row.kernels = row.grown = None  # words are asked for
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
