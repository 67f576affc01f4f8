"""Queries with a tenth of the memory that they take: what is larger lies in temporary files.

    python -m benchmarks less_memory

Each query runs in processes of its own, without a limit and then with a tenth of what the process
grew by. Mapped files are not counted: the operating system may drop them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import memory
from benchmarks.graphs import Graph, directed_rmat, rmat
from benchmarks.large_files import Watched
from benchmarks.records import Ask, Case
from benchmarks.setting import Setting

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
LEAST = 4 * MIB  # a limit
TIMES, USUAL = 3, 60  # runs of each side; seconds that a query takes with all of them
RATIO = 0.5


@dataclass(frozen=True, slots=True)
class Query:
    """A query over the edges E. `asked`: whether it is to be half as fast at the least."""

    text: str
    graph: str
    asked: bool = False


TRIANGLES = "E(x, y), E(y, z), E(x, z), x < y < z."
QUERIES = {
    "triangles, counted": Query(f"n(count()) <- {TRIANGLES}", "large", True),
    "triangles": Query(f"t(x, y, z) <- {TRIANGLES}", "large", True),
    "closure": Query("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).", "closure", True),
    "same generation": Query(
        "g(x, y) <- E(p, x), E(p, y), x != y. g(x, y) <- E(p, x), g(p, q), E(q, y).",
        "closure",
        True,
    ),
    "paths of three edges, counted": Query("n(count()) <- E(_, x), E(x, y), E(y, _).", "large"),
    "a count for each pair": Query("n(x, z, count()) <- E(x, y), E(y, z).", "pairs"),
    "pairs with a common neighbour": Query("p(x, z) <- E(x, y), E(y, z).", "pairs"),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """`grown`: the most bytes beyond what was held before; `spilled`: bytes in files."""

    seconds: float
    grown: int
    spilled: int
    answer: list[int]


def graph_of(name: str, small: bool) -> Graph:
    if small:
        return directed_rmat(8, 600)
    if name == "large":
        return rmat(21, 10_000_000)
    return directed_rmat(13, 20_000) if name == "closure" else directed_rmat(16, 150_000)


def run(setting: Setting) -> Iterator[Case]:
    for what, query in QUERIES.items():
        if not setting.wants(what, USUAL):
            continue
        free = [measured(what, None, setting.small)]
        limit = max(LEAST, free[0].grown // 10)
        bound = [measured(what, limit, setting.small)]
        for _ in range(0 if setting.small else TIMES - 1):
            free.append(measured(what, None, setting.small))
            bound.append(measured(what, limit, setting.small))
        assert all(seen.answer == free[0].answer for seen in (*free, *bound)), what
        best = min(seen.seconds for seen in free), min(seen.seconds for seen in bound)
        ratio, grown = best[0] / best[1], max(seen.grown for seen in bound)
        told = (
            f"{ratio:.2f}x: {best[0]:.2f} s and {free[0].grown / MIB:.0f} MiB; {best[1]:.2f} s and "
            f"{grown / MIB:.0f} MiB, {bound[0].spilled / MIB:.0f} MiB in files"
        )
        print(f"{what}, {limit / MIB:.0f} MiB: {told}", file=sys.stderr)
        wanted = f"{RATIO}x" if query.asked else ""
        met = ratio >= RATIO if query.asked else None
        ask = Ask(what, f"a limit of {limit / MIB:.0f} MiB", wanted, told, met)
        yield Case("less_memory", what, [], [ask])


def measured(what: str, limit: int | None, small: bool) -> Seen:
    """Runs a query in a process of its own."""
    told = json.dumps([what, limit, small])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.less_memory", told],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{what}: {done.stderr[-2000:]}")
    return Seen(**json.loads(done.stdout))


def _measure(what: str, limit: int | None, small: bool) -> Seen:
    import gdatalog as gd

    query, graph = QUERIES[what], graph_of(QUERIES[what].graph, small)
    first = gd.connect(device="cpu")  # compiles what it takes
    few = min(20_000, len(graph.u) // 8)
    first["E"] = np.stack([graph.u[:few], graph.v[:few]], axis=1)
    first.query(query.text)
    first.close()
    db = gd.connect(device="cpu", memory_limit=limit)
    db["E"] = np.stack([graph.u, graph.v], axis=1)
    del graph, first
    memory.forget()
    with Watched() as watched:
        began = perf_counter()
        found = db.query(query.text)
        rows = len(found)
        seconds = perf_counter() - began
    spill = db.workspace.spill
    sums = [0] * len(found.columns)
    for table in found._tables(1 << 20):
        sums = [known + int(more.sum()) for known, more in zip(sums, table.columns, strict=True)]
    spilled = 0 if spill is None else spill.written
    return Seen(seconds, watched.most, spilled, [rows, *sums])


if __name__ == "__main__":
    print(json.dumps(asdict(_measure(*json.loads(sys.argv[1])))))
