"""Workers that have GPUs: calls give what they give on a CPU, and each worker has its own GPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.cluster.joins.morsels import Morsels
from gdatalog.cluster.workers import own_device
from gdatalog.cluster.workers.connection import Connection
from gdatalog.engine.device import CPU
from gdatalog.engine.devices import OpenDevice
from gdatalog.gpu_ops.device import Gpu
from gdatalog.records import replace
from tests.cuda_host import HostDriver, needs_compiler

EDGES = [(i, j) for i in range(24) for j in range(24) if (i * 7 + j * 5) % 3 and i != j]
QUERIES = [
    "n(count()) <- E(a,b), E(b,c), E(a,c), a < b < c.",
    "t(a, count(), sum(b), max(c)) <- E(a,b), E(b,c), E(a,c).",
    "p(a, c) <- E(a,b), E(b,c), c < 5.",
    "p(a, b, c) <- E(a,b), E(b,c), E(a,c).",
    "n(a, count_distinct(c)) <- E(a,b), E(b,c).",
    'name(1, "one"). name(2, "two"). p(x, cat(s, "!")) <- E(x, y), name(y, s).',
]


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """Workers that are threads of this process, so that they have the device that tests give."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@needs_compiler
@pytest.mark.host
@pytest.mark.parametrize(
    "text", [QUERIES[0], *(pytest.param(text, marks=pytest.mark.slow) for text in QUERIES[1:])]
)
def test_workers_with_a_gpu_give_the_same(
    text: str, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(HostDriver())
    used: list[str] = []

    def own(asked: str) -> OpenDevice:
        used.append(asked)
        return OpenDevice(gpu if asked == "auto" else CPU, "for a test")

    monkeypatch.setattr(own_device, "own_device", own)
    for excuse in ("NotOnDevice", "MemoryLimitError"):  # none is taken: what fails there is seen
        monkeypatch.setattr(own_device, excuse, ZeroDivisionError)
    with gd.connect(device="cpu") as here, gd.connect(cluster=threads) as there:
        there.workspace.force(spread="replicate")
        there.workspace.tune(gpu_from=0.0)
        for db in (here, there):
            db["E"] = EDGES
        assert sorted(there.query(text).fetchall()) == sorted(here.query(text).fetchall())
        told = str(there.profile(text))
        assert ("with GPUs" in told) == ("on GPUs" in told) == ("cat" not in text)
    assert set(used) == ({"cpu"} if "cat" in text else {"auto"})


def test_workers_take_the_cpu_for_little_work(
    threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They open a GPU under "auto" only for what pays there; under "cuda" always."""
    asked: list[str] = []

    def own(name: str) -> OpenDevice:
        asked.append(name)
        return OpenDevice(CPU, "for a test")

    monkeypatch.setattr(own_device, "own_device", own)
    monkeypatch.setattr(Connection, "gpus", True)
    closure = CLOSURES[1] + " ?- p(x, y)."
    for device, named in (("auto", {"cpu"}), ("cuda", {"cuda"})):
        with gd.connect(device=device, cluster=threads) as db:
            db["E"] = EDGES
            db.workspace.force(spread="replicate")
            assert len(db.query(QUERIES[3])) > 0
            db.workspace.force(spread="auto")
            db.workspace.tune(partitioned_from=0, partitions_spread_from=0, tiles_from=0)
            assert len(db.query(closure)) == 24 * 24
        assert set(asked) == named
        asked.clear()


@needs_compiler
@pytest.mark.host
def test_a_trie_is_copied_once() -> None:
    gpu = Gpu(HostDriver())
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        trie = db.workspace.stored["E"].trie((0, 1))
    there = own_device._copy(trie, gpu)
    assert own_device._copy(trie, gpu) is there
    for mine, its in zip(trie.levels, there.levels, strict=True):
        assert np.array_equal(mine.values, its.values.get())
        assert its.offsets.dtype == np.int32


def test_what_a_gpu_cannot_hold_is_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(refuses=lambda plan: None)
    monkeypatch.setattr(own_device, "own_device", lambda asked: OpenDevice(small, "for a test"))  # type: ignore[arg-type]

    def run(device: Any, tries: Any) -> str:
        if device is small:
            raise gd.MemoryLimitError("cuda:0 has no memory left")
        return "done"

    assert own_device.on_device("auto", (), {}, run) == "done"


class Cards:
    """Two GPUs, of which the first belongs to another worker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: set[int]) -> None:
        self.opened: list[str] = []
        monkeypatch.setattr(own_device, "plainly_none", lambda: False)
        monkeypatch.setattr(own_device, "gpus", lambda: 2)
        monkeypatch.setattr(own_device, "_is_ours", free.__contains__)
        monkeypatch.setattr(own_device, "open_device", self.open)

    def open(self, name: str) -> OpenDevice:
        self.opened.append(name)
        return OpenDevice(CPU, name)


def test_the_first_gpu_that_nobody_has_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Cards(monkeypatch, {1}) and own_device._open("auto").why == "cuda:1"
    assert own_device._open("cpu").why == "cpu"


def test_without_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Cards(monkeypatch, set())
    assert own_device._open("auto").why == "cpu"
    with pytest.raises(gd.DeviceError, match="a worker has no GPU of its own"):
        own_device._open("cuda")


def test_a_gpu_is_locked_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    pytest.importorskip("fcntl")
    runtime = SimpleNamespace(deviceGetPCIBusId=lambda number: f"0000:0{number}:00.0")
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(own_device.tempfile, "gettempdir", lambda: str(tmp_path))
    mine: list[Any] = []
    monkeypatch.setattr(own_device, "_locked", mine)
    assert own_device._is_ours(0) and not own_device._is_ours(0)  # as another process would ask
    assert own_device._is_ours(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gdatalog-gpu-0000-00-00.0.lock",
        "gdatalog-gpu-0000-01-00.0.lock",
    ]
    for file in mine:
        file.close()


CLOSURES = [
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). q(x, count()) <- p(x, _).",
]


