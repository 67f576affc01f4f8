"""The harness that runs kernels without a GPU: what it promises, and that it notices a breach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdatalog.gpu_ops.sources import whole
from tests.cuda_host import HostDriver, HostFault, needs_compiler

pytestmark = needs_compiler

KERNELS = """#include "tile.cuh"
KERNEL(add_up)(ARRAY(const i32) values, ARRAY(i64) out, i64 count) {
    i64 mine = 0;
    for (i64 i = thread_of_grid(); i < count; i += threads_of_grid()) mine += values[i];
    const Tile<32> t = tile_here<32>();
    mine = sum(t, mine);
    if (t.rank == 0) atomic_add(out, 0, mine);
}
KERNEL(outside)(ARRAY(i32) values) { values[thread_of_grid() + 1] = 1; }
KERNEL(never_comes)(ARRAY(i32) values) {
    const Tile<32> t = tile_here<32>();
    if (t.rank != 3) sync(t);
}
KERNEL(other_place)(ARRAY(i32) values) {
    const Tile<32> t = tile_here<32>();
    if (t.rank != 3)
        sync(t);
    else
        sync(t);
}
KERNEL(shift)(ARRAY(u64) values, i64 by) { values[0] = values[0] << by; }
KERNEL(waits)(ARRAY(i64) values) {
    while (load_acquire(values, 0) == 0) pause(10);
}
"""
NAMES = ["add_up", "outside", "never_comes", "other_place", "shift", "waits"]


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    return HostDriver().kernels(whole(KERNELS), NAMES, "tests")


def ran(kernel: Any, seed: int, blocks: int, threads: int, *args: Any) -> HostDriver:
    driver = kernel._driver
    driver.seed = seed
    kernel.launch(blocks, threads, args)
    return driver  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
def test_a_sum(kernels: dict[str, Any], seed: int) -> None:
    xp = HostDriver.xp
    values, out = xp.arange(1000, dtype=xp.int32), xp.zeros(1, dtype=xp.int64)
    ran(kernels["add_up"], seed, 3, 64, values, out, 1000)
    assert int(out[0]) == 499500


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("outside", (), r"values\[64\]: outside, it has 64 elements"),
        ("never_comes", (), "stuck: "),
        ("other_place", (), "meet at different places"),
        ("shift", (64,), "a shift by too many bits"),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_faults(kernels: dict[str, Any], name: str, args: Any, said: str, seed: int) -> None:
    xp = HostDriver.xp
    values = xp.ones(64, dtype=xp.uint64 if name == "shift" else xp.int32)
    with pytest.raises(HostFault, match=said):
        ran(kernels[name], seed, 1, 64, values, *args)


def test_what_waits_for_nothing_ends(kernels: dict[str, Any]) -> None:
    kernels["waits"]._driver.patience = 10_000
    with pytest.raises(HostFault, match="spins"):
        ran(kernels["waits"], 0, 1, 32, HostDriver.xp.zeros(1, dtype=np.int64))
