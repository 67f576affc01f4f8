"""Calls that workers run, and values that lie there."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import numpy as np
import pytest

from gdatalog.cancellation import Watch
from gdatalog.cluster.pool import task_stage
from gdatalog.cluster.pool.calls import Call, RemoteValue, RunningCall, TooLarge
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.workers.connection import Connection
from gdatalog.errors import EvaluationError, Interrupted
from gdatalog.limits import Limits
from gdatalog.progress import Progress
from gdatalog.storage.relation import Relation
from tests import pool_calls
from tests.clusters import Workers
from tests.test_cluster_faults import kill


@pytest.fixture(params=["files", "sent"])
def pool(request: Any, cluster: Workers) -> Iterator[Pool]:
    """Of two workers; values lie in files that all see, or are sent."""
    yield from of(cluster(2), request.param)


@pytest.fixture
def one(cluster: Workers) -> Iterator[Pool]:
    yield from of(cluster(2), "files")


def of(client: Any, way: str) -> Iterator[Pool]:
    pool = Pool(Connection(client))
    if way == "sent":
        pool.broadcaster.send_all()
    yield pool
    pool.close()


def test_what_calls_are_given_goes_with_them() -> None:
    """At once: while it is held here it takes room on a worker."""
    kept, placed = RemoteValue(None), [RemoteValue(None)]
    gone = [weakref.ref(kept), weakref.ref(placed[0])]
    gc.collect()
    gc.disable()
    try:
        runs = [
            RunningCall(Call(pool_calls.number, (kept,))),
            RunningCall(Call(len, (placed, kept))),
        ]
        assert [len(run.inputs) for run in runs] == [1, 2]
        del kept, placed, runs
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def given(pool: Pool, calls: list[Call]) -> list[Any]:
    stage = pool.stage("test", Limits())
    for call in calls:
        stage.add(call)
    return [found for _, found in stage]


def until(true: Any, seconds: float = 20) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end, "it did not come about"
        sleep(0.01)


# ------------------------------------------------------------------------------------ calls


@pytest.mark.parametrize("count", [0, 1, 3, 500])
def test_each_call_is_given_once(pool: Pool, count: int) -> None:
    values = np.arange(1000)
    placed = pool.broadcast("values", values)
    task = ("what all have", {"values": placed})
    calls = [Call(pool_calls.add, (task, [n], placed)) for n in range(count)]
    assert sorted(given(pool, calls)) == [499_500 + n for n in range(count)]


def test_calls_are_added_while_others_end(one: Pool) -> None:
    stage = one.stage("test", Limits())
    stage.add(Call(pool_calls.number, (3,), tag="first"))
    found = []
    for call, value in stage:
        found.append((call.tag, value))
        if value:
            stage.add(Call(pool_calls.number, (value - 1,), tag="more"))
    assert found == [("first", 3), ("more", 2), ("more", 1), ("more", 0)]


def test_an_error_is_raised_here(one: Pool) -> None:
    with pytest.raises(EvaluationError, match="three is wrong"):
        given(one, [Call(pool_calls.wrong, (n,)) for n in range(50)])
    with pytest.raises(EvaluationError, match="three is wrong"):
        given(one, [Call(pool_calls.wrong, (n,), keep=True) for n in range(5)])


def test_stages_are_named_by_what_is_done(one: Pool) -> None:
    stage = one.stage("tri_angles", Limits())
    stage.add(Call(pool_calls.slowly, (0.2, 1)))
    stage.start()
    client = one.connection.client
    until(lambda: "tri_angles" in client.run_on_scheduler(pool_calls.prefixes))
    assert [value for _, value in stage] == [1]


def test_who_looks_on_is_told(one: Pool) -> None:
    watch = Watch()
    limits = Limits(watch=watch)
    told: list[Progress | None] = []
    with watch.call(), watch.work("joining", "r"):
        stage = one.stage("r", limits)
        for n in range(6):
            stage.add(Call(pool_calls.number, (n,), worker=None if n else "tcp://127.0.0.1:1"))
        for _ in stage:
            told.append(watch.now)
    assert [(each.done, each.total) for each in told if each] == [(n + 1, 6) for n in range(6)]


# ------------------------------------------------------------------------------------ placed


def test_a_trie_is_placed_once_and_goes_with_it(pool: Pool) -> None:
    def trie_of(count: int) -> Any:
        rows = np.arange(count, dtype=np.int32)
        return Relation.from_rows(("x",), ("int",), (rows,), count).trie((0,))

    trie = trie_of(10)
    placed = pool.broadcast("key", trie)
    assert pool.broadcast("key", trie) is placed
    other = trie_of(20)
    assert pool.broadcast("key", other) is not placed
    path = None if placed.file is None else placed.file.path
    assert given(pool, [Call(pool_calls.length, (placed,))] * 3) == [10, 10, 10]
    del placed, trie
    gc.collect()
    pool.stage("test", Limits())
    if path is not None:
        assert path not in {name for held in held_by(pool) for name in held}
        pool.broadcaster.tidy(linger=0)
        assert not os.path.exists(path)
    assert given(pool, [Call(pool_calls.length, (pool.broadcast("key", other),))]) == [20]


def test_what_was_sent_stays_as_long_as_what_was_made_of_it(pool: Pool) -> None:
    values = np.arange(3)
    alive = weakref.ref(values)
    placed = pool.broadcast("of the values", values)
    stage = pool.stage("test", Limits())
    stage.add(Call(len, (placed,), keep=True))
    (kept,) = [kept for _, kept in stage]
    del placed, values, stage
    gc.collect()
    assert alive() is None
    kill(pool.connection.client)
    assert pool.bring([kept], "test", Limits()) == [3]


def held_by(pool: Pool) -> list[list[str]]:
    return list(pool.connection.client.run(pool_calls.held).values())


def test_the_folder_goes_with_the_pool(cluster: Workers) -> None:
    pool = Pool(Connection(cluster(2)))
    pool.broadcast("values", np.arange(10))
    folder = pool.broadcaster.folder
    assert folder is not None and folder.is_dir()
    pool.close()
    assert not folder.exists()


def test_arrays_are_mapped_as_they_were(one: Pool) -> None:
    values = {"a": np.arange(5), "b": np.array([], dtype=np.int32), "c": np.array(["x", None])}
    ((kinds, changed),) = given(one, [Call(pool_calls.looked_at, (one.broadcast(None, values),))])
    assert kinds == {"a": "int64 5 True", "b": "int32 0 True", "c": "object 2 True"}
    assert changed == 7 and values["a"][0] == 0


# -------------------------------------------------------------------------------------- kept


def test_what_is_kept_stays_there(pool: Pool) -> None:
    calls = [Call(pool_calls.three, (n,), keep=True, tag=n, summary=len) for n in range(3)]
    stage = pool.stage("test", Limits())
    for call in calls:
        stage.add(call)
    kept: dict[int, RemoteValue] = {call.tag: found for call, found in stage}
    assert [kept[n].summary for n in range(3)] == [3, 3, 3]
    limits = Limits()
    assert pool.bring([kept[2].part("b"), kept[0]], "test", limits) == [
        3,
        {"a": 0, "b": 1, "c": 2},
    ]
    assert given(pool, [Call(pool_calls.total, (kept[1], kept[2].part("c")))]) == [6 + 4]
    assert all(worker in pool.connection.client.nthreads() for worker in pool.where([kept[1]]))


# ---------------------------------------------------------------------------------- too large


def test_what_is_too_large_comes_back(one: Pool) -> None:
    with pytest.raises(TooLarge, match="on a worker: 8 are more than 3") as caught:
        given(one, [Call(pool_calls.over, (8, 3), tag="large")])
    assert caught.value.call.tag == "large" and caught.value.hint == "take fewer"

    def halves(large: TooLarge) -> list[Call]:
        wanted, most = large.call.args
        return [Call(pool_calls.over, (half, most)) for half in (wanted // 2, -(-wanted // 2))]

    stage = one.stage("test", Limits(), halves)
    for _ in range(20):
        stage.add(Call(pool_calls.over, (8, 3)))
    assert [value for _, value in stage] == [2] * 80


# -------------------------------------------------------------------------------- interrupted


def test_a_stage_that_is_stopped_stops_its_calls_only(pool: Pool, tmp_path: Path) -> None:
    other = pool.stage("other", Limits())
    other.add(Call(pool_calls.slowly, (0.6, 5)))
    other.start()
    watch = Watch()
    with watch.call():
        stage = pool.stage("endless", Limits(watch=watch))
        for name in "abcd":
            stage.add(Call(pool_calls.endless, (str(tmp_path), name)))
        stage.start()
        until(lambda: len(list(tmp_path.glob("*.runs"))) >= 1)
        threading.Timer(0.05, watch.stop.set).start()
        with pytest.raises(Interrupted):
            list(stage)
    began = perf_counter()
    running = [path.stem for path in tmp_path.glob("*.runs")]
    until(lambda: all((tmp_path / f"{name}.stopped").exists() for name in running))
    assert [value for _, value in other] == [5]
    assert given(pool, [Call(pool_calls.number, (4,))]) == [4]
    assert perf_counter() - began < 20


def test_a_scheduler_that_takes_long_is_asked_once(
    one: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def slowly(client: Any) -> Any:
        assert len(asked) < 3
        asked.append(client)
        sleep(0.2)
        return {"tcp://worker": {"memory_limit": 5}}

    monkeypatch.setattr(task_stage, "SOON", 0.1)
    monkeypatch.setattr(task_stage, "workers_told", slowly)
    one._info = 0.0, {}
    assert one.memory == [5] and len(asked) == 1
