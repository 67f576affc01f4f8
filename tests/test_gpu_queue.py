"""Walks of tiles that share, roll back and are launched again: each entry is done once."""

from __future__ import annotations

from typing import Any

import pytest

from gdatalog.gpu_ops.sources import whole
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


PAUSES = """
KERNEL(pauses)(ARRAY(i64) out, i64 n, i64 capacity) {
    if (thread_of_grid() > 0) return;
    int wait = SHORTEST_PAUSE;
    for (i64 at = 0; at < n; at++, wait = next_pause(wait, longest_pause(capacity))) out[at] = wait;
}
"""


def test_waiting_tiles_wake_soon_after_the_last_task(driver: HostDriver) -> None:
    """A pause is short beside what was waited before, and grows up to a limit."""
    kernel = driver.kernels(whole('#include "work.cuh"\n' + PAUSES), ["pauses"], "")["pauses"]
    for tiles, limit in ((10, 1_024), (16_384, 16_384), (1 << 24, 1_000_000)):
        out = driver.xp.zeros(80, dtype="int64")
        kernel.launch(1, 32, (out, 80, tiles))
        pauses = out.get().tolist()
        assert pauses[-1] == limit
        waited = [sum(pauses[:at]) for at in range(80)]
        assert all(pause <= 64 + before // 3 for pause, before in zip(pauses, waited, strict=True))
