"""Kudu (Chen and Qian 2021): triangles, cliques, motifs, frequent patterns, workers, and COST.

On 1, 2 and 4 workers of this machine, a thread each, with a part of the rows: the bytes that came
from other workers, and the share of the workers' time for which they waited for these.

COST (McSherry et al. 2015): on how many threads a system is as fast as a loop on one. The loop is
written by hand (`benchmarks/loops.py`), for Numba; where that is missing there is no such table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import gdatalog as gd
from benchmarks.graphs import Graph
from benchmarks.machine import cores
from benchmarks.measure import once
from benchmarks.papers.bench import Ask, Bench, brute
from benchmarks.papers.frequent import mined
from benchmarks.papers.report import Row
from benchmarks.patterns import KNOWN
from benchmarks.sides import Loop
from gdatalog.patterns import clique, graphlets

CLIQUES = {3: "triangles", 4: "K4", 5: "K5"}
LOOPS = {3: "merge", 4: "bitset", 5: "bitset"}
MINED = (("lab-citeseer", 3, 50), ("lab-yeast", 3, 50))
WORKERS = (1, 2, 4)
ASKED = 6  # rows of each number of workers


def run(bench: Bench) -> Iterator[Row]:
    motifs: dict[tuple[str, int], Any] = {}  # as one process counts them
    for graph in bench.graphs("wiki-Vote", "email-Enron"):
        with bench.database(graph) as db:
            for size in (3, 4, 5):
                yield bench.counted("Kudu: triangles and cliques", clique(size), graph, db)
            for size in (3, 4):
                row = Row("Kudu: motifs", f"{size}-motifs, {graph.name}")
                row = bench.timed(row, db, lambda db, size=size: db.motifs(size))
                motifs[graph.name, size] = row.answer
                if row.trouble or row.key in bench.done:
                    pass
                elif bench.small:
                    bench.check(row, _motifs(graph, size), "brute force")
                else:
                    # the densest has no other edges: it is counted as a clique, too
                    row.checked = "cliques"
                    if list(row.answer.values())[-1] != db.count(clique(size)):
                        row.trouble = "WRONG: cliques are counted otherwise"
                yield row
        yield from _cost(bench, graph)
    for name, edges, support in bench.few(MINED):
        yield mined(bench, "Kudu: frequent patterns", name, edges, support)
    if bench.claims is None:  # workers compile for themselves
        yield from _workers(bench, bench.graph("email-Enron"), motifs)


def _motifs(graph: Graph, size: int) -> dict[str, int]:
    """Induced occurrences, by trying all."""
    found = {}
    for one in graphlets(size):
        edges = set(one.edges) | {(v, u) for u, v in one.edges}
        pairs = [(u, v) for u in one.vertices for v in one.vertices if u < v]
        absent = tuple(pair for pair in pairs if pair not in edges)
        found[one.name] = brute(type(one)(one.name, one.edges, absent), graph)
    return found


def _workers(bench: Bench, graph: Graph, motifs: Mapping[tuple[str, int], Any]) -> Iterator[Row]:
    if find_spec("distributed") is None:
        yield Row("Kudu: workers", graph.name, trouble="distributed is not installed")
        return
    from distributed import Client, LocalCluster

    for number in WORKERS[1:2] if bench.small else WORKERS:
        name = f"{number} worker{'s' * (number > 1)}"
        done = [row for row in bench.done.values() if row.work.endswith(f", {name}")]
        if len(done) == ASKED:
            yield from done
            continue
        with (
            LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(number)
            yield from _spread(bench, graph, client, name, motifs)


def _spread(
    bench: Bench, graph: Graph, client: Any, name: str, motifs: Mapping[tuple[str, int], Any]
) -> Iterator[Row]:
    how = "brute force" if bench.small else "known"
    for size in (3,) if bench.small else (3, 4, 5):
        pattern = clique(size)
        known = brute(pattern, graph) if bench.small else KNOWN.get((graph.name, CLIQUES[size]))
        ask: Ask = lambda db, one=pattern: db.count(one)  # noqa: E731
        work = f"{pattern.name}, {graph.name}, {name}"
        yield _asked(bench, work, graph, None, client, ask, known, how)
    for size in (3,) if bench.small else (3, 4):
        ask = lambda db, size=size: db.motifs(size)  # noqa: E731
        known = _motifs(graph, size) if bench.small else motifs.get((graph.name, size))
        work = f"{size}-motifs, {graph.name}, {name}"
        told = how if bench.small else "one process"
        yield _asked(bench, work, graph, None, client, ask, known, told)
    labelled, edges, support = MINED[0]
    graph, labels = bench.labelled(labelled)
    edges, support = (1, 4) if bench.small else (edges, support)
    mining = f"{graph.name}, up to {edges} edges, support {support}"
    work = f"{mining}, {name}"
    ask = lambda db: len(db.frequent(edges, support))  # noqa: E731
    known = bench.known.get(("Kudu: frequent patterns", mining))
    if known is None and not bench.late and ("Kudu: workers", work) not in bench.done:
        with bench.database(graph, labels, device="cpu") as db:
            bench.fill()
            known = bench.made(mining, lambda: ask(db))
    yield _asked(bench, work, graph, labels, client, ask, known, "one process")


def _asked(
    bench: Bench, work: str, graph: Graph, labels: Any, client: Any, ask: Ask, known: Any, how: str
) -> Row:
    """A row with what came from other workers when it was first asked."""
    came: list[dict[str, str]] = []

    def watched(db: gd.Database) -> Any:
        if came:
            return ask(db)
        before, started = received(client), perf_counter()
        answer = ask(db)
        came.append(_between(before, received(client), perf_counter() - started))
        return answer

    with bench.database(graph, labels, cluster=client) as db:
        db.workspace.force(spread="partition")
        row = bench.timed(Row("Kudu: workers", work), db, watched)
    if row.key in bench.done:
        return row
    if came:
        row.grown, row.more = None, came[0]  # memory is the workers'
    if not row.trouble and known is not None:
        bench.check(row, known, how)
    return row


def received(client: Any) -> list[tuple[int, float]]:
    """What each worker has received from others so far: bytes, and the seconds that it took."""
    return list(client.run(_received).values())


def _received(dask_worker: Any) -> tuple[int, float]:
    log = list(dask_worker.transfer_incoming_log)
    return sum(each["total"] for each in log), sum(each["duration"] for each in log)


def _between(
    before: Sequence[tuple[int, float]], after: Sequence[tuple[int, float]], seconds: float
) -> dict[str, str]:
    """What came in that time, and the share of all workers' time for which they waited for it."""
    bytes_, waited = (
        sum(each[at] for each in after) - sum(each[at] for each in before) for at in (0, 1)
    )
    return {
        "MB from others": f"{bytes_ / 1e6:.3g}",
        "waited": f"{waited / max(1e-9, len(after) * seconds):.1%}",
    }


def _cost(bench: Bench, graph: Graph) -> Iterator[Row]:
    if find_spec("numba") is None or bench.on_gpu or bench.claims is not None:
        return
    table = "Kudu: COST"
    for size in (3,) if bench.small else (3, 4, 5):
        pattern = clique(size)
        work = f"{pattern.name}, {graph.name}"
        alone = Row(table, f"{work}, a loop on one thread")
        if (done := bench.done.get(alone.key)) is not None:
            alone = done
        else:
            loop = Loop(LOOPS[size], size, threads=1)
            state = loop.build(loop.load(graph.columns()))
            loop.answer(state)  # compiles it
            alone.warm, found = min(once(partial(loop.answer, state)) for _ in range(3))
            alone.answer = int(found)
        yield alone
        assert alone.warm is not None
        for threads in (1 << at for at in range(cores().bit_length())):
            with bench.database(graph, threads=threads) as db:
                row = Row(table, f"{work}, {threads} of ours")
                row = bench.timed(row, db, lambda db, one=pattern: db.count(one))
                if not row.trouble:
                    bench.check(row, alone.answer, "the loop")
            row.more["of the loop"] = f"{row.warm / alone.warm:.2f}x" if row.warm else ""
            yield row
