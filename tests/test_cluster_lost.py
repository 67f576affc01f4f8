"""Rows that lay on workers who are no more: they are made again, or it is said what to do."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.cluster.joins import bucket_store
from gdatalog.cluster.joins.collector import Collector
from gdatalog.cluster.pool.calls import Call
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.workers.connection import Connection
from gdatalog.errors import DeviceError, Interrupted
from gdatalog.limits import Limits
from gdatalog.result import Result
from tests import pool_calls
from tests.clusters import Workers, fork_workers
from tests.test_cluster_faults import kill, until
from tests.tuned import tune

distributed = pytest.importorskip("distributed")

N = 300
PAIRS = N * (N - 1) // 2
TEXT = "p(x, y) <- A(x), B(y), x < y."


@pytest.fixture
def db(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """A database for which little is much, with workers of which each has a part."""
    tune(monkeypatch, fetched_bytes=1 << 12)
    monkeypatch.setattr(bucket_store, "ONE_BLOCK_BELOW", 64)
    with gd.connect(cluster=cluster(2), device="cpu") as found:
        found["A"] = pd.DataFrame({"x": range(N)})
        found["B"] = pd.DataFrame({"x": range(N)})
        found.workspace.force(spread="partition", strategy="levelwise")
        yield found


def sums(result: Result) -> tuple[int, int, int]:
    frame = result.df()
    return len(frame), int(frame.iloc[:, 0].sum()), int(frame.iloc[:, -1].sum())


def expected() -> tuple[int, int, int]:
    x, y = np.triu_indices(N, 1)
    return len(x), int(x.sum()), int(y.sum())


def lies_afar(result: Result) -> bool:
    return result._far is not None


@pytest.mark.parametrize("spread", [pytest.param("replicate", marks=pytest.mark.slow), "partition"])
def test_rows_of_a_rule_are_made_again(db: gd.Database, spread: str) -> None:
    db.workspace.force(spread=spread)
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


def test_rows_that_are_dealt_out_without_a_folder(db: gd.Database) -> None:
    db.workspace.cluster.pool.broadcaster.send_all()  # type: ignore[union-attr]
    found = db.query(TEXT)
    assert lies_afar(found)
    kill(db.cluster.client)
    assert sums(found) == expected()
    assert db.query("n(count()) <- A(x), B(y), x < y.").fetchall() == [(PAIRS,)]


@pytest.mark.parametrize("when", ["add", "rows"])
def test_a_worker_dies_that_has_rows_of_the_rule_that_runs(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    client, method, killed = db.cluster.client, getattr(Collector, when), []

    def dying(self: Collector, *args: Any) -> Any:
        if not killed:
            killed.append(sorted(client.nthreads())[0])
            kill(client, *killed)
        return method(self, *args)

    monkeypatch.setattr(Collector, when, dying)
    found = db.query(TEXT)
    assert killed and lies_afar(found) and sums(found) == expected()


@pytest.mark.slow
def test_rows_of_rows_that_are_nobodys_any_more(db: gd.Database) -> None:
    text = "q(z) <- p(x, y), z = x * 1000 + y."
    found = db.query(TEXT + " " + text)
    del db["A"], db["B"]
    gc.collect()
    assert lies_afar(found)
    kill(db.cluster.client)
    x, y = np.triu_indices(N, 1)
    assert sorted(found.df().z) == sorted((x * 1000 + y).tolist())


@pytest.mark.slow
def test_rows_that_owners_had_are_made_again(db: gd.Database) -> None:
    db.workspace.tune(fetched_bytes=1 << 8)
    db["E"] = np.random.default_rng(1).integers(0, 100, (160, 2))
    db.run("r(x, y) <- E(x, y). r(x, z) <- r(x, y), r(y, z), x != z.")
    found = db["r"]
    assert lies_afar(found)
    kill(db.cluster.client)
    with gd.connect(device="cpu") as here:
        here["E"] = db["E"]
        here.run("r(x, y) <- E(x, y). r(x, z) <- r(x, y), r(y, z), x != z.")
        assert sorted(found.fetchall()) == here["r"].sorted().fetchall()


@pytest.mark.slow
def test_all_workers_anew(db: gd.Database) -> None:
    client = db.cluster.client
    db.run(TEXT)
    before = db["p"]
    count = "n(count()) <- A(x), B(y), y < x."
    assert len(before) == PAIRS and db.query(count).fetchall() == [(PAIRS,)]
    client.restart()
    db.workspace.forget()
    assert db.query(count).fetchall() == [(PAIRS,)]
    with pytest.raises(DeviceError, match=r"(?s)the cluster was restarted.*run the query again"):
        sums(before)


@pytest.mark.slow
def test_a_frame_whose_cluster_was_restarted(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"x": range(N)}), npartitions=3)
    db["A"] = frame
    found = db.query(TEXT)
    assert lies_afar(found)
    db.cluster.client.restart()
    told = r"(?s)rows of A were lost .*was restarted.*load A again, then run the query again"
    with pytest.raises(DeviceError, match=told):
        sums(found)
    with pytest.raises(DeviceError, match=told):
        db.query(TEXT)
    db["A"] = frame
    assert sums(db.query(TEXT)) == expected()


@pytest.mark.slow
def test_a_worker_anew_at_the_same_address() -> None:
    fork_workers()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            worker_port=port,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
        gd.connect(cluster=client, device="cpu") as db,
    ):
        db.workspace.force(spread="partition", strategy="levelwise")
        db["A"] = [(x,) for x in range(N)]
        before = list(client.nthreads())
        for _ in range(2):
            assert db.query("n(count()) <- A(x), A(y), x < y.").fetchall() == [(PAIRS,)]
            client.restart()
            db.workspace.forget()
        assert list(client.nthreads()) == before


# -------------------------------------------------------------------------------- what stays there


def test_a_rule_that_is_interrupted_leaves_nothing(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = db.cluster.client

    def lies_there() -> bool:
        return any(client.has_what().values()) or any(client.run(pool_calls.stored).values())

    with monkeypatch.context() as slow:
        slow.setattr(bucket_store, "counted", pool_calls.counted_slowly)
        Timer(0.4, db.interrupt).start()
        with pytest.raises(Interrupted):
            db.query("n(count()) <- A(x), B(y), y < x.")
    until(lambda: not lies_there())
    assert db.query("n(count()) <- A(x), B(y), y < x.").fetchall() == [(PAIRS,)]
    until(lambda: not lies_there())


def left_by(client: Any) -> tuple[Path, set[str]]:
    """Where a database has put something that nobody closes."""
    db = gd.connect(cluster=client, device="cpu")
    db.workspace.force(spread="partition", strategy="levelwise")
    db["A"] = [(x,) for x in range(N)]
    assert db.query("n(count()) <- A(x), A(y), x < y.").fetchall() == [(PAIRS,)]
    pool = db.workspace.cluster.pool
    placed = pool.broadcast("some", np.arange(3))
    stage = pool.stage("some", Limits())
    stage.add(Call(len, (placed,)))
    assert [found for _, found in stage] == [3]
    return pool.broadcaster.folder, {placed.file.path}


def test_a_database_that_nobody_closes_leaves_nothing(cluster: Workers) -> None:
    client = cluster(2)
    folder, tokens = left_by(client)
    gc.collect()
    assert not folder.exists()
    until(lambda: not any(client.has_what().values()))
    until(lambda: all(tokens.isdisjoint(held) for held in client.run(pool_calls.held).values()))


# ---------------------------------------------------------------------------------- what is placed


@pytest.mark.parametrize("way", ["sent", "unseen"])
def test_what_is_placed_under_no_key_can_be_sent_again(cluster: Workers, way: str) -> None:
    client = cluster(2)
    pool = Pool(Connection(client))
    if way == "sent":
        pool.broadcaster.send_all()
    placed = pool.broadcast(None, np.arange(4))
    if way == "unseen":
        pool.broadcaster.send_all()
    gc.collect()
    kill(client)
    stage = pool.stage("again", Limits())
    stage.add(Call(len, (placed,)))
    assert [found for _, found in stage] == [4]
    pool.close()


# --------------------------------------------------------------------------------- frames of Dask's


def test_partitions_of_a_frame_are_not_kept_twice(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    client = db.cluster.client
    frame = pd.DataFrame({"x": range(N), "s": [f"t{x % 7}" for x in range(N)]})

    def there() -> set[Any]:
        return {key for keys in client.has_what().values() for key in keys}

    before = there()
    db["E"] = dd.from_pandas(frame, npartitions=4)
    until(lambda: len(there() - before) == 4)
    kill(client, sorted(client.nthreads())[0])
    assert sorted(db["E"].fetchall()) == sorted(zip(frame.x, frame.s, strict=True))


@pytest.mark.slow
def test_a_frame_that_is_gone_is_named_and_loaded_again(db: gd.Database) -> None:
    dd = pytest.importorskip("dask.dataframe")
    client = db.cluster.client
    halves = [pd.DataFrame({"x": range(N // 2)}), pd.DataFrame({"x": range(N // 2, N)})]
    db["A"] = dd.from_delayed(client.scatter(halves), meta=halves[0][:0])
    db.run(TEXT)
    assert len(db["p"]) == PAIRS
    killed = set(client.nthreads())
    kill(client)
    until(lambda: killed.isdisjoint(client.nthreads()))
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"(?s)rows of A were lost .* load A again"):
            db["p"].fetchall()
    until(lambda: killed.isdisjoint(client.nthreads()) and len(client.nthreads()) == len(killed))
    db["A"] = dd.from_delayed(client.scatter(halves), meta=halves[0][:0])
    assert sums(db["p"]) == expected()
