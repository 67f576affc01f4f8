"""The hash set and the marks that threads share: each key comes for the first time exactly once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from entries import Entries, compiled

from gdatalog.codegen.helpers import atomics as elements
from gdatalog.codegen.helpers import key_sets
from gdatalog.engine.fixpoint.row_hash_set import Hashed
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.table import Array

add_keys = Entries(key_sets).add_keys


def together(function: Any, arguments: list[tuple[Any, ...]]) -> None:
    threads = [threading.Thread(target=function, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_add_the_same_keys() -> None:
    """In the same order, so that they meet at the same slots; which are nearly all taken."""
    bits, count = 16, 60_000
    keys = np.random.default_rng(5).permutation(count).astype(np.int64) * 7
    slots = np.zeros(1 << bits, dtype=np.int64)
    fresh = np.zeros((4, count), dtype=np.bool_)
    together(add_keys, [(slots, 64 - bits, keys, 0, count, mine) for mine in fresh])
    assert (fresh.sum(axis=0) == 1).all()
    assert np.array_equal(np.sort(slots[slots > 0]) - 1, np.sort(keys))


@compiled
def mark_all(marks: Array, places: Array, fresh: Array) -> None:
    for i in range(len(places)):
        fresh[i] = elements.mark_first(marks, places[i])


def test_threads_that_set_the_same_marks() -> None:
    count = 300_000
    places = np.random.default_rng(6).permutation(count).astype(np.int64)
    marks = np.zeros((count + 63) // 64, dtype=np.int64)
    fresh = np.zeros((4, count), dtype=np.bool_)
    together(mark_all, [(marks, places, mine) for mine in fresh])
    assert (fresh.sum(axis=0) == 1).all()
    assert sum(int(word).bit_count() for word in marks.view(np.uint64)) == count


@pytest.mark.parametrize("step", [1, 64, 1 << 20, (1 << 40) + 1])
def test_keys_at_equal_steps_find_slots_soon(step: int) -> None:
    """Rows are numbered, so keys that come are often an arithmetic series."""
    bits, count = 12, 2600
    keys = np.arange(count, dtype=np.int64) * step
    slots = np.zeros(1 << bits, dtype=np.int64)
    add_keys(slots, 64 - bits, keys, 0, count, np.zeros(count, dtype=np.bool_))
    taken = np.flatnonzero(slots)
    first = (keys.view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)) >> np.uint64(64 - bits)
    where = {int(slots[place]) - 1: int(place) for place in taken}
    far = [(where[int(k)] - int(f)) % (1 << bits) for k, f in zip(keys, first, strict=True)]
    assert sum(far) / count < 8


def test_the_ends_of_the_range() -> None:
    slots = np.zeros(16, dtype=np.int64)
    keys = np.array([0, (1 << 62) - 1, (1 << 63) - 2, 0, (1 << 63) - 2], dtype=np.int64)
    fresh = np.zeros(5, dtype=np.bool_)
    assert add_keys(slots, 60, keys, 0, 5, fresh) == 3
    assert fresh.tolist() == [True, True, True, False, False]


def test_a_set_that_grows_keeps_its_keys() -> None:
    known = Hashed(KeySpace((0, -5), (1 << 20, 1 << 20)))
    rng = np.random.default_rng(7)
    seen = set[tuple[int, int]]()
    for size in (10, 2000, 1, 300_000, 5):
        rows = (rng.integers(0, 1 << 20, size), rng.integers(-5, 1000, size))
        rows = tuple(np.unique(np.stack(rows, 1), axis=0).T.copy())
        fresh = known.news(rows)
        pairs = list(zip(*(column.tolist() for column in rows), strict=True))
        assert fresh.tolist() == [pair not in seen for pair in pairs]
        seen.update(pairs)
        assert known.count == len(seen)
        assert known.room >= 0


def test_all_rows_come_back_the_first_of_the_space_too() -> None:
    rows = Hashed(KeySpace((0,), (9,)))
    assert rows.news((np.array([0, 7], dtype=np.int32),)).all()
    assert sorted(rows.rows()[0].tolist()) == [0, 7]
