"""Wu, Zinn, Aref, Yalamanchili (2014): triangles and 4-cliques in random graphs.

Figure 15(a) to (d) there: throughput by the number of edges, of both cliques, with ids of 32 and 64
bits. GPU-Optimized is breadth-first here, LFTJ-GPU one lane to a subtree, LFTJ-CPU our loops on all
cores; pairwise joins are `benchmarks/gpu/sort_merge.py`. Figure 16: where the time goes. `python -m
benchmarks curves` and `python -m benchmarks.gpu` draw such curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import columns
from benchmarks.gpu.made import Edges, wu
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.graphs import Graph
from benchmarks.papers.bench import Bench, brute, driver_of
from benchmarks.papers.report import Row
from gdatalog.patterns import Pattern, clique
from gdatalog.settings import Strategy

FIGURE, RATIOS, PARTS = "Wu et al.: figure 15", "Wu et al.: mean ratios", "Wu et al.: figure 16"
SIZES = (10_000, 100_000, 1_000_000)
LARGE, HUGE = 10_000_000, 100_000_000
WIDE = 1 << 40  # is added to ids, which then take 64 bits
CPU, BREADTH, LFTJ = "depth-first, the CPU", "breadth-first", "one lane to a subtree"
DEPTH, WARP = "depth-first", "a warp to a subtree"
PAIRWISE = "pairwise sort-merge"
SIDES: dict[str, tuple[Strategy, int]] = {
    BREADTH: ("levelwise", 0), LFTJ: ("lftj", 1), WARP: ("lftj", 32), DEPTH: ("lftj", 0)
}  # fmt: skip
ONLY_GPU = (LFTJ, WARP)
# What the paper has, on a GTX Titan and its host: GPU-Optimized by LFTJ-GPU and by LFTJ-CPU.
THEIRS = {(3, LFTJ): 1.72, (3, CPU): 5.23, (4, LFTJ): 5.35, (4, CPU): 2.36}

Seconds = dict[tuple[int, int, int, str], float]  # by clique, bits, edges and side


def run(bench: Bench) -> Iterator[Row]:
    found: Seconds = {}
    sizes = SIZES if not bench.on_gpu else (*SIZES, LARGE, HUGE)
    sizes = (*sizes, LARGE) if bench.full and LARGE not in sizes else sizes
    for edges in (300,) if bench.small else sizes:
        for bits in (32, 64):
            for size in (3, 4):
                yield from _sides(bench, size, bits, edges, found)
    yield from _ratios(found)


def _sides(bench: Bench, size: int, bits: int, edges: int, found: Seconds) -> Iterator[Row]:
    pattern = clique(size)
    if bench.late:
        yield Row(FIGURE, f"{pattern.name}, {edges:,} edges, {bits} bits", trouble="no time left")
        return
    with bench.connect(device=bench.device, timeout=bench.cap) as db:
        db.workspace.force(encode="never")
        driver = driver_of(db)
        xp = np if driver is None else driver.xp
        graph = wu(xp, edges, size)
        work = f"{pattern.name}, {graph.name}, {bits} bits"
        db["E"] = _columns(graph, xp, bits, driver is not None)
        rows = []
        for name, (strategy, tile) in SIDES.items():
            if driver is None and name in ONLY_GPU:
                continue
            side = name if driver is not None or name != DEPTH else CPU
            db.workspace.force(tile=tile)
            row = Row(FIGURE, f"{work}, {side}")
            rows.append(bench.timed(row, db, lambda db, how=strategy: _ask(db, pattern, how)))
        if isinstance(driver, Clocked) and bits == 32:
            rows.append(_pairwise(bench, driver, graph, size, Row(FIGURE, f"{work}, {PAIRWISE}")))
            yield from _parts(db, driver, pattern, work)
    if driver is not None:
        with bench.connect(device="cpu", timeout=bench.cap) as db:
            db.workspace.force(encode="never")
            db["E"] = _columns(graph, xp, bits, False)
            row = Row(FIGURE, f"{work}, {CPU}")
            rows.append(bench.timed(row, db, lambda db: _ask(db, pattern, "lftj")))
    for row in rows:
        if row.warm:
            row.more["M edges/s"] = f"{edges / row.warm / 1e6:.3g}"
            found[size, bits, edges, row.work.removeprefix(f"{work}, ")] = row.warm
    yield from _checked(bench, rows, pattern, graph, xp)


def _columns(graph: Edges, xp: Any, bits: int, on_device: bool) -> dict[str, Any]:
    """As there: each edge once, from the smaller id to the larger."""
    data = columns(graph, xp, on_device)
    if bits == 32:
        return data
    return {name: ids.astype(np.int64) + WIDE for name, ids in data.items()}


def _ask(db: gd.Database, pattern: Pattern, strategy: Strategy) -> int:
    text = f"n(count()) <- {', '.join(pattern.body())}."  # edges rise: each clique is there once
    return int(db.query(text, strategy=strategy).fetchall()[0][0])


def _pairwise(bench: Bench, driver: Clocked, graph: Edges, size: int, row: Row) -> Row:
    """On the device; its answer is one more check."""
    joined = SortMerge(driver, graph, size, 100 if bench.small else 1 << 26)
    with bench.connect(device="cpu") as db:
        timed = bench.timed(row, db, lambda _: joined.count())
    timed.grown = None  # of the host
    return timed


def _parts(db: gd.Database, driver: Clocked, pattern: Pattern, work: str) -> Iterator[Row]:
    """The time of breadth-first by what kernels are for, in a run of its own."""
    try:
        _ask(db, pattern, "levelwise")
        driver.take()
        driver.by_part.clear()
        _ask(db, pattern, "levelwise")
        driver.take()
    except gd.Error as error:
        yield Row(PARTS, work, trouble=str(error).splitlines()[0])
        return
    for part, seconds in sorted(driver.by_part.items(), key=lambda item: -item[1]):
        yield Row(PARTS, f"{work}: {part}", kernels=seconds)


def _checked(
    bench: Bench, rows: Sequence[Row], pattern: Pattern, graph: Edges, xp: Any
) -> Iterator[Row]:
    """By brute force; else by another side's answer."""
    if bench.small:
        u, v = (xp.asnumpy(ids) if xp is not np else ids for ids in (graph.u, graph.v))
        expected = brute(pattern, Graph("", u, v))
        for row in rows:
            if not row.trouble:
                bench.check(row, expected, "brute force")
    else:
        done = [row for row in rows if not row.trouble]
        for row, other in zip(done, done[1:] + done[:1], strict=True):
            if row is not other:
                bench.check(row, other.answer, other.work.rpartition(", ")[2])
    yield from rows


def _ratios(found: Seconds) -> Iterator[Row]:
    """How many times as fast as each side breadth-first is: geometric means over the sizes."""
    for size, bits in dict.fromkeys(key[:2] for key in found):
        for side in dict.fromkeys(key[3] for key in found if key[:2] == (size, bits)):
            ratios = [
                seconds / found[size, bits, edges, BREADTH]
                for (one, width, edges, name), seconds in found.items()
                if (one, width, name) == (size, bits, side) and side != BREADTH
                if (size, bits, edges, BREADTH) in found
            ]
            if ratios:
                row = Row(RATIOS, f"clique{size}, {bits} bits: {BREADTH} by {side}")
                row.more = {
                    "here": f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}x",
                    "sizes": str(len(ratios)),
                    "in the paper": f"{theirs:g}x" if (theirs := THEIRS.get((size, side))) else "",
                }
                yield row
