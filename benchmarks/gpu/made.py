"""Random graphs made where `xp` puts arrays: on the GPU, or by NumPy, the very same edges.

Every number comes from integers alone: the n-th draw is the n-th place of a mixed counter, so it
needs no generator's state, and no two libraries can round it differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.graphs import short

# R-MAT's quadrants, as Graph500 has them: 0.57, 0.19, 0.19, 0.05 of 2^32, added up.
_QUADRANTS = (2_448_131_358, 3_264_175_145, 4_080_218_931)
_HALF = 1 << 32
_AT_ONCE = 1 << 26  # edges that are drawn at once


@dataclass(frozen=True, slots=True)
class Edges:
    """A simple undirected graph: each edge once, u < v, sorted; arrays of any library.

    `rises`: as data it is one relation E(a, b) of just these rows; else it has both ways.
    """

    name: str
    u: Any
    v: Any
    real: bool = False
    rises: bool = False

    def __len__(self) -> int:
        return len(self.u)


def mix(xp: Any, numbers: Any, seed: int) -> Any:
    """64 bits for each number, which look like chance: splitmix64's; different ones differ."""
    x = numbers.astype(xp.uint64) + xp.uint64((seed + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    x = (x ^ (x >> xp.uint64(30))) * xp.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> xp.uint64(27))) * xp.uint64(0x94D049BB133111EB)
    return x ^ (x >> xp.uint64(31))


def wu(xp: Any, edges: int, clique: int, seed: int = 7) -> Edges:
    """Edges at random over edges^((C-1)/(2C-4)) vertices, as in the figures of Wu et al. (2014).

    They are given as there: from the smaller vertex to the larger, once.
    """
    vertices = round(edges ** ((clique - 1) / (2 * clique - 4)))
    name = f"{short(edges)} random edges over {short(vertices)} vertices"
    return Edges(name, *uniform(xp, vertices, edges, seed), rises=True)


def uniform(xp: Any, vertices: int, edges: int, seed: int) -> tuple[Any, Any]:
    """So many different edges, each pair as likely as any other."""
    dense = edges / (vertices * (vertices - 1) / 2)
    assert dense < 0.5, "the graph would be too dense to draw so"
    drawn = mix(xp, xp.arange(round(edges * (1.02 + dense)) + 100), seed)
    size = xp.uint64(vertices)
    u = (drawn >> xp.uint64(32)) * size >> xp.uint64(32)
    v = (drawn & xp.uint64(_HALF - 1)) * size >> xp.uint64(32)
    return _simple(xp, [_packed(xp, u.astype(xp.int64), v.astype(xp.int64))], edges)


def rmat(xp: Any, scale: int, edges: int, seed: int = 8, rises: bool = False) -> Edges:
    """R-MAT over 2^scale vertices, whose numbers are shuffled."""
    vertices, drawn = 1 << scale, edges + edges // 2
    renamed = xp.argsort(mix(xp, xp.arange(vertices), seed + 1))
    packed = []
    for at in range(0, drawn, _AT_ONCE):
        u, v = _rmat_ends(xp, at, min(_AT_ONCE, drawn - at), scale, seed)
        packed.append(_packed(xp, renamed[u], renamed[v]))
    found = _simple(xp, packed, edges)
    return Edges(f"R-MAT, scale {scale}, {short(len(found[0]))} edges", *found, rises=rises)


def _rmat_ends(xp: Any, first: int, size: int, scale: int, seed: int) -> tuple[Any, Any]:
    index = xp.arange(first, first + size)
    u, v = xp.zeros(len(index), dtype=xp.int64), xp.zeros(len(index), dtype=xp.int64)
    for level in range(scale):
        drawn = mix(xp, index * scale + level, seed) >> xp.uint64(32)
        quadrant = xp.zeros(len(index), dtype=xp.int64)
        for bound in _QUADRANTS:
            quadrant += drawn >= xp.uint64(bound)
        u, v = u << 1 | quadrant >> 1, v << 1 | quadrant & 1
    return u, v


def _packed(xp: Any, u: Any, v: Any) -> Any:
    """The edges u < v, each as one number; loops are left out."""
    low, high = xp.minimum(u, v), xp.maximum(u, v)
    return (low << 32 | high)[low < high]


def _simple(xp: Any, packed: list[Any], edges: int) -> tuple[Any, Any]:
    """At most so many different edges of those drawn, taken evenly; `packed` is emptied."""
    drawn = xp.concatenate(packed)
    packed.clear()
    drawn.sort()
    keeps = xp.ones(len(drawn), dtype=bool)
    keeps[1:] = drawn[1:] != drawn[:-1]
    drawn = drawn[keeps]
    if len(drawn) > edges:
        drawn = drawn[xp.arange(edges) * len(drawn) // edges]
    return (drawn >> 32).astype(xp.int32), drawn.astype(xp.int32)


@dataclass(frozen=True, slots=True)
class Oriented:
    """A graph in the order of degrees, as the hand-written kernels read it: 32-bit arrays.

    Vertices are ranks. `targets[offsets[x]:offsets[x + 1]]` are the neighbours of x that stand
    behind it, ascending; `sources` has x beside each of them. `all_...`: all neighbours.
    """

    offsets: Any
    targets: Any
    sources: Any
    all_offsets: Any
    all_targets: Any
    longest: int  # of the lists of those behind
    longest_met: int  # the most that two joined vertices can have in common

    def by_length(self, xp: Any, bounds: tuple[int, ...]) -> list[tuple[int, Any]]:
        """The vertices with at most so many neighbours behind them, and more than the bound
        before; those with most come first. Vertices with fewer than 3 are left out."""
        length = xp.diff(self.offsets)
        found = []
        low = 2
        for high in (*bounds, max(self.longest, bounds[-1])):
            vertices = xp.flatnonzero((length > low) & (length <= high))
            if len(vertices):
                order = xp.argsort(-length[vertices].astype(xp.int64))
                found.append((high, vertices[order].astype(xp.int32)))
            low = high
        return found


def oriented(xp: Any, edges: Edges) -> Oriented:
    u, v = xp.asarray(edges.u).astype(xp.int64), xp.asarray(edges.v).astype(xp.int64)
    vertices = max(int(u.max()), int(v.max())) + 1
    degree = xp.bincount(u, minlength=vertices) + xp.bincount(v, minlength=vertices)
    # ties by the vertex: (degree, vertex) packed into one number
    order = xp.argsort(degree.astype(xp.int64) * vertices + xp.arange(vertices))
    rank = xp.empty(vertices, dtype=xp.int64)
    rank[order] = xp.arange(vertices)
    low, high = xp.minimum(rank[u], rank[v]), xp.maximum(rank[u], rank[v])
    behind = xp.sort(low * vertices + high)
    both = xp.sort(xp.concatenate([behind, high * vertices + low]))
    starts = xp.arange(vertices + 1) * vertices
    sources = (behind // vertices).astype(xp.int32)
    offsets = xp.searchsorted(behind, starts).astype(xp.int32)
    all_offsets = xp.searchsorted(both, starts).astype(xp.int32)
    return Oriented(
        offsets,
        (behind % vertices).astype(xp.int32),
        sources,
        all_offsets,
        (both % vertices).astype(xp.int32),
        int(xp.diff(offsets).max()),
        int(xp.diff(all_offsets)[sources].max()),
    )
