"""Wu, Zinn, Aref, Yalamanchili (2014): triangles and 4-cliques in random graphs.

Figure 15(a) to (d) there: throughput by the number of edges, of both cliques, with ids of 32 and 64
bits. GPU-Optimized is breadth-first here, LFTJ-GPU one lane to a subtree, LFTJ-CPU our loops on all
cores; pairwise joins are `benchmarks/gpu/sort_merge.py`. Figure 16: where the time goes. `python -m
benchmarks curves` and `python -m benchmarks.gpu` draw such curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import columns, on_host
from benchmarks.gpu.made import Edges, wu
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.graphs import Graph, short
from benchmarks.papers.bench import Ask, Bench, brute, driver_of
from benchmarks.papers.report import NO_TIME, Row
from gdatalog.patterns import Pattern, clique
from gdatalog.settings import Strategy

FIGURE, RATIOS, PARTS = "Wu et al.: figure 15", "Wu et al.: mean ratios", "Wu et al.: figure 16"
SIZES = (10_000, 100_000, 1_000_000)
LARGE, HUGE = 10_000_000, 100_000_000
WIDE = 1 << 40  # is added to ids, which then take 64 bits
CPU, BREADTH, LFTJ = "loops of the CPU", "breadth-first", "one lane to a subtree"
DEPTH, WARP = "depth-first", "a warp to a subtree"
PAIRWISE = "pairwise sort-merge"
SIDES: dict[str, tuple[Strategy, int]] = {
    BREADTH: ("levelwise", 0), LFTJ: ("lftj", 1), WARP: ("lftj", 32), DEPTH: ("lftj", 0)
}  # fmt: skip
ON_CPU: dict[str, tuple[Strategy, int]] = {BREADTH: ("levelwise", 0), CPU: ("lftj", 0)}
# What the paper has, on a GTX Titan and its host: GPU-Optimized by LFTJ-GPU and by LFTJ-CPU.
THEIRS = {(3, LFTJ): 1.72, (3, CPU): 5.23, (4, LFTJ): 5.35, (4, CPU): 2.36}


def run(bench: Bench) -> Iterator[Row]:
    sizes = SIZES if not bench.on_gpu else (*SIZES, LARGE, HUGE)
    sizes = (*sizes, LARGE) if bench.full and LARGE not in sizes else sizes
    sizes = sizes if bench.claims is None else sizes[:1]  # the code is the same
    curves = Curves(bench)
    figures = [curves.sides, curves.on_cpu] if bench.on_gpu else [curves.sides]
    for figure in figures:
        for edges in (300,) if bench.small else sizes:
            for size in (3, 4):
                for bits in (32, 64):
                    yield from figure(size, bits, edges)
    yield from curves.ratios()


@dataclass(slots=True)
class Curves:
    """`seconds`, `kernels`, `colds`: by clique, bits, edges and side. `answers`: the first by
    clique and edges, with the side that gave it."""

    bench: Bench
    seconds: dict[tuple[int, int, int, str], float] = field(default_factory=dict)
    kernels: dict[tuple[int, int, int, str], float] = field(default_factory=dict)
    colds: dict[tuple[int, int, int, str], float] = field(default_factory=dict)
    answers: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    last: tuple[int, int, Edges] | None = None  # the clique, the edges, and their graph

    def sides(self, size: int, bits: int, edges: int) -> Iterator[Row]:
        """All sides of a device over one graph."""
        bench, pattern = self.bench, clique(size)
        sides = SIDES if bench.on_gpu else ON_CPU
        joined = bench.on_gpu and bits == 32  # pairwise, too; and figure 16 is of this
        parts = self._done(PARTS, size, bits, edges)
        rows = self._done(FIGURE, size, bits, edges, *sides, PAIRWISE)
        if len(rows) < len(sides) + joined or joined > bool(parts):
            if bench.late:
                yield self._late(size, bits, edges)
                return
            with bench.connect(device=bench.device, timeout=bench.cap) as db:
                driver = driver_of(db)
                xp = np if driver is None else driver.xp
                graph = self._graph(xp, size, edges)
                work = f"{pattern.name}, {graph.name}, {bits} bits"
                load(db, graph, xp, bits, driver is not None)
                rows = []
                for name, (strategy, tile) in sides.items():
                    db.workspace.force(tile=tile)
                    row = Row(FIGURE, f"{work}, {name}")
                    ask: Ask = lambda db, how=strategy: _ask(db, pattern, how)  # noqa: E731
                    rows.append(bench.timed(row, db, ask))
                if isinstance(driver, Clocked) and joined:
                    pairs = SortMerge(driver, graph, size, 100 if bench.small else 1 << 26)
                    row = Row(FIGURE, f"{work}, {PAIRWISE}")
                    rows.append(bench.timed(row, db, lambda _: pairs.count()))
                    parts = list(_parts(db, driver, pattern, work)) if bench.claims is None else []
            if bench.small:
                u, v = (on_host(ids, xp) for ids in (graph.u, graph.v))
                self.answers[size, edges] = brute(pattern, Graph("", u, v)), "brute force"
        yield from parts
        yield from self._checked(size, bits, edges, rows)

    def on_cpu(self, size: int, bits: int, edges: int) -> Iterator[Row]:
        """The same by the loops of the CPU, beside a GPU."""
        bench, pattern = self.bench, clique(size)
        rows = self._done(FIGURE, size, bits, edges, CPU)
        if not rows:
            if bench.late:
                yield self._late(size, bits, edges)
                return
            with bench.connect(device=bench.device) as db:  # which makes the graph sooner
                xp = driver_of(db).xp
                graph = self._graph(xp, size, edges)
            row = Row(FIGURE, f"{pattern.name}, {graph.name}, {bits} bits, {CPU}")
            tenth = self.colds.get((size, bits, edges // 10, CPU), 0.0)
            if 10 * tenth > bench.cap:
                row.trouble = f"not asked: a tenth of the edges took {tenth:.2g} s"
                yield row
                return
            with bench.connect(device="cpu", timeout=bench.cap) as db:
                load(db, graph, xp, bits, False)
                rows = [bench.timed(row, db, lambda db: _ask(db, pattern, "lftj"))]
        yield from self._checked(size, bits, edges, rows)

    def _graph(self, xp: Any, size: int, edges: int) -> Edges:
        """A graph, which is made once for both widths of ids."""
        if self.last is None or self.last[:2] != (size, edges):
            self.last = None  # frees its memory
            self.last = size, edges, wu(xp, edges, size)
        return self.last[2]

    def _done(self, table: str, size: int, bits: int, edges: int, *sides: str) -> list[Row]:
        """The rows of these sides that an earlier run has."""
        begin, end = f"clique{size}, {short(edges)} random edges ", f", {bits} bits"
        found = (row for row in self.bench.done.values() if row.table == table)
        found = (row for row in found if row.work.startswith(begin) and end in row.work)
        return [row for row in found if not sides or row.work.endswith(sides)]

    def _late(self, size: int, bits: int, edges: int) -> Row:
        return Row(FIGURE, f"clique{size}, {edges:,} edges, {bits} bits", trouble=NO_TIME)

    def _checked(self, size: int, bits: int, edges: int, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows with what they do in a second, by the first answer."""
        for row in rows:
            side = row.work.rpartition(" bits, ")[2]
            if row.warm:
                row.more["M edges/s"] = f"{edges / row.warm / 1e6:.3g}"
                self.seconds[size, bits, edges, side] = row.warm
            if row.cold:
                self.colds[size, bits, edges, side] = row.cold
            if row.kernels:
                self.kernels[size, bits, edges, side] = row.kernels
            if row.trouble:
                pass
            elif (size, edges) not in self.answers:
                self.answers[size, edges] = row.answer, f"{side}, {bits} bits"
            elif row.key not in self.bench.done:
                self.bench.check(row, *self.answers[size, edges])
            yield row

    def ratios(self) -> Iterator[Row]:
        """How many times as fast as each side breadth-first is: geometric means over the sizes."""
        means, by_kernels = self._means(self.seconds), self._means(self.kernels)
        for (size, bits, side), found in means.items():
            row = Row(RATIOS, f"clique{size}, {bits} bits: {BREADTH} by {side}")
            row.more = {"here": f"{geometric_mean(found):.2f}x", "sizes": str(len(found))}
            if kernels := by_kernels.get((size, bits, side)):
                row.more["by kernels"] = f"{geometric_mean(kernels):.2f}x"
            if self.bench.on_gpu and (size, side) in THEIRS:
                row.more["in the paper"] = f"{THEIRS[size, side]:g}x"
            yield row

    def _means(
        self, seconds: dict[tuple[int, int, int, str], float]
    ) -> dict[tuple[int, int, str], list[float]]:
        """The ratio at each size."""
        found: dict[tuple[int, int, str], list[float]] = {}
        for (size, bits, edges, side), took in seconds.items():
            breadth = seconds.get((size, bits, edges, BREADTH))
            if breadth is not None and side != BREADTH:
                found.setdefault((size, bits, side), []).append(took / breadth)
        return found


