"""Workers that die in the middle: what they did is done again, and counted once."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.calls import Call, Lost, RemoteValue, TooLarge
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.workers.connection import Connection
from gdatalog.cluster.workers.stored_rows import set_free
from gdatalog.errors import DeviceError
from gdatalog.limits import Limits
from tests import pool_calls
from tests.clusters import Workers, fork_workers

distributed = pytest.importorskip("distributed")


@pytest.fixture(params=["files", "sent"])
def pool(request: Any, cluster: Workers) -> Iterator[Pool]:
    pool = Pool(Connection(cluster(2)))
    if request.param == "sent":
        pool.broadcaster.send_all()
    yield pool
    pool.close()


def kill(client: Any, *workers: str) -> None:
    """The workers at some addresses, or all, as a machine that fails ends them."""
    processes = client.run(os.getpid, workers=list(workers) or None)
    for process in processes.values():
        os.kill(process, signal.SIGKILL)


def until(true: Any, seconds: float = 30) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end, "it did not come about"
        sleep(0.01)


def set_status(name: str, dask_worker: Any) -> None:
    dask_worker.status = distributed.Status[name]


def test_workers_that_have_all_paused(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those do whose memory is full; once they go on, so does the next stage."""
    monkeypatch.setattr("gdatalog.cluster.pool.broadcast.ALONE", 0.2)
    client = pool.connection.client
    client.run(set_status, "paused")
    try:
        stage = pool.stage("test", Limits())
        stage.add(Call(pool_calls.number, (7,)))
        with pytest.raises(DeviceError, match="have paused"):
            list(stage)
    finally:
        client.run(set_status, "running")
    stage = pool.stage("test", Limits())
    stage.add(Call(pool_calls.number, (7,)))
    assert [value for _, value in stage] == [7]


