"""Accesses of memory that nothing orders on a GPU: the harness finds them, and only them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gdatalog.gpu_ops.sources import whole
from tests.cuda_host import HostDriver, HostFault, needs_compiler
from tests.cuda_queue.walks import FIBERS, walk_all
from tests.cuda_queue.walks import KERNELS as WALKS

pytestmark = needs_compiler

# Each runs with two blocks of 32 threads; `a` and `b` have 128 words of 64 bits.
ORDERED = {
    "released": """
        if (me == 0) { a[0] = 5; store_release(b, 0, 1); }
        if (me == 40) { while (load_acquire(b, 0) == 0) pause(1); a[1] = a[0]; }""",
    "passed_on": """
        if (me == 0) { a[0] = 5; store_release(b, 0, 1); }
        if (me == 20) { while (load_acquire(b, 0) == 0) pause(1); store_release(b, 1, 1); }
        if (me == 40) { while (load_acquire(b, 1) == 0) pause(1); a[1] = a[0]; }""",
    "added_to_in_between": """
        if (me == 0) { a[0] = 5; store_release(b, 0, 1); }
        if (me == 20) atomic_add(b, 0, 4);
        if (me == 40) { while ((load_acquire(b, 0) & 1) == 0) pause(1); a[1] = a[0]; }""",
    "the_last_reads_all": """
        a[me] = me;
        if (add_acquire_release(b, 0, 1) == 63) { i64 all = 0;
            for (int i = 0; i < 64; i++) all += a[i];
            b[1] = all; }""",
    "lanes": """
        a[me] = me;
        warp_sync(0xFFFFFFFFu);
        b[me] = a[me ^ 1];
        warp_sync(0xFFFFFFFFu);
        a[me] = b[me ^ 2];""",
    "lanes_of_a_tile": """
        const Tile<8> t = tile_here<8>();
        for (i64 k = 0; k < 1 + me / 8; k++) {
            if (t.rank == 0) a[me] = k;
            sync(t);
            b[me] = a[me - t.rank];
            sync(t);
        }""",
    "in_place": """
        const i64 mine = a[me ^ 1];
        const u32 votes = warp_ballot(0xFFFFFFFFu, mine >= 0);
        a[me] = mine + bits_of(votes);""",
    "in_place_after_a_shuffle": """
        const i64 mine = warp_shuffle(0xFFFFFFFFu, a[me ^ 1], 5);
        a[me] = mine + 1;""",
    "a_block": """
        SHARED(i64, words, 32);
        words[thread_of_block()] = me;
        block_sync();
        a[me] = words[31 - thread_of_block()];
        block_sync();
        words[thread_of_block()] = 1;""",
    "by_one_lane_for_all": """
        a[me] = me;
        warp_sync(0xFFFFFFFFu);
        if (me == 0) store_release(b, 0, 1);
        if (me >= 32) {
            if (me == 32) while (load_acquire(b, 0) == 0) pause(1);
            warp_sync(0xFFFFFFFFu);
            b[me] = a[me - 32];
        }""",
    "atomics": """
        for (int k = 0; k < 5; k++) { atomic_add(a, k, me); atomic_max(a, 5, me);
            store_relaxed(a, 6, me); load_relaxed(a, 6); atomic_cas(a, 7, me, me + 1); }""",
    "one_value_by_all": "a[0] = 7; a[1] = 0;",
    "read_by_all": "b[me] = a[0] + a[1];",
    "each_its_own": "a[me] = me; a[me + 64] = a[me];",
}
RACES = {
    "stored_weakly": """
        if (me == 0) { a[0] = 5; store_relaxed(b, 0, 1); }
        if (me == 40) { while (load_acquire(b, 0) == 0) pause(1); a[1] = a[0]; }""",
    "loaded_weakly": """
        if (me == 0) { a[0] = 5; store_release(b, 0, 1); }
        if (me == 40) { while (load_relaxed(b, 0) == 0) pause(1); a[1] = a[0]; }""",
    "added_weakly": """
        a[me] = me;
        if (atomic_add(b, 0, 1) == 63) { i64 all = 0;
            for (int i = 0; i < 64; i++) all += a[i];
            b[1] = all; }""",
    "released_too_early": """
        if (me == 0) { store_release(b, 0, 1); a[0] = 5; }
        if (me == 40) { while (load_acquire(b, 0) == 0) pause(1); a[1] = a[0]; }""",
    "stored_over": """
        if (me == 0) { a[0] = 5; store_release(b, 0, 1); }
        if (me == 20) { while (load_relaxed(b, 0) == 0) pause(1); store_relaxed(b, 0, 2); }
        if (me == 40) { while (load_relaxed(b, 0) != 2) pause(1);
            load_acquire(b, 0); a[1] = a[0]; }""",
    "only_a_ballot": """
        a[me] = me;
        warp_ballot(0xFFFFFFFFu, true);
        b[me] = a[me ^ 1];""",
    "only_a_shuffle": """
        a[me] = me;
        warp_shuffle(0xFFFFFFFFu, 1, 0);
        b[me] = a[me ^ 1];""",
    "two_stores_and_a_ballot": """
        a[me] = me;
        warp_ballot(0xFFFFFFFFu, true);
        a[me ^ 1] = -me;""",
    "another_tile": """
        a[me] = me;
        sync(tile_here<8>());
        b[me] = a[me ^ 8];""",
    "another_block": """
        a[me] = me;
        block_sync();
        b[me] = a[me ^ 32];""",
    "read_before_it_is_written": """
        warp_sync(0xFFFFFFFFu);
        b[me] = a[me ^ 1];
        a[me] = me;""",
    "shared_of_a_block": """
        SHARED(i32, words, 32);
        words[thread_of_block()] = 1;
        a[me] = words[31 - thread_of_block()];""",
    "another_value_by_each": "a[0] = me;",
    "an_atomic_and_a_read": "if (me == 0) atomic_add(a, 0, 1); if (me == 40) b[0] = a[0];",
    "a_write_and_an_atomic": "if (me == 0) a[0] = 1; if (me == 40) b[0] = atomic_add(a, 0, 1);",
    "a_write_and_a_load": "if (me == 0) a[0] = 1; if (me == 40) b[0] = load_relaxed(a, 0);",
    "of_one_thread_too_many": """
        a[me] = me;
        if (me == 5) b[0] = 0;
        warp_sync(0xFFFFFFFFu);
        if (me == 40) a[5] = 9;""",
}
KERNELS = whole(
    '#include "tile.cuh"\n'
    + "".join(
        f"KERNEL({name})(ARRAY(i64) a, ARRAY(i64) b) {{\n"
        f"const i64 me = thread_of_grid(); {body} }}\n"
        for name, body in (ORDERED | RACES).items()
    )
)
SEEDS = range(6)


@pytest.fixture(scope="module")
def driver() -> HostDriver:
    return HostDriver(races=True)


@pytest.fixture(scope="module")
def kernels(driver: HostDriver) -> dict[str, Any]:
    return dict(driver.kernels(KERNELS, list(ORDERED | RACES), "races"))


def ran(driver: HostDriver, kernel: Any, seed: int, threads: int = 32) -> None:
    driver.seed = seed
    kernel.launch(2, threads, [driver.xp.zeros(128, dtype="int64") for _ in range(2)])


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered(driver: HostDriver, kernels: dict[str, Any], name: str) -> None:
    for seed in SEEDS:
        ran(driver, kernels[name], seed)


@pytest.mark.parametrize("name", RACES)
def test_races(driver: HostDriver, kernels: dict[str, Any], name: str) -> None:
    """Nearly whatever the turns are: what counts is what a thread can know of another."""
    found = 0
    for seed in SEEDS:
        try:
            ran(driver, kernels[name], seed)
        except HostFault as fault:
            assert "a race: nothing orders two accesses of" in str(fault)
            assert str(fault).count(f"{name} (line ") == 2
            found += 1
    assert found >= len(SEEDS) - 1


def test_a_race_is_told(driver: HostDriver, kernels: dict[str, Any]) -> None:
    with pytest.raises(HostFault) as raised:
        ran(driver, kernels["an_atomic_and_a_read"], 0)
    assert "(seed 0): a race: nothing orders two accesses of a[0]\n  block 1 thread 8 reads: " in (
        str(raised.value)
    )
    assert "\n  block 0 thread 0 changed it by an atomic: " in str(raised.value)
    with pytest.raises(HostFault, match="two accesses of an array of a block"):
        ran(driver, kernels["shared_of_a_block"], 0)


def test_only_where_it_is_asked_for(kernels: dict[str, Any]) -> None:
    driver = HostDriver()
    ran(driver, driver.kernels(KERNELS, ["only_a_ballot"], "t")["only_a_ballot"], 1)


def test_so_many_threads(driver: HostDriver, kernels: dict[str, Any]) -> None:
    with pytest.raises(HostFault, match="among at most 2048 threads"):
        kernels["one_value_by_all"].launch(
            3, 1024, [driver.xp.zeros(2, dtype="int64") for _ in range(2)]
        )


# ---------------------------------------------------------------------------- the queue's orders

ORDERS = [
    (found.start(), found[0], weak)
    for order, weak in (
        ("load_acquire", "load_relaxed"),
        ("store_release", "store_relaxed"),
        ("add_acquire_release", "atomic_add"),
    )
    for found in re.finditer(rf"(?<!DEVICE i64 )(?<!DEVICE void )\b{order}(?=\()", FIBERS)
    if found.start() > FIBERS.index("#endif")
]


def test_walks_that_share_have_no_races(driver: HostDriver) -> None:
    kernels = driver.kernels(FIBERS, WALKS, "walks")
    walk_all(driver, kernels, 4, range(40))


@pytest.mark.parametrize("at", range(len(ORDERS)))
def test_each_order_is_needed(driver: HostDriver, at: int) -> None:
    """Weakened to a relaxed one, it leaves a race."""
    start, order, weak = ORDERS[at]
    kernels = driver.kernels(
        FIBERS[:start] + weak + FIBERS[start + len(order) :], WALKS, "weak walks"
    )
    with pytest.raises(HostFault, match="a race: nothing orders"):
        walk_all(driver, kernels, 4, range(40))


def test_there_are_orders() -> None:
    assert {order for _, order, _ in ORDERS} >= {"load_acquire", "store_release"}
