"""Walks of tiles that share, roll back and are launched again: each entry is done once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_queue.walks import FIBERS, KERNELS, Seen, Walk, walk_all

pytestmark = needs_compiler


@pytest.fixture
def driver() -> HostDriver:
    driver = HostDriver()
    driver.patience = 1_000_000
    return driver


@pytest.fixture
def kernels(driver: HostDriver) -> dict[str, Any]:
    return driver.kernels(FIBERS, KERNELS, "walks")


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_every_entry_is_done_once(driver: HostDriver, kernels: Any, lanes: int) -> None:
    seen = walk_all(driver, kernels, lanes, range(130))
    assert seen.splits > 60  # it was not all too easy
    assert seen.full > 30
    assert seen.blocks_undone > 20


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4, 32])
@pytest.mark.parametrize("seed", [0])
def test_every_entry_is_done_once_by_many(
    driver: HostDriver, kernels: Any, lanes: int, seed: int
) -> None:
    walk, seen = Walk(lanes, seed), Seen()
    walk.grow()
    driver.patience = 100_000_000
    walk.run(driver, kernels, seen)
    assert seen.splits > 0
