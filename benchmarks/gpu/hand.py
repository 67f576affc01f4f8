"""The kernels written by hand, which stand for a good subgraph matcher: T-DFS's shape, tuned.

A team of 8, 16 or 32 lanes takes edges from one counter, blocks are as many as are resident at
once, the edges with the longest lists come first, so that none of those is begun last. Each is run
with every team size; the best of them is what generated kernels are compared with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.made import Oriented
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.sources import whole

THREADS, SHORT = 256, 64
TEAMS = (8, 16, 32)
KERNELS = ("triangles", "k4", "p3", "k4_bits")
_FOLDER = Path(__file__).parent / "kernels"
_POISON = -1


@cache
def source(name: str, lanes: int, threads: int = THREADS, short: int = SHORT) -> str:
    """A file of `kernels/`, whole, for teams of so many lanes."""
    text = (_FOLDER / f"{name}.cuh").read_text(encoding="utf-8")
    shared = (_FOLDER / "meet.cuh").read_text(encoding="utf-8").replace("#pragma once\n", "")
    text = re.sub(r'^#include "meet.cuh"\n', lambda _: shared, text, flags=re.MULTILINE)
    defined = {"LANES": lanes, "THREADS": threads, "SHORT": short}
    return "".join(f"#define {key} {value}\n" for key, value in defined.items()) + whole(text)


class Unwritten(Exception):
    """A kernel came to its end and has left something as it was."""


@dataclass(slots=True)
class Hand:
    """One of the kernels, over a graph, ready to run."""

    name: str
    graph: Oriented
    driver: Clocked
    lanes: int = 32
    threads: int = THREADS
    short: int = SHORT
    last_ends: Any = None
    ranges: list[tuple[int, Any]] = field(default_factory=list)

    def count(self) -> int:
        xp = self.driver.xp
        total = xp.zeros(1, dtype=xp.int64)
        launch = {"k4_bits": self._bits}.get(self.name, self._edges)
        self.last_ends = launch(total)
        self.driver.synchronize()
        if bool((self.last_ends == _POISON).any()):
            raise Unwritten(f"{self.name}: a block has not told its end")
        return int(total[0])

    def ends(self) -> Any:
        return self.last_ends

    def _kernel(self, name: str, lanes: int) -> CupyKernel:
        text = source(self.name, lanes, self.threads, self.short)
        kept = self.driver.kept
        if (text, name) not in kept:
            told = f"{name}, written by hand, {lanes} lanes"
            kept[text, name] = self.driver.kernels(text, [name], told)[name]
        return kept[text, name]

    def _edges(self, total: Any) -> Any:
        """Kernels whose work is the edges."""
        xp, graph = self.driver.xp, self.graph
        kernel = self._kernel(self.name, self.lanes)
        blocks = kernel.resident(self.threads)
        teams = blocks * self.threads // self.lanes
        edges = len(graph.targets)
        grain = max(2, min(64, edges // (8 * teams)))
        arrays = [graph.offsets, graph.targets, graph.sources]
        if self.name == "p3":
            arrays += [graph.all_offsets, graph.all_targets]
        scalars, room = [edges, grain], []
        if self.name != "triangles":
            most = graph.longest_met if self.name == "p3" else graph.longest
            longest = most if most > self.short else 0
            scalars.append(longest)
            room = [xp.empty(max(1, teams * longest), dtype=xp.int32)]
        ends = xp.full(blocks, _POISON, dtype=xp.int64)
        counter = xp.zeros(1, dtype=xp.int64)
        kernel.launch(blocks, self.threads, [*arrays, *scalars, *room, counter, total, ends])
        return ends

    def _bits(self, total: Any) -> Any:
        """Four-cliques by recoding: a kernel for each range of lengths."""
        xp, graph = self.driver.xp, self.graph
        ends = []
        self.ranges = self.ranges or graph.by_length(xp, (8, 16, 32))
        for high, vertices in self.ranges:
            few = high <= 32
            kernel = self._kernel("k4_few" if few else "k4_many", high if few else 32)
            blocks = kernel.resident(self.threads)
            ends.append(xp.full(blocks, _POISON, dtype=xp.int64))
            counter = xp.zeros(1, dtype=xp.int64)
            given = [graph.offsets, graph.targets, vertices, len(vertices)]
            if few:
                teams = blocks * self.threads // high
                given.append(max(1, min(64, len(vertices) // (8 * teams))))
            else:
                size = high * ((high + 31) // 32 | 1)
                given += [high, xp.empty(blocks * size, dtype=xp.uint32)]
            kernel.launch(blocks, self.threads, [*given, counter, total, ends[-1]])
        return xp.concatenate(ends) if ends else xp.zeros(1, dtype=xp.int64)
