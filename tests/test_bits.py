"""Rows of bits against plain Python sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entries import Entries, compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.codegen.helpers import bit_rows, recoding
from gdatalog.codegen.helpers import bits as parts
from tests.cases import cases

bits = Entries(parts, bit_rows, recoding)
Array = np.ndarray[Any, Any]
Sets = dict[int, list[int]]


def row(members: set[int], words: int) -> Array:
    found = np.zeros(words, dtype=np.uint64)
    for k in members:
        found[k // 64] |= np.uint64(1 << (k % 64))
    return found


def members(rows: Array, start: int, words: int) -> set[int]:
    text = rows[start : start + words]
    return {64 * w + k for w in range(words) for k in range(64) if int(text[w]) >> k & 1}


# --------------------------------------------------------------------------------------- words


@compiled
def of_word(word: Any) -> tuple[int, int]:
    return parts.popcount(word), parts.trailing_zeros(word)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_words(word: int) -> None:
    zeros = (word & -word).bit_length() - 1 if word else 64
    assert of_word(np.uint64(word)) == (word.bit_count(), zeros)


# ---------------------------------------------------------------------------------------- rows

SIZES = st.sampled_from([1, 5, 63, 64, 65, 128, 129, 640, 700])


@settings(max_examples=cases(100), deadline=None)
@given(st.data())
def test_rows(data: st.DataObject) -> None:
    n = data.draw(SIZES)
    words = (n + 63) // 64
    some = st.sets(st.integers(0, n - 1))
    one, other = data.draw(some), data.draw(some)
    rows = np.concatenate([row(one, words), row(other, words)])
    out = np.full(words + 2, 2**64 - 1, dtype=np.uint64)
    assert bits.count_row(rows, words, words) == len(other)
    assert bits.count_and(rows, 0, rows, words, words) == len(one & other)
    bits.and_rows(out, 1, rows, 0, rows, words, words)
    assert members(out, 1, words) == one & other
    bits.and_rows(rows, 0, rows, 0, rows, words, words)
    assert members(rows, 0, words) == one & other
    bits.copy_row(out, 1, rows, words, words)
    assert members(out, 1, words) == other

    k = data.draw(st.sampled_from([-1, 64 * words - 1, 64 * words, *range(n)]))
    bits.above(out, 1, k, words)
    assert members(out, 1, words) == {at for at in other if at > k}
    bits.copy_row(out, 1, rows, words, words)
    bits.below(out, 1, k, words)
    assert members(out, 1, words) == {at for at in other if at < k}
    bits.copy_row(out, 1, rows, words, words)
    if 0 <= k < n:
        assert bits.has_bit(out, 1, k) == (k in other)
    bits.fill_ones(out, 1, n)
    assert members(out, 1, words) == set(range(n))
    assert out[0] == out[-1] == 2**64 - 1  # what lies beside a row stays


# ------------------------------------------------------------------------------------ recoding


def trie(children: Sets, width: type[Any]) -> tuple[Array, Array, Array]:
    roots = sorted(children)
    below = [child for root in roots for child in sorted(children[root])]
    offsets = np.cumsum([0, *(len(children[root]) for root in roots)])
    return np.array(roots, dtype=width), np.array(below, dtype=width), offsets.astype(np.int64)


def recoded(values: list[int], children: Sets, width: type[Any], dense: bool, side: int) -> Array:
    """The rows of a list whose domain is from its first value to its last."""
    base = min(values)
    array = np.array([9, *values, 9], dtype=width)  # the list is a range within
    places = np.zeros(max(values) - base + 1, dtype=np.uint8)
    roots, below, offsets = trie(children, width)
    low, index = 0, np.empty(0, dtype=np.int32)
    if dense and len(roots):
        low = int(roots[0])
        index = np.full(int(roots[-1]) - low + 1, -1, dtype=np.int32)
        index[roots.astype(np.int64) - low] = np.arange(len(roots))
    words = (len(values) + 63) // 64
    rows = np.full(len(values) * words + 1, 2**64 - 1, dtype=np.uint64)
    end = 1 + len(values)
    bits.place(array, 1, end, places, base)
    bits.recode_rows(array, 1, end, places, base, roots, low, index, below, offsets, rows, side)
    bits.unplace(array, 1, end, places, base)
    assert not places.any()
    assert rows[-1] == 2**64 - 1
    return rows


def check(values: list[int], children: Sets, width: type[Any], dense: bool, side: int) -> None:
    rows = recoded(values, children, width, dense, side)
    words = (len(values) + 63) // 64
    for j, value in enumerate(values):
        wanted = {
            k
            for k, other in enumerate(values)
            if other in children.get(value, ()) and (k - j) * side >= 0 and (k != j or side == 0)
        }
        assert members(rows, j * words, words) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("width", [np.int32, np.int64])
@settings(max_examples=cases(40), deadline=None)
@given(data=st.data())
def test_recoding(width: type[Any], data: st.DataObject) -> None:
    info = np.iinfo(width)
    base = data.draw(st.sampled_from([int(info.min), -100, 0, int(info.max) - 400]))
    near = st.integers(base, base + 400)
    values = sorted(data.draw(st.sets(near, min_size=1, max_size=200)))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    share = data.draw(st.sampled_from([0.0, 0.1, 0.9]))
    children: Sets = {}
    for vertex in range(base, base + 401):
        if random.random() < 0.8:
            picked = np.flatnonzero(random.random(401) < share)
            children[vertex] = [base + int(k) for k in picked]
    far = [int(info.min), 0, int(info.max)]
    for vertex in values[::3]:
        children[vertex] = sorted({*children.get(vertex, ()), *far})
    check(values, children, width, data.draw(st.booleans()), data.draw(st.sampled_from([1, 0, -1])))


@pytest.mark.parametrize("side", [1, 0, -1])
def test_recoding_a_short_list_among_long_ones(side: int) -> None:
    values = [3, 700, 701, 1999]
    children = {3: list(range(2000)), 700: list(range(0, 2000, 2)), 1999: list(range(500, 2500))}
    check(values, children, np.int32, True, side)
    check([700], children, np.int32, True, side)


def test_recoding_an_empty_list() -> None:
    nothing, offsets = np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
    places, rows = np.zeros(1, dtype=np.uint8), np.full(1, 7, dtype=np.uint64)
    bits.recode_rows(nothing, 0, 0, places, 0, nothing, 0, nothing, nothing, offsets, rows, 1)
    assert rows[0] == 7
