"""Memory of a device that is not there, for arrays that grow in place."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gdatalog
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.arena import UNUSED_SHARE, Arena, GrowingArray
from gdatalog.gpu_ops.copies import NoMemory
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.growing import RowNumbers
from tests.cuda_host import HostDriver, HostFault, needs_compiler
from tests.cuda_host.pages import GuardedMemory, array

pytestmark = needs_compiler


@pytest.fixture
def driver() -> Any:
    driver = HostDriver()
    driver.arena = Arena(GuardedMemory(), 1 << 20, array, lambda: None)
    return driver


class Full(GuardedMemory):
    """Of so many pages."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages, self.refusals = pages, 0

    def created(self, on_device: bool, pages: int = 1) -> int:
        if self.held + pages * self.page > self.pages * self.page:
            self.refusals += 1
            raise MemoryError
        return super().created(on_device, pages)


def made(driver: Any, length: int = 0, kept: int = 0) -> GrowingArray:
    found = GrowingArray(driver, driver.xp.arange(kept, dtype=np.int32))
    found.lengthen(length, kept)
    return found


def test_a_large_array_grows_where_it_is() -> None:
    """On a GPU, too."""
    driver = HostDriver()
    with driver.use():
        arena = driver.arena
        assert arena is not None
        each, kept = arena.page // 4, driver.xp.arange(2_000, dtype=np.int32)
        found = made(driver, 100, 9)
        assert (found.moves, found.nbytes, arena.held) == (1, 400, 0)
        found.lengthen(2 * each, 9)
        address = found.array.data.ptr
        assert found.moves == 2 and found.nbytes == arena.held == 2 * arena.page
        found.array[9:1_000] = kept[9:1_000]
        for length in (5 * each, 4 * each, 9 * each + 1):
            found.lengthen(length, 1_000)
        found.array[1_000:2_000] = kept[1_000:]
        assert (found.array.data.ptr, found.moves, found.length) == (address, 2, 9 * each + 1)
        assert found.nbytes == arena.held == 10 * arena.page
        assert found.array[:2_000].tolist() == [*range(2_000)]
        found.array[9 * each :][:1] = 5
        assert found.array[9 * each :][:1].tolist() == [5]


def test_without_virtual_memory_it_is_copied(driver: Any) -> None:
    driver.arena = None
    found = made(driver, 5_000, 1_000)
    found.lengthen(50_000, 1_000)
    assert found.moves == 2 and found.nbytes == 200_000
    assert found.array[:1_000].tolist() == [*range(1_000)]


def test_ranges_serve_the_next_array_until_memory_is_short(driver: Any) -> None:
    arena, memory = driver.arena, driver.arena.memory
    found = made(driver, 14_000)
    rows, size = found.array[:10], memory.held
    found.leave()
    gc.collect()
    assert arena.unused == 0  # others have the rows
    del rows
    gc.collect()
    assert arena.unused == size
    small, like = made(driver, 3_000), made(driver, 10_000)
    assert arena.unused == 0 and like.nbytes == size and len(memory.ranges) == 2
    del small, like
    gc.collect()
    memory.refused["settle"] = [0]
    driver.release()
    assert arena.unused
    driver.release()
    assert not (memory.ranges or memory.handles or arena.held)


def test_little_memory_is_unused(driver: Any) -> None:
    """Of ranges that grew, and suit no array at its begin."""
    for _ in range(9):
        found = made(driver, 3_000)
        found.lengthen(10_000)
        found.lengthen(15_000)
        assert driver.arena.unused <= (1 << 20) // UNUSED_SHARE
        del found
        gc.collect()
    assert driver.arena.held <= (1 << 20) // UNUSED_SHARE + 60_000 + driver.arena.page


def test_a_device_that_is_full_is_relieved_once() -> None:
    driver, memory = HostDriver(), Full(4)
    arena = driver.arena = Arena(memory, 1 << 20, array, lambda: arena.release())
    found, other = made(driver, 2_000), made(driver, 2_000)
    with pytest.raises(NoMemory):
        found.lengthen(4_000)
    assert found.length == 2_000 and memory.held == 2 * found.nbytes
    del other
    gc.collect()
    assert arena.unused
    found.lengthen(4_000)
    assert not arena.unused and memory.held == 4 * arena.page
    with pytest.raises(NoMemory, match="more than the device has"):
        found.lengthen(1 << 20)


def test_a_kernel_that_leaves_the_memory_of_its_range_is_a_fault(driver: Any) -> None:
    numbers = RowNumbers(Gpu(driver).ops.kernels, 1, 8)
    keys = made(driver, 2_000)
    keys.array[:2_048].fill(7)
    numbers.add([keys.array[:2_048].astype(np.int64)])
    wide = GrowingArray(driver, driver.xp.zeros(0, dtype=np.int64))
    wide.lengthen(1_000)
    wide.array[:1_024].fill(7)
    with pytest.raises(HostFault, match="ended with signal"):
        numbers.add([wide.array[:1_025]])


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_rounds_that_were_recorded_stay_so_while_rows_grow_in_place(
    grows: bool, loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    driver, capacities = HostDriver(blocks=1), list[int]()
    driver.loops = loops
    if not grows:
        driver.arena = None
    real = GrowingArray.lengthen

    def noted(self: GrowingArray, length: int, kept: int = 0) -> None:
        real(self, length, kept)
        capacities.append(self.length)

    monkeypatch.setattr(GrowingArray, "lengthen", noted)
    with gdatalog.connect(device="cpu") as db:
        db.workspace.tune(device_from=-1, bitmap_rounds_from=0, pool_rows=1, grid_blocks=2)
        db.workspace.device = Gpu(driver)
        db.workspace.force(split="never", dedup="bitmap", tile=32)
        db["E"] = [(x, x + 1) for x in range(80)]
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _). ?- n(c)."
        assert db.query(text).fetchall() == [(3_240,)]
    assert len({*capacities}) > 2
    assert (driver.recordings == 1) == grows


@pytest.mark.parametrize("dedup", ["bitmap", "hash"])
@pytest.mark.parametrize("pages", [2, 5])
def test_a_device_that_is_full_in_the_middle(
    dedup: Any, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bitmaps go on, without rows; hash sets leave the rounds to the CPU."""
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    driver = HostDriver(blocks=1)
    memory = Full(pages)
    driver.arena = Arena(memory, 1 << 20, array, lambda: None)
    with gdatalog.connect(device="cpu") as db:
        db.workspace.tune(device_from=-1, bitmap_rounds_from=0, pool_rows=1, grid_blocks=2)
        db.workspace.device = Gpu(driver)
        db.workspace.force(split="never", dedup=dedup, tile=32)
        db["E"] = [(x, x + 1) for x in range(80)]
        found = db.query("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).")
        assert set(found.fetchall()) == {(x, y) for x in range(80) for y in range(x + 1, 81)}
    assert memory.refusals
