"""Compiled searches and intersections against plain Python."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entries import Entries
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.codegen.helpers import list_merges, marks, tallies
from gdatalog.codegen.helpers import lists as parts
from tests.cases import cases

lists = Entries(parts, list_merges, marks, tallies)
Array = np.ndarray[Any, Any]
Types = tuple[type[Any], type[Any]]

WIDTHS = [np.int32, np.int64]
PAIRS = [(np.int32, np.int32), (np.int64, np.int64), (np.int32, np.int64)]


def ends(width: type[Any]) -> tuple[int, int]:
    return int(np.iinfo(width).min), int(np.iinfo(width).max)


def keys(width: type[Any]) -> st.SearchStrategy[int]:
    low, high = ends(width)
    return st.one_of(
        st.integers(-40, 40),
        st.integers(low, high),
        st.sampled_from([low, low + 1, high - 1, high]),
    )


def drawn(data: st.DataObject, width: type[Any], most: int = 300) -> tuple[Array, int, int]:
    """An array, and a range of it that is one sorted list."""
    span = data.draw(st.sampled_from([5, 60, 5000]))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    near = random.integers(-span, span, size=data.draw(st.integers(0, most)))
    far = data.draw(st.lists(keys(width), max_size=3))
    values = np.unique(np.append(near, np.array(far, dtype=np.int64)))
    before = data.draw(st.lists(keys(width), max_size=2))
    after = data.draw(st.lists(keys(width), max_size=2))
    array = np.array([*before, *values.tolist(), *after], dtype=width)
    return array, len(before), len(before) + len(values)


def the_list(part: tuple[Array, int, int]) -> list[int]:
    array, lo, hi = part
    return [int(value) for value in array[lo:hi]]


# ---------------------------------------------------------------------------------- searches


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data())
def test_searches(width: type[Any], data: st.DataObject) -> None:
    array, lo, hi = part = drawn(data, width)
    values = the_list(part)
    key = data.draw(st.one_of(keys(np.int64), st.sampled_from(values or [0])))
    at = lo + bisect_left(values, key)
    assert lists.lower(array, lo, hi, key) == at
    assert lists.seek(array, lo, hi, key) == at
    assert lists.upper(array, lo, hi, key) == lo + bisect_right(values, key)
    assert lists.find(array, lo, hi, key) == (at if key in values else -1)
    assert lists.has(array, lo, hi, key) == (key in values)


def test_seek_far() -> None:
    array = np.arange(0, 200_000, 2, dtype=np.int64)
    for step in (1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4096, 99_989):
        for lo in (0, 10):
            assert lists.seek(array, lo, len(array), 2 * (lo + step)) == lo + step
            assert lists.seek(array, lo, len(array), 2 * (lo + step) - 1) == lo + step
            assert lists.seek(array, lo, lo + step, 2 * (lo + step)) == lo + step


@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data())
def test_roots(width: type[Any], data: st.DataObject) -> None:
    low, high = ends(width)
    base = data.draw(st.sampled_from([low, -7, 0, high - 50]))
    values = sorted(base + k for k in data.draw(st.sets(st.integers(0, 50), min_size=1)))
    array = np.array(values, dtype=width)
    index = np.full(values[-1] - values[0] + 1, -1, dtype=np.int32)
    index[array.astype(np.int64) - values[0]] = np.arange(len(values))
    none = np.empty(0, dtype=np.int32)
    asked = data.draw(st.lists(keys(np.int64))) + list(range(max(base - 2, low), base))
    for key in values + asked:
        wanted = values.index(key) if key in values else -1
        assert lists.find_root(array, values[0], index, key) == wanted
        assert lists.find_indexed(values[0], index, key) == wanted
        assert lists.find_root(array, 0, none, key) == wanted


def test_a_root_of_nothing() -> None:
    nothing = np.empty(0, dtype=np.int32)
    assert lists.find_root(nothing, 0, nothing, 0) == -1


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1))
def test_parents(lengths: list[int]) -> None:
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    parents = np.repeat(np.arange(len(lengths)), lengths)
    for position, parent in enumerate(parents):
        assert lists.parent_of(offsets, position) == parent


# ------------------------------------------------------------------------------ intersections

WRITE: list[Callable[..., int]] = [lists.intersect, lists.merge, lists.leapfrog]


def meet(write: Callable[..., int], count: Callable[..., int], a: Any, b: Any) -> None:
    wanted = sorted(set(the_list(a)) & set(the_list(b)))
    assert count(*a, *b) == len(wanted)
    out = np.zeros(min(a[2] - a[1], b[2] - b[1]), dtype=np.int64)
    assert write(*a, *b, out) == len(wanted)
    assert out[: len(wanted)].tolist() == wanted


# One pair of widths for the forced forms: `intersect` is made of them, and takes all.
CASES = [(lists.intersect, lists.count_common, types) for types in PAIRS]
CASES += [
    (lists.merge, lists.count_merge, PAIRS[1]),
    (lists.leapfrog, lists.count_leapfrog, PAIRS[1]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("write", "count", "types"), CASES)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data())
def test_intersections(
    write: Callable[..., int], count: Callable[..., int], types: Types, data: st.DataObject
) -> None:
    short, long = drawn(data, types[0], most=12), drawn(data, types[1])
    meet(write, count, short, long)
    if types[0] == types[1]:
        meet(write, count, long, short)


@pytest.mark.parametrize("write", WRITE)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data())
def test_a_buffer_is_refined_in_place(write: Callable[..., int], data: st.DataObject) -> None:
    most = data.draw(st.sampled_from([(300, 300), (10, 300), (300, 10)]))
    a = np.array(the_list(drawn(data, np.int64, most[0])), dtype=np.int64)
    other, lo, hi = part = drawn(data, np.int64, most[1])
    wanted = sorted(set(a.tolist()) & set(the_list(part)))
    n = write(a, 0, len(a), other, lo, hi, a)
    assert a[:n].tolist() == wanted


def test_extremes_meet() -> None:
    low, high = ends(np.int64)
    array = np.array([low, 0, high], dtype=np.int64)
    for write in WRITE:
        out = np.zeros(3, dtype=np.int64)
        assert write(array, 0, 3, array, 0, 3, out) == 3
        assert out.tolist() == [low, 0, high]


# -------------------------------------------------------------------------------------- marks


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data())
def test_marks(width: type[Any], data: st.DataObject) -> None:
    low, high = ends(width)
    base = data.draw(st.sampled_from([low, -20, 0, high - 63]))
    marked = sorted(base + k for k in data.draw(st.sets(st.integers(0, 63), max_size=20)))
    near = st.integers(max(base - 70, low), min(base + 130, high))
    others = data.draw(st.sets(st.one_of(near, near, near, keys(width)), max_size=80))
    a, b = np.array(marked, dtype=width), np.array(sorted(others), dtype=width)
    marks = np.zeros(64, dtype=np.uint8)
    lists.mark(a, 0, len(a), marks, base)
    assert np.flatnonzero(marks).tolist() == [value - base for value in marked]
    wanted = sorted(set(marked) & others)
    out = np.zeros(max(len(a), len(b)), dtype=np.int64)
    assert lists.count_marked(b, 0, len(b), marks, base) == len(wanted)
    assert lists.keep_marked(b, 0, len(b), marks, base, out) == len(wanted)
    assert out[: len(wanted)].tolist() == wanted
    out[:] = 0
    assert lists.intersect_marked(a, 0, len(a), b, 0, len(b), marks, base, out) == len(wanted)
    assert out[: len(wanted)].tolist() == wanted
    assert lists.count_intersect_marked(a, 0, len(a), b, 0, len(b), marks, base) == len(wanted)
    weights = np.arange(1, len(b) + 1)
    sum_of = int(weights[np.isin(b, a)].sum())
    assert lists.weigh_marked(b, 0, len(b), marks, base, weights) == sum_of
    assert lists.weigh_common(a, 0, len(a), b, 0, len(b), weights) == sum_of
    lists.unmark(a, 0, len(a), marks, base)
    assert not marks.any()


def test_what_is_marked_is_kept_in_place() -> None:
    buffer = np.array([-9, 0, 3, 4, 8, 90], dtype=np.int64)
    marks = np.zeros(10, dtype=np.uint8)
    marks[[3, 8]] = 1
    assert lists.keep_marked(buffer, 0, 6, marks, 0, buffer) == 2
    assert buffer[:2].tolist() == [3, 8]
