"""Queries over a cluster one of whose workers is killed in the middle: the answers are the same."""

from __future__ import annotations

import random
from threading import Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from tests.clusters import Workers
from tests.test_cluster_faults import kill, until

QUERIES = {
    "count": "t(count()) <- E(x, y), E(y, z), E(z, w), E(x, w), x < z.",
    "groups": "g(x, count(), max(z)) <- E(x, y), E(y, z), E(z, w), E(x, w).",
    "rows": "p(x, z) <- E(x, y), E(y, z), E(z, w), E(w, x), x < z.",
    "recursion": "r(x, y) <- F(x, y). r(x, z) <- r(x, y), F(y, z).",
}


def graph(db: gd.Database) -> gd.Database:
    draw = np.random.default_rng(3)
    db["E"] = draw.integers(0, 700, (9000, 2))
    db["F"] = draw.integers(0, 400, (600, 2))
    return db


def answer(db: gd.Database, query: str) -> list[Any]:
    return sorted(db.query(QUERIES[query], strategy="levelwise").fetchall())


@pytest.fixture(scope="module")
def expected() -> dict[str, list[Any]]:
    with gd.connect(device="cpu") as db:
        return {query: answer(graph(db), query) for query in QUERIES}


def killed_midway(
    client: Any, spread: str, query: str, seed: int, takes: float = 0.3
) -> tuple[list[Any], bool]:
    """The answer, and whether a worker was killed before it came; `takes`: how many seconds it
    would take."""
    draw = random.Random(seed)
    until(lambda: len(client.nthreads()) == 2)
    killed: list[float] = []
    ended: list[float] = []

    def killing() -> None:
        until(lambda: ended or any(client.processing().values()))
        sleep(draw.random() * 0.7 * takes)
        kill(client, draw.choice(sorted(client.nthreads())))
        killed.append(monotonic())

    with gd.connect(device="cpu", cluster=client) as db:
        graph(db).workspace.force(spread=spread)
        killer = Thread(target=killing)
        killer.start()
        found = answer(db, query)
        ended.append(monotonic())
        killer.join()
    return found, killed[0] < ended[0]


@pytest.mark.parametrize(
    ("spread", "query"),
    [("replicate", "count"), ("replicate", "rows"), ("partition", "groups")],
)
def test_a_worker_killed_midway(
    cluster: Workers, expected: dict[str, list[Any]], spread: str, query: str
) -> None:
    found, _ = killed_midway(cluster(2), spread, query, 1)
    assert found == expected[query]


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["replicate", "partition"])
def test_twenty_workers_killed_midway(
    cluster: Workers, expected: dict[str, list[Any]], spread: str
) -> None:
    takes: dict[str, float] = {}
    with gd.connect(device="cpu", cluster=cluster(2)) as db:
        graph(db).workspace.force(spread=spread)
        for query in QUERIES:
            began = monotonic()
            assert answer(db, query) == expected[query]
            takes[query] = monotonic() - began
    midway = 0
    for seed in range(20):
        query = list(QUERIES)[seed % len(QUERIES)]
        found, killed = killed_midway(cluster(2), spread, query, seed, takes[query])
        assert found == expected[query], (query, seed)
        midway += killed
    assert midway > 10
