"""Tasks on fibers: mutations of the kernels that take and share them are noticed."""

from __future__ import annotations

from typing import Any

import pytest

from gdatalog.gpu_ops.control_words import CONTROL_WORDS, Reason, Word
from tests.cuda_host import HostDriver, HostFault, needs_compiler
from tests.cuda_queue.walks import FIBERS, KERNELS, Wrong, lost_by, walk_all

pytestmark = needs_compiler


@pytest.fixture
def driver() -> HostDriver:
    driver = HostDriver()
    driver.patience = 1_000_000
    return driver


@pytest.fixture
def kernels(driver: HostDriver) -> dict[str, Any]:
    return driver.kernels(FIBERS, KERNELS, "walks")


def mutants(driver: HostDriver, found: str, instead: str) -> dict[str, Any]:
    assert FIBERS.count(found) == 1, found
    return driver.kernels(FIBERS.replace(found, instead), KERNELS, "mutated walks")


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_every_entry_is_done_once_often(driver: HostDriver, kernels: Any, lanes: int) -> None:
    walk_all(driver, kernels, lanes, range(200, 600))


# ------------------------------------------------------------------------------------- mutations


def test_a_ticket_that_is_not_taken_at_once(driver: HostDriver) -> None:
    weak = "load_relaxed(control, HEAD); store_relaxed(control, HEAD, ticket + 1);"
    mutated = mutants(driver, "atomic_add(control, HEAD, (i64)1);", weak)
    with pytest.raises((Wrong, HostFault)):
        walk_all(driver, mutated, 4, range(200))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (
            "ticket = atomic_add(control, TAIL, got);",
            "{ ticket = load_relaxed(control, TAIL); store_relaxed(control, TAIL, ticket + got); }",
        ),
        (
            "next = atomic_add(control, POOL, (i64)1);",
            "{ next = load_relaxed(control, POOL); store_relaxed(control, POOL, next + 1); }",
        ),
        (
            "const i64 start = atomic_add(control, NEXT, all.parts * grain) + first;",
            "const i64 start = load_relaxed(control, NEXT); "
            "store_relaxed(control, NEXT, start + grain);",
        ),
        ("while (!queue_put(ring, control, capacity, task)) pause(SHORTEST_PAUSE);", "{}"),
        ("while (load_relaxed(ring, slot) != lap + 1) pause(SHORTEST_PAUSE);", ""),
        ("while (load_relaxed(ring, slot) != lap) pause(SHORTEST_PAUSE);", ""),
        ("capacity - working_tiles<N>(capacity)", "capacity"),
        ("block = previous[block]", "block = pool.kept_block"),
    ],
    ids=[
        "put",
        "pool",
        "next",
        "nothing back",
        "not written yet",
        "not read yet",
        "all shared",
        "one block",
    ],
)
def test_weaker_kernels_are_noticed(driver: HostDriver, found: str, instead: str) -> None:
    mutated = mutants(driver, found, instead)
    driver.patience = 100_000
    with pytest.raises((Wrong, HostFault)):
        for lanes in (1, 4):
            walk_all(driver, mutated, lanes, range(200))


def test_the_queue_of_t_dfs_loses_a_task(driver: HostDriver, kernels: Any) -> None:
    driver.patience = 100_000
    assert lost_by(driver, kernels, True, range(1, 400)) > 0
    assert lost_by(driver, kernels, False, range(1, 400)) == 0


# --------------------------------------------------------------------------------------- answers


def test_nothing_is_taken_when_the_host_says_stop(driver: HostDriver, kernels: Any) -> None:
    xp = driver.xp
    control = xp.zeros(CONTROL_WORDS, dtype=xp.int64)
    control[int(Word.STOP)] = int(Reason.STOPPED)
    arrays = [control, xp.zeros(64, dtype=xp.int64), xp.ones(9, dtype=xp.int64)]
    arrays += [xp.zeros(64, dtype=xp.int64) for _ in range(2)]
    arrays += [xp.zeros(2, dtype=xp.int32) for _ in range(2)]
    kernels["walk"].launch(2, 64, [*arrays, 4, 8, 9, 1, 2, 32, 2, 0, 0, 0, 1])
    found = {word: int(control[int(word)]) for word in Word}
    assert found == {**dict.fromkeys(Word, 0), Word.STOP: Reason.STOPPED}


@pytest.mark.parametrize("seed", range(8))
def test_the_greatest_reason_wins(driver: HostDriver, kernels: Any, seed: int) -> None:
    xp = driver.xp
    driver.seed = seed
    control, seen = xp.zeros(CONTROL_WORDS, dtype=xp.int64), xp.zeros(10, dtype=xp.int64)
    kernels["reasons"].launch(1, 5, [control, seen])
    assert int(control[int(Word.STATUS)]) == Reason.ENOUGH == int(control[int(Word.STOP)])
    after = [int(seen[2 * k + 1]) for k in range(5)]
    assert after[0] in (1, 3)  # FULL alone leaves tasks running
    assert after[1:] == [3] * 4


@pytest.mark.parametrize(
    ("limit", "words", "answer"),
    [
        (0, {}, 777),  # always
        (1 << 40, {}, 0),  # no time at all has gone
        (2_000_000, {}, 0),  # nobody waits
        (2_000_000, {Word.IDLE: 1}, 20),  # and then it has just been asked
        (100_000_000, {Word.IDLE: 1}, 0),
        (2_000_000, {Word.IDLE: 9}, 70),
        (2_000_000, {Word.IDLE: 5, Word.TAIL: 2}, 40),  # there are tasks for who waits
        (2_000_000, {Word.IDLE: 2, Word.TAIL: 2}, 0),
        (2_000_000, {Word.STOP: Reason.FULL}, 70),
        (1 << 40, {Word.IDLE: 1}, 0),
    ],
)
def test_who_is_late(
    driver: HostDriver, kernels: Any, limit: int, words: dict[Word, int], answer: int
) -> None:
    xp = driver.xp
    control, answers = xp.zeros(CONTROL_WORDS, dtype=xp.int64), xp.full(4, -1, dtype=xp.int64)
    for word, value in words.items():
        control[int(word)] = int(value)
    driver.seed, driver.step = 0, 4_000
    kernels["lateness"].launch(1, 4, [control, answers, limit])
    assert [int(each) for each in answers] == [answer] * 4
