"""The loops that compiled rules are measured against: they count right."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from benchmarks import loops

LOOPS = {
    3: [loops.triangles_merged, loops.triangles_marked],
    4: [loops.k4_merged, loops.k4_recoded],
    5: [loops.k5_merged, loops.k5_recoded],
}


def cliques(edges: set[tuple[int, int]], size: int) -> int:
    near: dict[int, set[int]] = {}
    for u, v in edges:
        near.setdefault(u, set()).add(v)

    def grown(among: set[int], more: int) -> int:
        if more == 0:
            return 1
        return sum(grown(among & near.get(v, set()), more - 1) for v in among)

    return grown({end for edge in edges for end in edge}, size)


@pytest.mark.parametrize("size", LOOPS)
def test_loops(size: int) -> None:
    random = np.random.default_rng(size)
    pairs = np.array(list(combinations(range(60), 2)))
    edges = pairs[random.random(len(pairs)) < 0.3]
    wanted = cliques({(int(u), int(v)) for u, v in edges}, size)
    # the complete graph has rows of three words
    u, v = np.array(list(combinations(range(150), 2))).T
    for loop in LOOPS[size]:
        csr = loops.degree_oriented(edges[:, 0], edges[:, 1])
        assert loops.count(loop, *csr, threads=2) == wanted
        if size < 5:
            assert loops.count(loop, *loops.degree_oriented(u, v), threads=1) == comb(150, size)
    if size == 5:
        csr = loops.degree_oriented(*np.array(list(combinations(range(150), 2))).T)
        assert loops.count(loops.k5_recoded, *csr, threads=1) == comb(150, size)
