"""What workers move to count cliques, as explain foresees it and profile tells it."""

from __future__ import annotations

import pytest

import gdatalog as gd
from benchmarks.graphs import rmat
from benchmarks.patterns import clique
from benchmarks.traffic import BOUNDS, both_ways, counted
from tests.clusters import Workers


def test_counted_and_planned(cluster: Workers) -> None:
    graph = rmat(11, 20_000)
    db = gd.connect(device="cpu", cluster=cluster(2))
    db["E"] = both_ways(graph)
    db._workspace.force(spread="partition")
    rule = clique(3).rule()
    ((planned,),) = ((rule.spread for rule in each.rules) for each in db.explain(rule).strata)
    assert planned is not None and planned.planned is not None
    assert planned.way == "partitioned" and planned.workers == 2
    moved = counted(db, 3)
    assert 0 < moved < 2 * planned.planned
    assert moved < BOUNDS[3] * 8 * len(graph.u)
    shown = " ".join(str(db.profile(rule)).replace("│", " ").split())
    assert "over 2 workers, each of which has a part of the rows" in shown
    assert "moved from worker to worker" in shown
    db.close()


def test_replicated(cluster: Workers) -> None:
    db = gd.connect(device="cpu", cluster=cluster(2))
    db["E"] = both_ways(rmat(8, 1_000))
    db._workspace.force(spread="replicate")
    rule = clique(3).rule()
    assert "over 2 workers, each of which has all rows" in str(db.explain(rule))
    assert "over 2 workers, each of which has all rows" in str(db.profile(rule))
    db._workspace.force(spread="never")
    assert "workers" not in str(db.explain(rule))
    db.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", BOUNDS)
def test_bounds(cluster: Workers, size: int) -> None:
    graph = rmat(13, 100_000)
    db = gd.connect(device="cpu", cluster=cluster(4))
    db["E"] = both_ways(graph)
    assert 0 < counted(db, size) < BOUNDS[size] * 8 * len(graph.u)
    db.close()
