"""Rows that lay on workers who are no more: they are made again, or it is said what to do."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.cluster import harvest, stock
from gdatalog.cluster.harvest import Harvest
from gdatalog.result import Result
from tests.clusters import Workers
from tests.test_cluster_faults import kill, until

N = 300
PAIRS = N * (N - 1) // 2
TEXT = "p(x, y) <- A(x), B(y), x < y."


@pytest.fixture
def db(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """A database for which little is much, with workers of which each has a part."""
    monkeypatch.setattr(harvest, "EASILY", 1 << 12)
    monkeypatch.setattr("gdatalog.cluster.tasks.SMALL", 1 << 10)
    monkeypatch.setattr(stock, "FEW", 64)
    with gd.connect(cluster=cluster(2), device="cpu") as found:
        found["A"] = pd.DataFrame({"x": range(N)})
        found["B"] = pd.DataFrame({"x": range(N)})
        found._workspace.force(spread="partition", strategy="levelwise")
        yield found


def sums(result: Result) -> tuple[int, int, int]:
    frame = result.df()
    return len(frame), int(frame.iloc[:, 0].sum()), int(frame.iloc[:, -1].sum())


def expected() -> tuple[int, int, int]:
    x, y = np.triu_indices(N, 1)
    return len(x), int(x.sum()), int(y.sum())


def lies_afar(result: Result) -> bool:
    return result._far is not None


@pytest.mark.parametrize("spread", ["replicate", "partition"])
def test_rows_of_a_rule_are_made_again(db: gd.Database, spread: str) -> None:
    db._workspace.force(spread=spread)
    db.run(TEXT)
    before = db["p"]
    assert lies_afar(before) and len(before) == PAIRS
    client = db.cluster.client
    kill(client)
    assert db.query("n(count()) <- p(x, y), x < y.").fetchall() == [(PAIRS,)]
    until(lambda: len(client.nthreads()) == 2)
    kill(client, sorted(client.nthreads())[0])
    assert sums(before) == expected()
    assert lies_afar(db.query(TEXT.replace("p(", "q(")))


@pytest.mark.parametrize("when", ["add_rows", "rows"])
def test_a_worker_dies_that_has_rows_of_the_rule_that_runs(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    client, method, killed = db.cluster.client, getattr(Harvest, when), []

    def dying(self: Harvest, *args: Any) -> Any:
        if not killed:
            killed.append(sorted(client.nthreads())[0])
            kill(client, *killed)
        return method(self, *args)

    monkeypatch.setattr(Harvest, when, dying)
    found = db.query(TEXT)
    assert killed and lies_afar(found) and sums(found) == expected()


def test_rows_of_rows_that_are_nobodys_any_more(db: gd.Database) -> None:
    text = "q(z) <- p(x, y), z = x * 1000 + y."
    found = db.query(TEXT + " " + text)
    del db["A"], db["B"]
    gc.collect()
    assert lies_afar(found)
    kill(db.cluster.client)
    x, y = np.triu_indices(N, 1)
    assert sorted(found.df().z) == sorted((x * 1000 + y).tolist())


def test_all_workers_anew(db: gd.Database) -> None:
    client = db.cluster.client
    db.run(TEXT)
    before = db["p"]
    count = "n(count()) <- A(x), B(y), y < x."
    assert len(before) == PAIRS and db.query(count).fetchall() == [(PAIRS,)]
    addresses = sorted(client.nthreads())
    client.restart()
    db._workspace._remembered.clear()
    assert db.query(count).fetchall() == [(PAIRS,)]
    assert sums(before) == expected()
    assert addresses
