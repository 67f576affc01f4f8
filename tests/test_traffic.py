"""What is moved to count cliques, by shares and by fetching lists on demand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import on_demand
from benchmarks.graphs import Graph, rmat
from benchmarks.traffic import BOUNDS, table, traffic


@pytest.fixture(scope="module")
def small() -> Graph:
    return rmat(11, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("size", BOUNDS)
def test_shares_move_less_than_the_bound_and_than_fetching(small: Graph, size: int) -> None:
    found = traffic(small, size, 1 / 4)
    assert found.shares > 0 < found.ranks
    assert found.ours < BOUNDS[size]
    assert found.ours < found.times(found.oriented) < found.times(found.full)
    assert found.trouble == ""
    assert len(list(table([found]))) == 3


def complete(vertices: int) -> Graph:
    u, v = np.triu_indices(vertices, 1)
    return Graph("complete", u, v)


def test_fetching_once_or_always() -> None:
    graph = complete(40)
    lists = on_demand.Lists.of(graph)
    assert lists.starts[-1] == len(graph.u) and (lists.degrees == 39).all()
    plenty = on_demand.moved(graph, 3, 4, 1 << 30)
    # Each part has the lists that it lacks once: at most three times all of them.
    assert plenty <= 3 * on_demand.NEIGHBOUR * len(graph.u)
    assert plenty > 2 * on_demand.NEIGHBOUR * len(graph.u)
    none = on_demand.moved(graph, 3, 4, 0)
    assert none > 2 * plenty
    assert on_demand.moved(graph, 3, 1, 0) == 0
    assert on_demand.moved(graph, 4, 4, 0) > 3 * none
    assert on_demand.moved(graph, 3, 4, 0, oriented=False) > 2 * none
