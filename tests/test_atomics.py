"""Atomic operations, and the counter that threads share."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from entries import Entries, compiled

from gdatalog.codegen import native
from gdatalog.codegen.helpers import atomics as elements
from gdatalog.codegen.loop_language import LoopError, part

Array = np.ndarray[Any, Any]

take = Entries(elements).take


@compiled
def one_of_each(array: Array) -> tuple[int, int, int, int]:
    elements.store(array, 1, 7)
    old = elements.add(array, 1, 5)
    failed = elements.compare_swap(array, 1, 7, 99)
    swapped = elements.compare_swap(array, 1, 12, -3)
    return old, failed, swapped, elements.load(array, 1)


def test_operations() -> None:
    array = np.array([100, 0, 200], dtype=np.int64)
    assert one_of_each(array) == (7, 12, 12, -3)
    assert array.tolist() == [100, -3, 200]


@part
def first(array: Array) -> int:
    return elements.load(array, 0)


def test_only_on_contiguous_arrays_of_int64() -> None:
    with pytest.raises(LoopError, match="load\\(\\) of i32"):
        native.of(first, "i32[]")
    with pytest.raises(TypeError):
        native.of(first, "i64[]")(np.zeros(4, dtype=np.int64)[::2])


def together(function: Any, arguments: list[tuple[Any, ...]]) -> None:
    threads = [threading.Thread(target=function, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@compiled
def add_often(array: Array, times: int) -> None:
    for _ in range(times):
        elements.add(array, 0, 1)


def test_no_addition_is_lost() -> None:
    array = np.zeros(1, dtype=np.int64)
    together(add_often, [(array, 200_000)] * 4)
    assert array[0] == 800_000


def test_no_addition_of_pythons_own_definition_is_lost(request: pytest.FixtureRequest) -> None:
    """Tests have Python run loops, on several threads too."""
    interval = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-6)
    array = np.zeros(4, dtype=np.int64)

    def change(times: int) -> None:
        for _ in range(times):
            elements.add(array, 0, 1)
            while (seen := int(array[1])) != elements.compare_swap(array, 1, seen, seen + 1):
                pass

    together(change, [(5_000,)] * 4)
    assert array[:2].tolist() == [20_000, 20_000]


@compiled
def work(control: Array, threads: int, grain: int, done: Array) -> None:
    while True:
        start, stop = elements.take(control, threads, len(done), grain)
        if start >= stop:
            return
        for unit in range(start, stop):
            done[unit] += 1


@pytest.mark.parametrize(("total", "grain"), [(0, 1), (1, 1), (7, 100), (300_000, 1), (9_999, 64)])
def test_every_unit_is_taken_once(total: int, grain: int) -> None:
    done = np.zeros(total, dtype=np.int64)
    together(work, [(np.zeros(3, dtype=np.int64), 4, grain, done)] * 1)
    assert (done == 1).all()
    control = np.zeros(3, dtype=np.int64)
    together(work, [(control, 4, grain, done)] * 4)
    assert (done == 2).all()
    assert control[0] == total


def test_intervals_shrink_down_to_the_grain() -> None:
    control = np.zeros(3, dtype=np.int64)
    sizes = []
    while True:
        start, stop = take(control, 2, 10_000, 10)
        if start >= stop:
            break
        assert start == sum(sizes)
        sizes.append(stop - start)
    assert sum(sizes) == 10_000
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 10_000 // 128  # a 64th of a thread's even share
    assert set(sizes[-10:-1]) == {10}


@compiled
def spin(control: Array) -> int:
    turns = 0
    while not elements.stopped(control):
        turns += 1
        elements.store(control, 2, 1)
    return turns


def test_the_flag_is_seen_in_a_hot_loop() -> None:
    control = np.zeros(3, dtype=np.int64)
    control[1] = 1
    assert spin(control) == 0  # compiled
    control[1:] = 0
    thread = threading.Thread(target=spin, args=(control,), daemon=True)
    thread.start()
    while control[2] == 0:
        time.sleep(0.001)
    control[1] = 1
    thread.join(20)
    assert not thread.is_alive()


def test_one_thread_takes_an_eighth_at_a_time() -> None:
    control = np.zeros(16, dtype=np.int64)
    taken = [take(control, 1, 803, 1) for _ in range(10)]
    assert taken == [(at, min(at + 100, 803)) for at in range(0, 803, 100)] + [(803, 803)]