def killed_midway(pool: Pool, seed: int) -> None:
    draw = random.Random(seed)
    client = pool.connection.client
    until(lambda: len(client.nthreads()) == 2)
    values = np.arange(100)
    placed = pool.broadcast("values", values)
    count = draw.choice([20, 300])
    stage = pool.stage("test", Limits())
    for n in range(count):
        seconds = draw.choice([0, 0.01, 0.03]) if count < 100 else 0.001
        stage.add(Call(pool_calls.slowly, (seconds, n, placed), tag=n))
    at = draw.randrange(count // 2)
    found = []
    for call, value in stage:
        if len(found) == at:
            kill(client, draw.choice(sorted(client.nthreads())))
        found.append((call.tag, value))
    assert sorted(found) == [(n, n + n % 100) for n in range(count)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_worker_killed_midway_changes_nothing(pool: Pool, seed: int) -> None:
    killed_midway(pool, seed)


@pytest.mark.slow
def test_more_workers_killed_midway(pool: Pool) -> None:
    for seed in range(10, 16):
        killed_midway(pool, seed)


def chain(pool: Pool, placed: Any, worker: str | None) -> list[RemoteValue]:
    """Values that are kept, each made of the one before and of what is placed."""
    found: list[RemoteValue] = []
    for _ in range(3):
        function = pool_calls.plus if found else pool_calls.three
        args = (found[-1], placed) if found else (5,)
        ((_, kept),) = list(with_(pool, Limits(), Call(function, args, True, worker)))
        found.append(kept)
    return found


def with_(pool: Pool, limits: Limits, *calls: Call, name: str = "test") -> Any:
    stage = pool.stage(name, limits)
    for call in calls:
        stage.add(call)
    return stage


@pytest.mark.parametrize("somewhere", [True, False])
def test_what_was_kept_is_made_again(pool: Pool, somewhere: bool) -> None:
    values = np.array([10])
    placed = pool.broadcast("values", values)
    worker = sorted(pool.connection.client.nthreads())[0] if somewhere else None
    first, second, third = chain(pool, placed, worker)
    limits = Limits()
    call = Call(pool_calls.total, (third, second.part("b")))
    assert [value for _, value in with_(pool, limits, call)] == [78 + 16]
    del first, placed, values  # what they were made of is nobody's any more
    kill(pool.connection.client)
    assert [value for _, value in with_(pool, limits, call)] == [78 + 16]
    assert pool.bring([second.part("c"), third], "test", limits) == [
        17,
        {"a": 25, "b": 26, "c": 27},
    ]


def test_what_was_placed_is_placed_again(pool: Pool) -> None:
    values = np.arange(3)
    placed = pool.broadcast("values", values)
    call = Call(pool_calls.add, (("task", {"values": placed}), [4], placed))
    assert [value for _, value in with_(pool, Limits(), call, call)] == [7, 7]
    client = pool.connection.client
    kill(client)
    assert [value for _, value in with_(pool, Limits(), call, call)] == [7, 7]
    client.run(pool_calls.forget_all)
    assert [value for _, value in with_(pool, Limits(), call, call)] == [7, 7]


def test_a_worker_that_does_not_see_the_folder(cluster: Workers) -> None:
    pool = Pool(Connection(cluster(2)))
    values = np.arange(3)
    placed = pool.broadcast("values", values)
    assert placed.file is not None
    os.unlink(placed.file.path)
    call = Call(pool_calls.add, (("task", {"values": placed}), [4], placed))
    keep = Call(pool_calls.plus, ({"a": 1}, placed), keep=True)
    stage = with_(pool, Limits(), call, keep)
    found = dict(stage)
    assert found[call] == 7
    assert pool.bring([found[keep]], "test", Limits()) == [{"a": 1}]
    assert pool.broadcast(None, np.arange(2)).file is None
    pool.close()


def test_replaced_workers_that_do_not_see_the_folder(cluster: Workers) -> None:
    """What they would compute again needs its files; what is broadcast from now on is sent."""
    client = cluster(2)
    pool = Pool(Connection(client))
    values = np.array([10])
    placed = pool.broadcast("values", values)
    assert placed.file is not None
    folder = os.path.dirname(placed.file.path)
    call = Call(pool_calls.plus, ({"a": 1}, placed), keep=True)
    ((_, kept),) = list(with_(pool, Limits(), call))
    os.unlink(placed.file.path)
    kill(client)
    for keep in (False, True):
        with pytest.raises(
            DeviceError, match=f"(?s){folder}.*query again.*GDATALOG_CLUSTER_FOLDER"
        ):
            list(with_(pool, Limits(), Call(pool_calls.total, (kept, 5), keep)))
    ((_, kept),) = list(with_(pool, Limits(), call))
    assert [found for _, found in with_(pool, Limits(), Call(pool_calls.total, (kept, 5)))] == [16]
    pool.close()


def test_what_many_calls_miss_is_sent_once(
    cluster: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, sent, send = Pool(Connection(cluster(2))), [], Broadcast.send

    def counted(self: Broadcast) -> None:
        sent.append(self)
        send(self)

    monkeypatch.setattr(Broadcast, "send", counted)
    values = np.arange(3)
    placed = pool.broadcast("values", values)
    assert placed.file is not None
    os.unlink(placed.file.path)
    calls = [Call(pool_calls.slowly, (0, n, placed), n % 2 == 0) for n in range(20)]
    assert len(list(with_(pool, Limits(), *calls))) == 20
    assert sent == [placed]
    pool.close()


def test_a_worker_that_comes_late_takes_work(cluster: Workers) -> None:
    pool = Pool(Connection(cluster(1)))
    values = np.arange(3)
    placed = pool.broadcast("values", values)
    stage = pool.stage("test", Limits())
    for n in range(60):
        stage.add(Call(pool_calls.where, (0.03, placed), tag=n))
    at = set()
    for number, (_, worker) in enumerate(stage):
        if number == 0:
            cluster(2)
        at.add(worker)
    assert len(at) == 2
    pool.close()


DRIVER = """
import sys
from distributed import Client
from gdatalog.cluster.workers.connection import Connection
from gdatalog.cluster.pool import Call, Pool
from gdatalog.calls import Limits
from tests import pool_calls

pool = Pool(Connection(Client(sys.argv[1])))
placed = pool.broadcast(None, [1])
stage = pool.stage("endless", Limits())
stage.add(Call(pool_calls.endless, (sys.argv[2], "it")))
list(stage)
"""


@pytest.mark.slow
def test_what_a_killed_process_asked_for_ends(cluster: Workers, tmp_path: Path) -> None:
    client = cluster(1)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, client.scheduler.address, str(tmp_path)]
    )
    left = f"gdatalog-cluster-{socket.gethostname()}-{driver.pid}-*"
    folder = Path(tempfile.gettempdir())
    until((tmp_path / "it.runs").exists)
    assert list(folder.glob(left))
    driver.kill()
    driver.wait()
    until((tmp_path / "it.stopped").exists)
    pool = Pool(Connection(client))
    pool.broadcast(None, [1])
    assert not list(folder.glob(left))
    pool.close()


@pytest.mark.slow
def test_what_workers_die_of_is_cut_smaller() -> None:
    fork_workers()
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="600MiB",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        pool = Pool(Connection(client))

        def halves(large: TooLarge) -> list[Call]:
            (count,) = large.call.args
            return [Call(pool_calls.filling, (count // 2,))] * 2 if count > 100 else []

        calls = [Call(pool_calls.filling, (count,)) for count in (10, 1200, 10)]
        stage = pool.stage("hungry", Limits(), halves)
        for call in calls:
            stage.add(call)
        found = sorted(value for _, value in stage)
        assert sum(found) == 1220 and found[-1] <= 600
        with pytest.raises(TooLarge, match=r"workers of 600.0 MiB each died .* a part of hungry"):
            list(with_(pool, Limits(), *calls, name="hungry"))
        pool.close()


def drawn(pool: Pool, seed: int, kills: int) -> None:
    """Values that stay on workers, made of one another in a few steps, while workers die."""
    draw = random.Random(seed)
    client = pool.connection.client
    until(lambda: len(client.nthreads()) == 2)
    shared = [np.arange(draw.randrange(1, 50)) for _ in range(3)]
    placed = [pool.broadcast(("shared", seed, n), values) for n, values in enumerate(shared)]
    ended = threading.Event()

    def killing() -> None:
        for _ in range(kills):
            until(lambda: ended.is_set() or len(client.nthreads()) == 2)
            ended.wait(0.3 + draw.random() * 0.5)  # one that dies as it starts stays away
            workers = sorted(client.nthreads())
            if not ended.is_set() and workers:
                some = workers if draw.random() < 0.3 else [draw.choice(workers)]
                with contextlib.suppress(Exception):  # it may be dead already
                    kill(client, *some)

    killer = threading.Thread(target=killing)
    killer.start()
    kept: list[tuple[Any, dict[str, int]]] = []
    for _ in range(6):
        stage = pool.stage("drawn", Limits())
        expected = {}
        for n in range(draw.randrange(1, 9)):
            at, seconds = draw.randrange(3), draw.choice([0, 0.01, 0.1])
            inputs = draw.sample(kept, min(len(kept), draw.randrange(4)))
            keys = [draw.choice("abc") if draw.random() < 0.5 else None for _ in inputs]
            given: list[Any] = []
            real: list[Any] = []
            for (each, value), key in zip(inputs, keys, strict=True):
                given.append(each.part(key) if key else each)
                real.append(value[key] if key else value)
            keep = draw.random() < 0.7
            told = pool_calls.sum_of if keep and draw.random() < 0.5 else None
            expected[n] = pool_calls.mixed(0, shared[at], *real)
            args = (seconds, placed[at], *given)
            stage.add(Call(pool_calls.mixed, args, keep, tag=n, summary=told))
        for call, found in stage:
            value = expected.pop(call.tag)
            if not call.keep:
                assert found == value
                continue
            assert call.summary is None or found.summary == sum(value.values())
            kept.append((found, value))
        assert not expected
        kept = draw.sample(kept, draw.randrange(len(kept) + 1))  # the others are let go of
    ended.set()
    killer.join()
    assert pool.bring([each for each, _ in kept], "drawn", Limits()) == [v for _, v in kept]


@pytest.mark.slow
def test_drawn_work_while_workers_die(pool: Pool) -> None:
    for seed in range(3):
        drawn(pool, seed, kills=4)


def test_what_is_firm_is_not_made_again(pool: Pool) -> None:
    """Its loss is told, though it could be made again: here in a while."""
    kept = [found for _, found in with_(pool, Limits(), Call(pool_calls.slowly, (0.5, 3), True))]
    (there,) = pool.where(kept)
    assert there is not None
    kill(pool.connection.client, there)
    until(lambda: kept[0].future.status == "lost")
    stage = with_(pool, Limits(), Call(pool_calls.number, (kept[0],)))
    stage.unrecoverable = kept
    with pytest.raises(Lost, match="a part of test was lost"):
        list(stage)
    assert [found for _, found in with_(pool, Limits(), Call(pool_calls.number, (kept[0],)))] == [3]


def test_what_waits_for_what_has_failed_is_told_of(cluster: Workers, tmp_path: Path) -> None:
    """Dask lets a task wait for ever that is lost after one that it needs had failed."""
    client = cluster(2)
    first, second = sorted(client.nthreads())

    def task(function: Any, *args: Any, worker: str = second) -> Any:
        return client.submit(
            function, *args, workers=[worker], allow_other_workers=True, pure=False
        )

    below = task(pool_calls.once, str(tmp_path / "it"), worker=first)
    one, other = task(pool_calls.number, below, worker=first), task(pool_calls.number, below)
    assert client.gather([one, other]) == [1, 1]
    below.release()
    kill(client, first)
    until(lambda: one.status == "error")  # what is below failed when it was to be made again
    kill(client, second)
    until(lambda: other.status in ("lost", "error"))
    until(lambda: client.nthreads())

    def told() -> bool:
        client.run_on_scheduler(set_free, wanted=[other.key])
        return bool(other.status == "error")

    until(told)
