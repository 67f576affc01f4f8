"""Launches that are kept for the next run of a plan, and kernels that are compiled ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.gpu_ops import launch, walk
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.launch import Launch
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = needs_compiler

EDGES = [(x, (7 * x + y) % 60) for x in range(60) for y in (0, 1, 5, 9)]
PATHS = "t(x, y, z) <- E(x, y), E(y, z), x < z."
COUNT = "n(count()) <- E(x, y), E(y, z), x < z."
FROM = "f(y, z) <- E($x, y), E(y, z)."


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as db:
        db.workspace.device = Gpu(HostDriver())
        db.workspace.force(strategy="lftj")
        db["E"] = EDGES
        yield db


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The launches that are prepared."""
    found: list[Launch] = []
    before = Launch.__init__

    def noted(new: Launch, *given: Any) -> None:
        found.append(new)
        before(new, *given)

    monkeypatch.setattr(Launch, "__init__", noted)
    return found


def rows(
    db: gd.Database, text: str, max_rows: int | None = None, **params: Any
) -> list[tuple[int, ...]]:
    """`max_rows`: the query is not bound to its relations."""
    db.workspace.results.clear()
    return sorted(db.query(text, params or None, max_rows=max_rows).fetchall())


def paths(edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    return sorted({(x, y, z) for x, y in edges for w, z in edges if y == w and x < z})


def test_a_plan_runs_again_by_the_same_launch(db: gd.Database, made: list[Launch]) -> None:
    for _ in range(3):
        assert rows(db, PATHS) == paths(EDGES)
        assert rows(db, COUNT) == [(len(paths(EDGES)),)]
    assert len(made) == 2
    assert len(db.query(PATHS, limit=5)) == 5
    assert rows(db, PATHS) == paths(EDGES)
    assert len(made) == 2


def test_a_launch_takes_other_constants(db: gd.Database, made: list[Launch]) -> None:
    for x in (3, 4, 3, 59):
        expected = sorted({(y, z) for u, y in EDGES if u == x for v, z in EDGES if v == y})
        assert rows(db, FROM, x=x) == expected
    assert len(made) == 1


def test_other_rows_need_another_launch(db: gd.Database, made: list[Launch]) -> None:
    assert rows(db, PATHS) == paths(EDGES)
    db.run("E(1, 2). E(2, 58). E(100, 101). E(101, 200).")
    more = [*EDGES, (1, 2), (2, 58), (100, 101), (101, 200)]
    assert rows(db, PATHS) == paths(more)
    assert len(made) == 2


def test_a_launch_whose_pool_was_too_small_is_not_kept(
    db: gd.Database, made: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    db.workspace.tune(pool_rows=1, pool_rows_most=1, grid_blocks=1)
    db.workspace.force(tile=32)
    for _ in range(2):
        assert rows(db, PATHS) == paths(EDGES)
    assert len(made) == 2 and not made[0].again


def test_what_is_dropped_from_the_cache_is_not_held_by_launches(
    db: gd.Database, made: list[Launch]
) -> None:
    assert rows(db, PATHS) == paths(EDGES)
    device: Any = db.workspace.device
    assert device.kept.nbytes > 0
    device.kept.relieve()
    assert device.kept.nbytes == 0 and not device.walks._launches
    assert rows(db, PATHS) == paths(EDGES)
    assert len(made) == 2


def test_at_most_some_launches_are_kept(
    db: gd.Database, made: list[Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_LAUNCHES", 1)
    for _ in range(2):
        rows(db, PATHS)
        rows(db, COUNT)
    device: Any = db.workspace.device
    assert len(made) == 4 and len(device.walks._launches) == 1


@pytest.mark.parametrize("text", [PATHS, COUNT])
def test_a_small_join_that_runs_often_is_compiled_meanwhile(text: str) -> None:
    driver = HostDriver()
    driver.compiles_ahead = True
    with gd.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(driver)
        db.workspace.tune(kernel_runs=2)
        db["E"] = EDGES
        expected = rows(db, text, 10**6)
        rows(db, text, 10**6)
        assert not device.walks._coming
        rows(db, text, 10**6)
        for coming in [*device.walks._coming.values()]:
            coming.result(timeout=60)
        assert rows(db, text, 10**6) == expected  # it takes the kernel
        assert device.walks._launches and not device.walks._coming


def test_a_device_that_is_closed_drops_what_is_being_compiled() -> None:
    driver = HostDriver()
    driver.compiles_ahead = True
    with gd.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(driver)
        db.workspace.tune(kernel_runs=0)
        db["E"] = EDGES
        rows(db, PATHS)
        device.close()
        assert not device.walks._coming
        assert rows(db, PATHS) == paths(EDGES)
