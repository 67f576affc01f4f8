"""The harness that runs kernels without a GPU: what it promises, and that it notices a breach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdatalog.gpu_ops.sources import whole
from tests.cuda_host import HostDriver, HostFault, compiler, needs_compiler
from tests.cuda_host.driver import HostKernel, parameters

pytestmark = needs_compiler

SEEDS = [0, 1, 2, 3, 12, 13, 14, 15]
xp = HostDriver().xp

RIGHT = """
KERNEL(add_up)(ARRAY(const i32) values, ARRAY(i64) out, i64 count) {
    i64 mine = 0;
    for (i64 i = thread_of_grid(); i < count; i += threads_of_grid()) mine += values[i];
    const Tile<32> t = tile_here<32>();
    mine = sum(t, mine);
    if (t.rank == 0) atomic_add(out, 0, mine);
}
// Who comes when.
KERNEL(turns)(ARRAY(i64) counter, ARRAY(i64) order) {
    for (int k = 0; k < 4; k++) order[atomic_add(counter, 0, 1)] = thread_of_grid();
}
KERNEL(long_turns)(ARRAY(i64) counter, ARRAY(i64) order) {
    for (int k = 0; k < 60; k++) order[atomic_add(counter, 0, 1)] = thread_of_grid();
}
// Each block says that it is there, and waits for the next and the one before.
KERNEL(blocks_meet)(ARRAY(i64) here) {
    const int mine = block_of_grid(), blocks = blocks_of_grid();
    if (thread_of_block() == 0) {
        for (int round = 1; round <= 3; round++) {
            store_release(here, mine, round);
            while (load_acquire(here, (mine + 1) % blocks) < round) pause(20);
            while (load_acquire(here, (mine + blocks - 1) % blocks) < round) pause(20);
        }
    }
    block_sync();
    if (thread_of_block() == 1) atomic_add(here, blocks, 1);
}
KERNEL(lost)(ARRAY(i64) word) {
    for (int k = 0; k < 10; k++) store_relaxed(word, 0, load_relaxed(word, 0) + 1);
}
KERNEL(lost_plain)(ARRAY(i64) word) {
    for (int k = 0; k < 10; k++) {
        const i64 before = word[0];
        word[0] = before + 1;
    }
}
KERNEL(spins_plain)(ARRAY(i64) word) {
    if (thread_of_block() == 0) store_relaxed(word, 0, 1);
    while (load_relaxed(word, 0) == 0) {
    }
}
KERNEL(shared)(ARRAY(i32) out, ARRAY(i64) never_set) {
    SHARED(i32, ranks, 64);
    SHARED(u8, letters, 64);
    const int mine = thread_of_block();
    if (ranks[mine] == 1000 + mine) atomic_add(never_set, 0, 1);
    ranks[mine] = 1000 * block_of_grid() + mine;
    letters[mine] = (u8)mine;
    block_sync();
    out[thread_of_grid()] = ranks[63 - mine] + letters[mine];
    block_sync();
    ranks[mine] = 1000 + mine;
}
KERNEL(two_values)(ARRAY(double) out, i64 whole, double part) { out[0] = (double)whole + part; }
KERNEL(bytes)(ARRAY(const u8) flags, ARRAY(u8) out) {
    const i64 i = thread_of_grid();
    out[i] = (u8)(1 - flags[i]);
}
"""

# Each ends in a fault; `values` has 64 elements.
WRONG = {
    "past_the_end": ("values[thread_of_grid() + 1] = 1;", r"values\[64\]: outside, it has 64 el"),
    "before_it": ("values[thread_of_grid() - 1] = 1;", r"values\[-1\]: outside"),
    "outside_when_read": (
        "Array<const i32> read = values; values[0] = read[64];",
        r"values\[64\]: outside",
    ),
    "outside_of_slice": ("slice(values, 60, 4)[4] = 1;", r"values\[4\]: outside, it has 4 elem"),
    "slice_outside": ("slice(values, 61, 4)[0] = 1;", "slice of values from 61, 4 elements"),
    "slice_of_slice": ("slice(slice(values, 4, 8), 4, 5)[0] = 1;", "from 4, 5 elements: .* has 8"),
    "slice_before": ("slice(values, -1, 4)[0] = 1;", "slice of values from -1"),
    "outside_of_shared": (
        "SHARED(i32, few, 8); few[thread_of_block()] = 1;",
        r"few\[\d+\]: outside, it has 8 elements",
    ),
    "atomic_outside": ("atomic_add(values, 64, 1);", r"values\[64\]: outside"),
    "never_set": ("Array<i32> none; none[0] = 1;", "never set"),
    "too_much_shared": (
        "SHARED(i64, many, 4096); SHARED(i64, more, 4096); more[0] = many[0] = 1;",
        "more: a block has 49152 bytes of shared memory, 65536 are asked for",
    ),
    "shift": ("values[0] = (i32)((u64)1 << (values[0] * 64));", "shift by too many bits"),
    "shift_back": ("values[0] = (i32)(8u >> (values[0] * 32));", "shift by too many bits"),
    "sum_overflows": ("values[0] += 2147483647;", "a sum overflows"),
    "product_overflows": ("values[0] = (values[0] + 99999) * 99999;", "a product overflows"),
    "divides": ("values[0] /= (values[0] - 1);", "a division by zero"),
    "own_array": (
        "i32 own[4] = {0, 0, 0, 0}; own[values[0] + 3] = 1; values[0] = own[0];",
        "outside of a thread's own array",
    ),
    "null": ("i32* none = nullptr; *none = 1;", "thread .* ended with signal 11"),
    "far_outside": (
        "i32* far = &values[0] + ((i64)values[0] << 60); *far = 1;",
        "thread .* ended with signal",
    ),
    "badly_aligned": (
        "*(i32*)((char*)&values[0] + values[0]) = 1;",
        "a pointer that is badly aligned",
    ),
    "long_frame": (
        "i32 much[1 << 20]; for (int i = 0; i < 1 << 20; i++) much[i] = i; values[0] = much[7];",
        "used up its stack",
    ),
    "ballot_for_sync": (
        "if (t.rank == 3) warp_ballot(t.mask, true); else warp_sync(t.mask);",
        "meet at different places.*warp_ballot|meet at different places.*warp_sync",
    ),
    "other_type": (
        "if (t.rank == 3) from_rank(t, (i64)1, 0); else from_rank(t, (i32)1, 0);",
        "meet at different places",
    ),
    "other_line": ("if (t.rank == 3) sync(t); else sync(t);", "meet at different places"),
    "other_xor": ("warp_shuffle_xor(t.mask, 1, t.rank == 3 ? 2 : 1);", "lane 3 says 2|says 2"),
    "not_in_mask": ("warp_sync(2u);", "lane [0-9]+ is not in its own mask"),
    "from_outside": ("from_rank(tile_here<8>(), 1, 8);", r"lane \d+ asks lane \d+, which is not"),
    "from_nowhere": ("warp_shuffle(t.mask, 1, 32);", "asks lane 32, which is not"),
    "never_comes": ("if (t.rank != 3) sync(t);", "stuck: .*ended"),
    "ended_before": (
        "if (t.rank == 3) return; for (int i = 0; i < 300; i++) pause(1); sync(t);",
        "warp_sync: stuck: lane 3 is waited for, but it has ended",
    ),
    "ends_after": (
        "if (t.rank == 3) { for (int i = 0; i < 900; i++) pause(1); return; } sync(t);",
        "stuck: .* thread (3|35) has ended, but block 0 thread .* waits for it in warp_sync",
    ),
    "two_masks": (
        "if (t.rank < 16) sync(t); else sync(tile_here<16>()), sync(t);",
        "meet at|stuck",
    ),
    "crossed_masks": (
        "if (t.rank == 0) warp_sync(3u); if (t.rank == 1) warp_sync(7u);"
        " if (t.rank == 2) warp_sync(7u);",
        "stuck: lane . names lanes 0000000",
    ),
    "warp_and_block": (
        "if (t.rank == 3) block_sync(); else sync(t);",
        "stuck: no thread can go on",
    ),
    "block_twice": (
        "if (thread_of_block() < 32) block_sync(); else block_sync();",
        "threads of a block meet at different places",
    ),
    "block_without_one": (
        "if (thread_of_block() == 5) return; block_sync();",
        "stuck: threads of the block have ended|stuck: .* has ended, but .* waits for its block",
    ),
    "block_ended_before": (
        "if (thread_of_block() == 5) return; for (int i = 0; i < 300; i++) pause(1); block_sync();",
        "block_sync: stuck: threads of the block have ended",
    ),
    "block_ends_after": (
        "if (thread_of_block() == 5) { for (int i = 0; i < 900; i++) pause(1); return; }"
        " block_sync();",
        "stuck: block 0 thread 5 has ended, but block 0 thread .* waits for its block",
    ),
    "waits_for_nothing": ("while (atomic_add(values, 0, 0) == 1) pause(1);", "the kernel spins"),
    "runs_on": ("while (values[0] == 1) { }", "runs on and on"),
}
KERNELS = (
    '#include "tile.cuh"\n'
    + RIGHT
    + "".join(
        f"KERNEL({name})(ARRAY(i32) values) {{ const Tile<32> t = tile_here<32>(); {body} }}\n"
        for name, (body, _) in WRONG.items()
    )
)


@pytest.fixture(scope="module")
def kernels() -> dict[str, HostKernel]:
    names = [line.split("(")[1].split(")")[0] for line in KERNELS.splitlines() if "KERNEL(" in line]
    return HostDriver().kernels(whole(KERNELS), names, "tests")  # type: ignore[return-value]


def ran(kernel: HostKernel, seed: int, blocks: int, threads: int, *args: Any) -> HostDriver:
    driver = kernel.driver
    driver.seed = seed
    kernel.launch(blocks, threads, args)
    return driver


def zeros(length: int) -> Any:
    return xp.zeros(length, dtype=xp.int64)


# ----------------------------------------------------------------------------- what must work


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("blocks", "threads"), [(1, 32), (3, 64), (2, 1024), (40, 32)])
def test_a_sum(kernels: dict[str, HostKernel], seed: int, blocks: int, threads: int) -> None:
    values, out = xp.arange(1000, dtype=xp.int32), zeros(1)
    ran(kernels["add_up"], seed, blocks, threads, values, out, 1000)
    assert int(out[0]) == 499500


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_can_wait_for_each_other(kernels: dict[str, HostKernel], seed: int) -> None:
    here = zeros(8)
    ran(kernels["blocks_meet"], seed, 7, 64, here)
    assert here.get().tolist() == [3] * 7 + [7]


@pytest.mark.parametrize("seed", SEEDS)
def test_shared_arrays_are_of_a_block(kernels: dict[str, HostKernel], seed: int) -> None:
    out, kept = xp.zeros(3 * 64, dtype=xp.int32), zeros(1)
    for _ in range(2):
        ran(kernels["shared"], seed, 3, 64, out, kept)
    expected = [1000 * block + 63 for block in range(3) for _ in range(64)]
    assert out.get().tolist() == expected
    assert int(kept[0]) == 0  # nothing is left of an earlier launch


def test_what_was_never_set_is_not_zero() -> None:
    """Where g++ can do that."""
    if not compiler._knows(compiler._LITTER):
        pytest.skip("g++ is too old")
    source = "KERNEL(unset)(ARRAY(i64) out) { i64 never, own[2]; out[0] = never; out[1] = own[1]; }"
    kernel = HostDriver().kernels(source, ["unset"], "t")["unset"]
    out = zeros(2)
    kernel.launch(1, 1, [out])
    assert 0 not in out.tolist()


def test_values_are_passed(kernels: dict[str, HostKernel]) -> None:
    out = xp.zeros(1, dtype=xp.float64)
    ran(kernels["two_values"], 0, 1, 1, out, -3, 0.25)
    assert float(out[0]) == -2.75


def test_bytes_may_be_bools(kernels: dict[str, HostKernel]) -> None:
    flags = xp.asarray(np.array([True, False, True]))
    out = xp.zeros(3, dtype=xp.bool_)
    ran(kernels["bytes"], 0, 1, 3, flags, out)
    assert out.get().tolist() == [False, True, False]


def test_more_threads_than_stacks(kernels: dict[str, HostKernel]) -> None:
    out = zeros(1)
    for seed in (0, 5):
        ran(kernels["add_up"], seed, 500, 64, xp.ones(5, dtype=xp.int32), out, 5)
    assert int(out[0]) == 10


# ------------------------------------------------------------------------------------- turns


def turns(kernel: HostKernel, seed: int, yields: float = 0.25) -> list[int]:
    kernel.driver.yields = yields
    order = xp.full(4 * 128, -1, dtype=xp.int64)
    ran(kernel, seed, 2, 64, zeros(1), order)
    found: list[int] = order.get().tolist()
    assert sorted(found) == sorted(list(range(128)) * 4)
    return found


def test_seeds_change_the_turns_and_repeat(kernels: dict[str, HostKernel]) -> None:
    made = [turns(kernels["turns"], seed) for seed in SEEDS]
    assert made == [turns(kernels["turns"], seed) for seed in SEEDS]
    assert len({tuple(order) for order in made}) == len(SEEDS)
    assert made[0] == [thread for thread in range(128) for _ in range(4)]


def test_how_often_another_goes_on(kernels: dict[str, HostKernel]) -> None:
    switches = []
    kernels["turns"].driver.accesses = 0.0
    for share in (0.0, 0.1, 1.0):
        turns(kernels["turns"], 4, share)
        switches.append(kernels["turns"].driver.switches)
    kernels["turns"].driver.accesses = 0.02
    assert switches[0] == 128  # each starts
    assert 130 < switches[1] < 300
    assert switches[2] > 500


def test_each_launch_has_its_own_turns(kernels: dict[str, HostKernel]) -> None:
    driver = kernels["turns"].driver
    turns(kernels["turns"], 8)
    assert driver.seed == 9
    turns(kernels["turns"], 0)
    assert driver.seed == 0


def test_some_stand_still_for_long(kernels: dict[str, HostKernel]) -> None:
    """In three of four launches: a thread, a warp, a block."""

    def longest(seed: int, threads: int, group: int) -> int:
        """How many turns the others had while one group had none."""
        order = xp.zeros(2 * threads * 60, dtype=xp.int64)
        ran(kernels["long_turns"], seed, 2, threads, zeros(1), order)
        groups = order.get()[: threads * 80] // group  # near the end some have ended
        places = [np.flatnonzero(groups == one) for one in range(2 * threads // group)]
        return max(int(np.diff(place).max(initial=0)) for place in places)

    kernels["long_turns"].driver.yields = 1.0
    for style, threads, group in ((3, 64, 64), (2, 64, 32), (1, 4, 1)):
        usual = max(longest(seed, threads, group) for seed in range(4, 64, 4))
        stalled = max(longest(seed, threads, group) for seed in range(style, 64, 4))
        assert stalled > 1.5 * usual
    kernels["long_turns"].driver.yields = 0.25


@pytest.mark.parametrize("name", ["lost", "lost_plain"])
def test_updates_are_lost(kernels: dict[str, HostKernel], name: str) -> None:
    """Threads take turns between a load and the store of what was made of it."""
    found = []
    for seed in SEEDS:
        word = zeros(1)
        ran(kernels[name], seed, 2, 32, word)
        found.append(int(word[0]))
    assert found[0] == 640
    assert all(sum < 640 for sum in found[1:])


@pytest.mark.parametrize("seed", SEEDS)
def test_who_spins_lets_others(kernels: dict[str, HostKernel], seed: int) -> None:
    ran(kernels["spins_plain"], seed, 1, 32, zeros(1))


def test_a_clock(kernels: dict[str, HostKernel]) -> None:
    source = "KERNEL(times)(ARRAY(i64) out) { for (int i = 0; i < 8; i++) out[i] = nanoseconds(); }"
    driver = HostDriver()
    kernel = driver.kernels(source, ["times"], "a clock")["times"]
    for seed in (0, 3):
        driver.seed, driver.step = seed, 1000
        out = zeros(8)
        kernel.launch(1, 1, [out])
        steps = np.diff(out.get())
        assert (steps >= 0).all()
        assert 7000 - 1000 <= steps.sum() <= 7000 + 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kernel_is_asked_for_an_end(seed: int) -> None:
    source = """KERNEL(until)(ARRAY(i64) flags, ARRAY(i64) counts) {
        while (load_relaxed(flags, 1) == 0) counts[thread_of_grid()]++; }"""
    driver = HostDriver(seed)
    kernel = driver.kernels(source, ["until"], "t")["until"]
    driver.polls = 1000
    flags, counts, polls = zeros(2), zeros(64), []

    def poll() -> None:
        polls.append(int(counts.sum()))
        if len(polls) == 5:
            raise KeyboardInterrupt

    kernel.launch(2, 32, [flags, counts])
    assert not counts.get().any()
    with pytest.raises(KeyboardInterrupt):
        driver.wait(poll, flags, (1,), 7, driver.reading(()))
    assert flags.tolist() == [0, 7]
    assert sorted(set(polls)) == polls
    assert int(counts.sum()) >= polls[-1] > 3000
    kernel.launch(2, 32, [flags, counts])  # it ends at once, and so does what is not waited for
    driver.synchronize()
    assert driver.launches == 2
    driver.wait(lambda: polls.append(0), flags, (1,), 7, driver.reading(()))
    assert polls[-1] == 0


# ------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.parametrize("seed", [0, 1, 6])
def test_faults(kernels: dict[str, HostKernel], name: str, seed: int) -> None:
    kernel = kernels[name]
    kernel.driver.patience, kernel.driver.seconds = 20_000, 0.2
    try:
        with pytest.raises(HostFault, match=f"kernel {name} .*{WRONG[name][1]}") as raised:
            ran(kernel, seed, 1, 64, xp.ones(64, dtype=xp.int32))
    finally:
        kernel.driver.patience, kernel.driver.seconds = 20_000_000, 60.0
    if name not in ("long_frame", "runs_on"):
        assert f"{name} (line " in str(raised.value)
    test_a_sum(kernels, seed, 3, 64)  # what comes next is not touched by it


@pytest.mark.parametrize("threads", [16, 48])
def test_a_warp_that_is_not_whole(kernels: dict[str, HostKernel], threads: int) -> None:
    values = xp.zeros(1, dtype=xp.int32)
    for seed in SEEDS:
        with pytest.raises(HostFault, match="are named, but the warp has 16"):
            ran(kernels["add_up"], seed, 2, threads, values, zeros(1), 1)


def test_where_it_was(kernels: dict[str, HostKernel]) -> None:
    text = whole(KERNELS)
    line = 1 + text[: text.index("KERNEL(other_line)")].count("\n")
    with pytest.raises(HostFault) as raised:
        ran(kernels["other_line"], 0, 1, 32, xp.zeros(64, dtype=xp.int32))
    assert f"sync (line {1 + text[: text.index('warp_sync(t.mask);')].count(chr(10))})" in str(
        raised.value
    )
    assert str(raised.value).count(f"other_line (line {line})") == 2
    assert "host.hpp" not in str(raised.value)


# ----------------------------------------------------------------------------------- launching


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (lambda: [zeros(2), 1, 0.5], r"argument 1 \(out: f8\) is an array of int64"),
        (lambda: [np.zeros(2), 1, 0.5], "argument 1 .*ndarray"),
        (lambda: [xp.zeros(4)[::2], 1, 0.5], "not contiguous"),
        (lambda: [xp.zeros(2), 1.5, 0.5], r"argument 2 \(whole: i64\) is 1.5"),
        (lambda: [xp.zeros(2), True, 0.5], "argument 2"),
        (lambda: [xp.zeros(2), 2**63, 0.5], "argument 2"),
        (lambda: [xp.zeros(2), 1, 2], r"argument 3 \(part: double\) is 2"),
        (lambda: [xp.zeros(2), zeros(1)[0], 0.5], "argument 2"),
        (lambda: [xp.zeros(2), 1], "2 arguments, it takes 3"),
    ],
)
def test_wrong_arguments(kernels: dict[str, HostKernel], args: Any, said: str) -> None:
    with pytest.raises(HostFault, match=said):
        ran(kernels["two_values"], 0, 1, 1, *args())


@pytest.mark.parametrize(("blocks", "threads"), [(0, 32), (1, 0), (1, 1025), (1 << 20, 1024)])
def test_wrong_sizes(kernels: dict[str, HostKernel], blocks: int, threads: int) -> None:
    with pytest.raises(HostFault):
        ran(kernels["lost"], 0, blocks, threads, zeros(1))


def test_arrays_that_overlap(kernels: dict[str, HostKernel]) -> None:
    word = zeros(4)
    with pytest.raises(HostFault, match="overlaps"):
        ran(kernels["turns"], 0, 1, 1, word, word[2:])
    ran(kernels["turns"], 0, 1, 1, word[:1], xp.concatenate((word, word)))


def test_sources_that_are_wrong() -> None:
    driver = HostDriver()
    with pytest.raises(HostFault, match=r"(?s)the rule r: .*kernel:1:"):
        driver.kernels("KERNEL(a)(ARRAY(i32) x) { y[0] = 1; }", ["a"], "the rule r")
    with pytest.raises(HostFault, match="read-only"):
        driver.kernels("KERNEL(a)(ARRAY(const i32) x) { x[0] = 1; }", ["a"], "t")
    with pytest.raises(HostFault, match="no kernel b"):
        driver.kernels("KERNEL(a)(ARRAY(i32) x) { x[0] = 1; }", ["b"], "t")
    with pytest.raises(HostFault, match="GdParameter"):
        driver.kernels("KERNEL(a)(ARRAY(i32) x, i32 n) { x[0] = n; }", ["a"], "t")


def test_parameters_are_told() -> None:
    text = "KERNEL(a)() {} KERNEL( b )(\n ARRAY(const i32) x,\n i64 n, ARRAY(Pair(a, b)) y) {"
    assert parameters(text, "a") == []
    assert parameters(text, "b") == ["x", "n", "y"]


def test_what_a_driver_says() -> None:
    driver = HostDriver(blocks=5)
    kernel = driver.kernels("KERNEL(a)(ARRAY(i32) x) { x[0] = 1; }", ["a"], "t")["a"]
    assert kernel.resident(64) == 5
    assert kernel.resources.registers == 0
    driver.memory = 12345
    assert driver.free_memory() == 12345
    driver.synchronize()
    kernel.launch(1, 1, [xp.zeros(1, dtype=xp.int32)])
    assert driver.launches == 1
