"""Rules over relations of which each worker of a cluster has a part."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

import gdatalog as gd
from gdatalog.cluster.joins import bucket_store, partitioned
from gdatalog.cluster.joins.partitioned import BucketCells
from gdatalog.cluster.joins.share_search import Batch, ShareChoice, expected
from gdatalog.cluster.joins.shares import Shares
from gdatalog.errors import EvaluationError, MemoryLimitError
from tests import pool_calls
from tests.clusters import Workers, fork_workers
from tests.corners import CORNERS, Example
from tests.draw import PROFILES, drawn
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_cluster_faults import until
from tests.test_engine_oracle import _heads, answers, difference

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


def in_parts(census: Shares, memory: int, workers: int, threads: int) -> ShareChoice:
    """Shares of up to three classes of every domain, however few rows there are."""
    starts = [sorted({at * domain.classes // 3 for at in range(3)}) for domain in census.domains]
    shares = census.coarser(starts)
    return expected(shares, max(memory, shares.largest), workers, threads)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are many: they are several blocks and are cut into cells."""
    monkeypatch.setattr(bucket_store, "ONE_BLOCK_BELOW", 16)
    monkeypatch.setattr(partitioned, "choose", in_parts)


def connected(client: Any) -> gd.Database:
    db = gd.connect(device="cpu", cluster=client)
    db.workspace.force(spread="partition")
    return db


def check(example: Example, client: Any) -> None:
    with connected(client) as db:
        if example.fails:
            with pytest.raises(EvaluationError) as caught:
                answers(db, example.program, example.data, _heads(example))
            assert caught.value.span is not None
            return
        found = answers(db, example.program, example.data, set(example.expected))
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("example", CORNERS, ids=str)
def test_corners(example: Example, cluster: Workers) -> None:
    check(example, cluster(2))


@pytest.mark.usefixtures("small")
def test_nothing_is_left_on_workers(cluster: Workers) -> None:
    client = cluster(2)

    def kept() -> set[str]:
        return {key for keys in client.has_what().values() for key in keys}

    gc.collect()
    before = kept()  # of earlier tests
    with connected(client) as db:
        db["E"] = [(x, y) for x in range(20) for y in range(x)]
        assert db.query("n(count()) <- E(x, y), E(y, z).").fetchall() == [(1140,)]
    until(lambda: kept() <= before)
    until(lambda: not any(client.run(pool_calls.stored).values()))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples(example: Example, cluster: Workers) -> None:
    check(example, cluster(3))


def wrong(seed: int, client: Any) -> str | None:
    """What is wrong with the answers to the program of a number."""

    def way(text: str, data: Any, defined: set[str], _: Any) -> Any:
        with connected(client) as db:
            return answers(db, text, data, defined)

    names = list(PROFILES)
    return difference(drawn(seed, PROFILES[names[seed % len(names)]]), seed, False, way)


@pytest.mark.usefixtures("small")
def test_drawn_programs(cluster: Workers) -> None:
    client = cluster(2)
    assert [told for seed in range(10) if (told := wrong(seed, client))] == []


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_more_drawn_programs(cluster: Workers) -> None:
    client = cluster(4)
    assert [told for seed in range(1000, 1020) if (told := wrong(seed, client))] == []


RANDOM = np.random.default_rng(5)
EDGES = RANDOM.integers(0, 30, (350, 2))
QUERIES = [
    "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "k(count()) <- S(a, b), S(a, c), S(a, d), S(b, c), S(b, d), S(c, d).",
    "k(a, b, c, d) <- S(a, b), S(a, c), S(a, d), S(b, c), S(b, d), S(c, d), a < b < c < d.",
    "n(x, y, z) <- E(x, y), E(y, z), !E(x, z).",
    "w(x, count()) <- E(x, y), E(y, _).",
    "c(x, y) <- E(x, 7), E(7, y), E(y, y).",
    "f(a, b, max(x)) <- F(a, b, x), F(b, c, y), E(c, _), y < x.",
]


@pytest.mark.usefixtures("small")
def test_joins_of_several_relations(cluster: Workers) -> None:
    data = {
        "E": EDGES,
        "S": np.concatenate([EDGES, EDGES[:, ::-1]]),
        "F": [(int(a), int(b), (a * b % 7) / 2) for a, b in EDGES[:200]],
    }
    here = gd.connect(device="cpu")
    with connected(cluster(3)) as there:
        for name, rows in data.items():
            here[name] = there[name] = rows
        for query in QUERIES:
            expected = sorted(here.query(query).fetchall())
            assert sorted(there.query(query, strategy="levelwise").fetchall()) == expected
            assert expected