@needs_compiler
@pytest.mark.host
@pytest.mark.parametrize(
    "text", [CLOSURES[0], *(pytest.param(text, marks=pytest.mark.slow) for text in CLOSURES[1:])]
)
@pytest.mark.parametrize("busy", [True, False])
def test_a_fixpoint_is_followed_on_the_workers_gpus(
    text: str, busy: bool, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few values for its tiles a worker takes its CPU."""
    gpu = Gpu(HostDriver())
    launched = gpu.driver.launches  # type: ignore[attr-defined]
    monkeypatch.setattr(
        own_device,
        "own_device",
        lambda asked: OpenDevice(gpu if asked == "auto" else CPU, "for a test"),
    )
    edges = [(x, x + 1) for x in range(60)]
    with gd.connect(device="cpu") as here, gd.connect(cluster=threads) as there:
        for db in (here, there):
            db["E"] = edges
        busily = 1 if busy else 10_000
        there.workspace.tune(partitioned_from=0, tiles_from=0, tiles_busy=busily, gpu_from=0.0)
        monkeypatch.setattr(Connection, "gpus", True)
        assert sorted(there.query(text).fetchall()) == sorted(here.query(text).fetchall())
        told = str(there.profile(text))
        assert "over 1 worker, each of which takes ranges" in str(there.explain(text))
        assert ("on 2 workers with GPUs" in told) == busy
    assert (gpu.driver.launches > launched) == busy  # type: ignore[attr-defined]


def test_fewer_pieces_for_gpus() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(x, y % 400) for x in range(400) for y in range(x, x + 9)]
        text = "n(count()) <- E(a,b), E(b,c), E(c,d), E(d,a)."
        ((rule,),) = (stratum.rules for stratum in db.explain(text).strata)
        (join,) = rule.plan.joins
        tries = {ref: db.workspace.stored["E"].trie(ref.columns) for ref in join.tries}
        join = replace(join, cost=1e12)
        counts = [len(Morsels(join, tries, None, 2, gpus).take(inf)) for gpus in (False, True)]
        assert 3 * counts[1] < counts[0]
        join = replace(join, cost=3e7)
        assert len(Morsels(join, tries, None, 2, True).take(inf)) == 2  # each GPU has one launch
