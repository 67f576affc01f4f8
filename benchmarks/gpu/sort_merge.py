"""Cliques by pairwise joins: sort, merge, compact. What Wu et al. (2014) compare their joins with.

Each edge (a, b) is joined with the edges that start at b. What comes out, (a, b, c), is sorted by
(a, c) and merged with the edges; what is left are triangles. Four-cliques go on from these in the
same way: joined with the edges at c, then merged by (b, d), then by (a, d).

The rows in between do not fit into any memory when graphs are large, so they are made in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.gpu.clocks import Phases
from benchmarks.gpu.made import Edges

PHASES = ("expand", "sort", "merge", "compact")
CHUNK = 1 << 26  # rows


@dataclass(slots=True)
class SortMerge:
    """The edges u < v of a graph, sorted; `size` is how large the cliques are: 3 or 4."""

    driver: Any
    edges: Edges
    size: int
    chunk: int = CHUNK
    u: Any = None
    v: Any = None
    offsets: Any = None  # of the edges that start at a vertex
    packed: Any = None  # the edges as numbers, ascending
    phases: Phases = field(init=False)
    all_kernels: bool = False  # have clocks: sorts have none

    def __post_init__(self) -> None:
        xp = self.driver.xp
        self.phases = Phases(self.driver)
        self.u, self.v = xp.asarray(self.edges.u), xp.asarray(self.edges.v)
        vertices = max(int(self.u.max()), int(self.v.max())) + 1
        self.packed = _pack(xp, self.u, self.v)
        starts = xp.arange(vertices + 1).astype(xp.int64) << 32
        self.offsets = xp.searchsorted(self.packed, starts)

    def count(self) -> int:
        self.phases = Phases(self.driver)
        total = 0
        for a, b, c in self._joined((self.u,), self.v, (self.u,)):
            if self.size == 3:
                total += len(a)
                continue
            total += sum(len(found[0]) for found in self._joined((a, b), c, (b, a)))
        return total

    def ends(self) -> None:
        return None

    def _joined(self, rows: tuple[Any, ...], last: Any, with_: tuple[Any, ...]) -> Iterator[Any]:
        """Rows (..., last) with one column more: the ends of edges at `last`, to which an edge
        leads from each column of `with_` too."""
        xp = self.driver.xp
        with self.phases.of("expand"):
            lengths = self.offsets[last + 1] - self.offsets[last]
            stops = xp.cumsum(lengths)
            borders = self._borders(stops)
        for first, stop in borders:
            with self.phases.of("expand"):
                row, new = self._expanded(lengths[first:stop], last[first:stop])
            kept = None
            for column in with_:
                here = row if kept is None else row[kept]
                value = new if kept is None else new[kept]
                with self.phases.of("sort"):
                    wanted = _pack(xp, column[first:stop][here], value)
                    order = xp.argsort(wanted)
                    wanted = wanted[order]
                with self.phases.of("merge"):
                    at = xp.searchsorted(self.packed, wanted)
                    found = self.packed[xp.minimum(at, len(self.packed) - 1)] == wanted
                with self.phases.of("compact"):
                    left = order[found]
                    kept = left if kept is None else kept[left]
            with self.phases.of("compact"):
                row, new = row[kept], new[kept]
                yield (*(column[first:stop][row] for column in rows), last[first:stop][row], new)

    def _borders(self, stops: Any) -> list[tuple[int, int]]:
        """Cuts rows so that each part gives about a chunk."""
        xp = self.driver.xp
        total = int(stops[-1]) if len(stops) else 0
        if total == 0:
            return []
        parts = -(-total // self.chunk)
        cuts = xp.searchsorted(stops, xp.arange(1, parts) * total // parts)
        ends = [0, *(int(cut) + 1 for cut in cuts), len(stops)]
        return [(a, b) for a, b in pairwise(ends) if a < b]

    def _expanded(self, lengths: Any, last: Any) -> tuple[Any, Any]:
        xp = self.driver.xp
        stops = xp.cumsum(lengths)
        total = int(stops[-1])
        slots = xp.arange(total)
        row = xp.searchsorted(stops, slots, side="right")
        positions = slots - (stops - lengths)[row] + self.offsets[last][row]
        return row, self.v[positions]


def _pack(xp: Any, u: Any, v: Any) -> Any:
    return u.astype(xp.int64) << 32 | v.astype(xp.int64)