@pytest.mark.usefixtures("small")
def test_parts_of_lists_tell_no_degree(cluster: Workers) -> None:
    """A vertex with three neighbours may have two of them in a bucket."""
    u, v = np.random.default_rng(1).integers(0, 20, (2, 200))
    edges = np.unique(np.stack([u, v])[:, u < v], axis=1).T
    query = "n(count()) <- S(a, b), S(a, c), S(b, c), S(a, d), S(b, d), distinct(a, b, c, d)."
    with gd.connect(device="cpu") as here, connected(cluster(3)) as there:
        for db in (here, there):
            db["S"] = np.concatenate([edges, edges[:, ::-1]])
            db.workspace.tune(degrees_from=0.0)
            db.workspace.force(algebra="never", strategy="lftj")
        assert "each with 3 or" in str(there.explain(query))
        assert there.query(query).fetchall() == here.query(query).fetchall()


def triangles(db: gd.Database) -> list[Any]:
    query = "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z."
    return sorted(db.query(query, strategy="levelwise").fetchall())


def test_rows_that_workers_read(cluster: Workers, tmp_path: Path) -> None:
    both = np.concatenate([EDGES, EDGES[:, ::-1]])
    for number in range(3):
        part = pd.DataFrame(both[number::3], columns=["a", "b"])
        part.to_parquet(tmp_path / f"{number}.parquet")
    here = gd.connect(device="cpu")
    here["E"] = both
    with connected(cluster(2)) as there:
        there.load("E", tmp_path)
        assert there.workspace.stored["E"].remote is not None
        assert triangles(there) == triangles(here) != []
        assert there.workspace.stored["E"].remote.unfetched


def given(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    """Workers that have so many bytes for a call."""
    monkeypatch.setattr(bucket_store.BucketStore, "room", lambda _: (memory, 2))


@pytest.mark.usefixtures("small")
def test_cells_that_do_not_fit_are_cut(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    here = gd.connect(device="cpu")
    here["E"] = EDGES
    cut: list[Batch] = []
    back = BucketCells._back

    def noted(self: BucketCells, part: Batch, *found: Any) -> None:
        if part.refined:
            cut.append(part)
        back(self, part, *found)

    monkeypatch.setattr(BucketCells, "_back", noted)
    given(monkeypatch, 3000)
    with connected(cluster(2)) as there:
        there["E"] = EDGES
        assert triangles(there) == triangles(here) and cut


@pytest.mark.usefixtures("small")
def test_progress_grows_with_the_cells_that_are_done(
    cluster: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    ended = BucketCells.ended

    def noted(self: BucketCells, *args: Any) -> Any:
        work = self.calls.limits.watch.innermost
        assert work.total
        shares.append(work.done / work.total)
        return ended(self, *args)

    monkeypatch.setattr(BucketCells, "ended", noted)
    with connected(cluster(2)) as there:
        there["E"] = EDGES
        assert triangles(there)
    assert shares == sorted(shares) and shares[0] < 0.5 < shares[-1] < 1.0


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_at_all(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, 50)
    with connected(cluster(2)) as there:
        there["E"] = EDGES
        with pytest.raises(MemoryLimitError, match=r"more than the 50 B") as caught:
            triangles(there)
        assert caught.value.hint is not None and "workers with more memory" in caught.value.hint


@pytest.mark.slow
def test_three_times_the_memory_of_a_worker() -> None:
    distributed = pytest.importorskip("distributed")
    fork_workers()
    memory = 320 << 20
    rows = 3 * memory // 64
    keys = np.arange(rows) + (1 << 40)
    peak: dict[int, int] = {}
    ended = Event()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=None
    ) as workers, distributed.Client(workers) as client:  # fmt: skip
        processes = [psutil.Process(number) for number in client.run(os.getpid).values()]

        def watch() -> None:
            while not ended.wait(0.02):
                for each in processes:
                    peak[each.pid] = max(peak.get(each.pid, 0), each.memory_info().rss)

        watcher = Thread(target=watch)
        watcher.start()
        try:
            with connected(client) as db:
                columns = {"x": keys, "y": keys * 7919 % 1_000_003}
                db["R"] = {**columns, **{f"more{at}": keys for at in range(6)}}
                db["S"] = {"y": np.arange(0, 1_000_003, 2)}
                found = db.query(
                    "c(count()) <- R(x, y, _, _, _, _, _, _), S(y).", strategy="levelwise"
                )
                ((count,),) = found.fetchall()
        finally:
            ended.set()
            watcher.join()
        assert sorted(client.run(os.getpid).values()) == sorted(each.pid for each in processes)
    assert count == np.count_nonzero(columns["y"] % 2 == 0)
    assert max(peak.values()) < memory