def load(db: gd.Database, graph: Edges, xp: Any, bits: int, on_device: bool) -> None:
    """As there: each edge once, from the smaller id to the larger. Keys keep their width."""
    data = columns(graph, xp, on_device)
    if bits == 64:
        data = {name: ids.astype(np.int64) + WIDE for name, ids in data.items()}
    db.workspace.force(encode="never")
    db["E"] = data


def _ask(db: gd.Database, pattern: Pattern, strategy: Strategy) -> int:
    text = f"n(count()) <- {', '.join(pattern.body())}."  # edges rise: each clique is there once
    return int(db.query(text, strategy=strategy).fetchall()[0][0])


def _parts(db: gd.Database, driver: Clocked, pattern: Pattern, work: str) -> Iterator[Row]:
    """The time of breadth-first by what kernels are for, in a run of its own."""
    try:
        _ask(db, pattern, "levelwise")
        device: Any = db.workspace.device
        device.walks.levels.clear()  # kernels of a graph are not told apart
        driver.take()
        driver.by_part.clear()
        _ask(db, pattern, "levelwise")
        driver.take()
    except gd.Error as error:
        yield Row(PARTS, work, trouble=str(error).splitlines()[0])
        return
    for part, seconds in sorted(driver.by_part.items(), key=lambda item: -item[1]):
        yield Row(PARTS, f"{work}: {part}", kernels=seconds)
