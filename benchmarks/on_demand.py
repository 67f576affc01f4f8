"""Fetching neighbour lists on demand, simulated: the bytes that it moves.

This stands in for systems that mine patterns on several machines and fetch what they do not have,
as Kudu does: vertices are spread over the parts by hash, and each part has the lists of its own. A
part extends the cliques that begin with its vertices, one vertex after the other; the list of
another part's vertex is fetched when it is needed. A static cache has the lists that are asked for
most often. Cliques are extended in chunks, and what is fetched for one of a chunk serves all of it.

All that is open is decided in favour of fetching: which lists are asked for most is known
beforehand, filling the cache is all that it costs, a neighbour takes 4 bytes, and a request none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from benchmarks.columns import Array
from benchmarks.graphs import Graph

NEIGHBOUR = 4  # bytes
CACHE = 0.1  # of the edges' bytes


@dataclass(frozen=True, slots=True)
class Lists:
    """A graph's vertices by ascending degree: the neighbours of higher degree of each."""

    starts: Array
    higher: Array
    degrees: Array

    @staticmethod
    def of(graph: Graph) -> Lists:
        ends = np.concatenate([graph.u, graph.v])
        vertices, at = np.unique(ends, return_inverse=True)
        degrees = np.bincount(at, minlength=len(vertices))
        order = np.argsort(degrees, kind="stable")
        ranks = np.empty(len(vertices), dtype=np.int64)
        ranks[order] = np.arange(len(vertices))
        u, v = ranks[at[: len(graph.u)]], ranks[at[len(graph.u) :]]
        low, high = np.minimum(u, v), np.maximum(u, v)
        sort = np.lexsort((high, low))
        starts = np.searchsorted(low[sort], np.arange(len(vertices) + 1))
        return Lists(starts, high[sort], degrees[order])


def moved(graph: Graph, size: int, parts: int, memory: int, oriented: bool = True) -> int:
    """Bytes moved to count the cliques of 3 or 4 vertices.

    `memory`: bytes that a part has for lists of others, the cache included. `oriented`: lists have
    only the neighbours of higher degree, which is all that cliques need; else all neighbours.
    """
    assert size in (3, 4)
    lists = Lists.of(graph)
    count = len(lists.degrees)
    bytes_of = NEIGHBOUR * (np.diff(lists.starts) if oriented else lists.degrees)
    # Not by the ranks themselves, of which neighbours would be in different parts.
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    owners = ((mixed >> np.uint64(40)) % np.uint64(parts)).astype(np.int64)
    asked = np.zeros(count, dtype=np.int64)
    _extend(lists.starts, lists.higher, size, asked)
    room = int(CACHE * 8 * len(graph.u))
    # Of what is worth most for its bytes, as much as there is room for.
    hottest = np.argsort(-asked, kind="stable")
    cached = np.zeros(count, dtype=np.bool_)
    cached[hottest[np.cumsum(bytes_of[hottest]) <= room]] = True
    filling = sum(int(bytes_of[cached & (owners != part)].sum()) for part in range(parts))
    chunk = max(0, memory - room)
    fetched = sum(
        _fetch(lists.starts, lists.higher, size, bytes_of, (owners == part) | cached,
               np.flatnonzero(owners == part), chunk)
        for part in range(parts)
    )  # fmt: skip
    return filling + fetched


@numba.njit(cache=False)
def _extend(starts, higher, size, asked):  # type: ignore[no-untyped-def]
    """How often each list is asked for, of all cliques in all parts."""
    for x in range(len(starts) - 1):
        for a in range(starts[x], starts[x + 1]):
            y = higher[a]
            asked[y] += 1
            if size == 4:
                p, q = a + 1, starts[y]
                while p < starts[x + 1] and q < starts[y + 1]:
                    if higher[p] == higher[q]:
                        asked[higher[p]] += 1
                        p += 1
                        q += 1
                    elif higher[p] < higher[q]:
                        p += 1
                    else:
                        q += 1


@numba.njit(cache=False)
def _fetch(starts, higher, size, bytes_of, there, roots, memory):  # type: ignore[no-untyped-def]
    """The bytes that one part fetches: chunks end where their lists would not fit.

    Each level of extending has a chunk of its own, and its part of the memory.
    """
    room = memory // (size - 2)
    chunk_of = np.full((size - 2, len(starts) - 1), -1, dtype=np.int64)
    chunk = np.zeros(size - 2, dtype=np.int64)
    used = np.zeros(size - 2, dtype=np.int64)
    total = 0
    for x in roots:
        for a in range(starts[x], starts[x + 1]):
            y = higher[a]
            if not there[y] and chunk_of[0, y] != chunk[0]:
                if used[0] + bytes_of[y] > room:
                    chunk[0] += 1
                    used[0] = 0
                chunk_of[0, y] = chunk[0]
                used[0] += bytes_of[y]
                total += bytes_of[y]
            if size == 4:
                p, q = a + 1, starts[y]
                while p < starts[x + 1] and q < starts[y + 1]:
                    z = higher[p]
                    if z == higher[q]:
                        if not there[z] and chunk_of[1, z] != chunk[1]:
                            if used[1] + bytes_of[z] > room:
                                chunk[1] += 1
                                used[1] = 0
                            chunk_of[1, z] = chunk[1]
                            used[1] += bytes_of[z]
                            total += bytes_of[z]
                        p += 1
                        q += 1
                    elif z < higher[q]:
                        p += 1
                    else:
                        q += 1
    return total
