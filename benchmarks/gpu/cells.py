"""Graphs in a GPU's memory, and with a tenth of it: the same counts, side by side.

    python -m benchmarks.gpu.cells [--edges 100000000] [--rises] [--share 0.1] [--only K4]
        [--way cells] [--cell-bytes 268435456]

Rules whose indexes do not fit run in cells or read them in place, by what is expected to take less
of the link; `--way` forces one, and `--cell-bytes` says what one more cell costs. An R-MAT graph is
made on the machine. Triangles, K4 and P3 are
counted with all of the GPU's memory, and again with `memory_limit` at a share of what that query
held. So are the rows of a closure and of a same generation, over smaller graphs: these relations
have about as many rows as there are pairs of vertices. A same generation, whose derivations grow
with the square of the edges, has a quarter of the closure's. A recursion that does not fit runs on
the CPU, and is held to the same time. The answers are compared before anything is
timed. Of each side the best time counts. The second may take as long as the query in memory divided
by 0.3, or as long as the link takes for the bytes that are copied, or read in place, whichever is
longer; the link is measured by copies through pinned buffers, as cells use them.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.gpu.forced import columns
from benchmarks.gpu.made import rmat
from benchmarks.patterns import P3, clique
from gdatalog.errors import Error
from gdatalog.progress import format_bytes
from gdatalog.settings import Thresholds

WANTED = 0.3  # of the speed in memory
DEGREE = 16  # edges for each vertex of an R-MAT graph
LINK, LINK_TIMES = 1 << 28, 8  # bytes of a copy by which the link is measured, and how often
SMALL, SMALL_LINK = 400, 1 << 12

Connect = Callable[..., gd.Database]
JOINS = {"triangles": clique(3).rule(), "K4": clique(4).rule(), "P3": P3.rule()}
RECURSIONS = {
    "closure": "tc(x, y) <- E(x, y). tc(x, z) <- tc(x, y), E(y, z). ?- tc(x, y).",
}
SQUARED = {  # by the edges
    "same generation": "sg(x, y) <- E(p, x), E(p, y). sg(x, y) <- E(a, x), sg(a, b), E(b, y). "
    "?- sg(x, y).",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What a profile tells of a query: the most that was held; cells, and the bytes copied; what
    was read in place, and copied for that."""

    peak: int
    cells: int
    skipped: int
    sliced: int
    read: int
    paged: int
    left: bool  # to the CPU

    @property
    def moved(self) -> int:
        return self.sliced + self.read + self.paged

    def __str__(self) -> str:
        if self.left:
            return "on the CPU"
        told = []
        if self.cells:
            told.append(f"in {self.cells:,} cells ({self.skipped:,} skipped)")
        if self.read or self.paged:
            told.append(f"reading some {format_bytes(self.read)} in place")
        return " and ".join(told)


def graph(edges: int, rises: bool, xp: Any) -> tuple[str, dict[str, Any]]:
    """An R-MAT graph of so many edges, each both ways unless it `rises`; made by the device."""
    scale = max(4, (edges // DEGREE).bit_length())
    made = rmat(xp, scale, edges, rises=rises)
    return made.name, columns(made, xp, on_device=False)


def bandwidth(db: gd.Database, size: int) -> float:
    """Bytes in a second from pinned memory to the device."""
    driver = db.workspace.device.driver  # type: ignore[attr-defined]
    with db.call():
        copier = driver.copier()
        here, there = copier.pinned(size), driver.xp.empty(size, dtype=np.uint8)
        copier.after_kernels()
        best = float("inf")
        for _ in range(LINK_TIMES):
            started = perf_counter()
            copier.copy(there, 0, here)
            copier.copied().wait()
            best = min(best, perf_counter() - started)
    return size / best


def told_of(db: gd.Database, text: str) -> Told:
    profile = db.profile(text)
    facts = [dict(rule.facts) for rule in profile.tree.find("rule")]
    sums = {
        name: sum(int(fact.get(name) or 0) for fact in facts)
        for name in (
            "cells that ran",
            "cells skipped",
            "bytes copied",
            "bytes read, by lists",
            "bytes copied to pages",
        )
    }
    left = any(fact.get("device") == "cpu" for fact in facts)
    return Told(profile.peak, *sums.values(), left)


def seconds_of(db: gd.Database, text: str) -> tuple[int, float]:
    """How many rows a recursion gives, or what a join counts."""
    started = perf_counter()
    found = db.query(text)
    count = int(found.fetchall()[0][0]) if text in JOINS.values() else len(found)
    return count, perf_counter() - started


def compared(
    name: str,
    text: str,
    data: dict[str, Any],
    connect: Connect,
    share: float,
    times: int,
    link: float,
) -> bool:
    """Whether the answers are the same, and come as fast as is asked for."""
    with closing(connect()) as db:
        db["E"] = data
        whole, _ = seconds_of(db, text)
        in_memory = told_of(db, text)
        best = min(seconds_of(db, text)[1] for _ in range(times))
    limit = max(1, int(share * in_memory.peak))
    with closing(connect(memory_limit=limit)) as db:
        db["E"] = data
        count, first = seconds_of(db, text)
        told = told_of(db, text)
        if count != whole:
            print(f"{name}: the answers differ: {whole:,} in memory, {count:,} {told}")
            return False
        cells = min(first, *(seconds_of(db, text)[1] for _ in range(times)))
    bound = max(best / WANTED, told.moved / link)
    each = f", {1000 * cells / told.cells:.2f} ms a cell" if told.cells else ""
    print(
        f"{name}: {whole:,}; {best:.3f} s in memory ({format_bytes(in_memory.peak)} held), "
        f"{cells:.3f} s {told} with {format_bytes(limit)}: {best / cells:.2f}x{each}, "
        f"{format_bytes(told.sliced + told.paged)} copied, {told.moved / link:.3f} s of the link"
    )
    met = cells <= bound and not (told.left and text in JOINS.values())
    print(f"{'met' if met else 'NOT MET'}: {name} in {bound:.3f} s at the most was asked for")
    return met


def main(arguments: Sequence[str] | None = None, connect: Connect = gd.connect) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.gpu.cells", description=__doc__)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--recursive", type=int, default=200_000, help="edges, for a closure")
    parser.add_argument("--rises", action="store_true", help="each edge once, not both ways")
    parser.add_argument("--share", type=float, default=0.1, help="of the memory; default: 0.1")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--way", choices=("auto", "cells", "pages"), default="auto")
    parser.add_argument("--cell-bytes", type=int, default=Thresholds().cell_bytes)
    parser.add_argument("--only", default="", help="works whose names have this in them")
    parser.add_argument("--small", action="store_true", help="tiny data: to see that all runs")
    told = parser.parse_args(arguments)

    def opened(**options: Any) -> gd.Database:
        db = connect(device=told.device, **options)
        db.workspace.force(host_indexes=told.way)
        if told.cell_bytes != Thresholds().cell_bytes:
            db.workspace.tune(cell_bytes=told.cell_bytes)
        return db

    try:
        with closing(opened()) as db:
            link = bandwidth(db, SMALL_LINK if told.small else LINK)
            print(f"on {db.device}, {format_bytes(int(link))}/s to the device")
            driver = db.workspace.device.driver  # type: ignore[attr-defined]
            met = []
            many = told.recursive
            for works, edges in ((JOINS, told.edges), (RECURSIONS, many), (SQUARED, many // 4)):
                chosen = {name: text for name, text in works.items() if told.only in name}
                if not chosen:
                    continue
                name, data = graph(SMALL if told.small else edges, told.rises, driver.xp)
                driver.relief()
                print(name, flush=True)
                for work, text in chosen.items():
                    met.append(compared(work, text, data, opened, told.share, told.times, link))
    except Error as reason:
        print(f"cannot be measured here: {reason}", file=sys.stderr)
        return 2
    return 0 if told.small or all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
