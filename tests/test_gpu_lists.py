"""Sorted lists on a device: searches and intersections by tiles, against plain Python.

Each launch does many cases, so that lanes, tiles and lists of all lengths meet.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.gpu_ops.sources import whole
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = needs_compiler

CASES: Final = (Path(__file__).parent / "cuda_host" / "list_cases.cuh").read_text(encoding="utf-8")
IN_TOP: Final = """
KERNEL(find_in_top)(ARRAY(const A) values, i64 n, ARRAY(const i64) keys, i64 n_keys,
                    ARRAY(i64) found) {
    SHARED(A, top, TOP);
    const int n_top = load_top(values, n, top);
    for (i64 i = thread_of_grid(); i < n_keys; i += threads_of_grid())
        found[i] = find_in_root_with_top(values, n, top, n_top, keys[i]);
}
"""
TILES: Final = (1, 2, 4, 8, 16, 32)
C_TYPES: Final = {np.int32: "i32", np.int64: "i64"}
PAIRS: Final = [(np.int32, np.int32), (np.int64, np.int32), (np.int32, np.int64)]
# What is made of other types is compiled apart.
WIDTHS: Final = [np.int32, pytest.param(np.int64, marks=pytest.mark.slow)]
LENGTHS: Final = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128, 130, 200, 400)

Array = np.ndarray[Any, Any]
Types = tuple[type[Any], type[Any]]
DRIVER: Final = HostDriver()
DRIVER.races = True
xp: Final = DRIVER.xp


@cache
def kernels(a: type[Any], b: type[Any]) -> dict[str, Any]:
    types = f"typedef {C_TYPES[a]} A;\ntypedef {C_TYPES[b]} B;\n"
    names = [f"{name}_{tile}" for name in ("meet", "search", "each", "parents") for tile in TILES]
    cases = "".join(re.sub(r"(?<=[_<])32\b", str(tile), CASES) for tile in TILES)
    text = whole(f'#include "lane_lists.cuh"\n{types}{cases}{IN_TOP}')
    return DRIVER.kernels(text, [*names, "held_32", "find_in_top"], "tests of lists")


def launch(kernel: Any, tile: int, cases: int, seed: int, *args: Any) -> None:
    """By fewer tiles than there are cases, in two blocks."""
    DRIVER.seed = seed
    kernel.launch(2, 32 if cases * tile < 400 else 64, args)


def drawn(random: Any, width: type[Any], length: int, span: int) -> Array:
    """A list of about this length, in all of a span or a half, even or with most of it on a heap;
    some reach the ends of what there is."""
    low, high = random.choice([(-span, span), (-span, span), (-span, 0), (0, span)])
    even = random.integers(low, high, size=length)
    heap = even // 8 + random.integers(low, high)
    values = np.unique(np.where(random.random(length) < random.choice([1, 1, 0.1]), even, heap))
    if length > 2 and random.random() < 0.2:
        ends = np.iinfo(width)
        values[0], values[-1] = ends.min, ends.max
    return values.astype(width)


class Lists:
    """Lists in one array, with strangers between them."""

    def __init__(self, random: Any, lists: list[Array], width: type[Any]) -> None:
        self.lists, self.ranges = lists, []
        pieces, at = [], 0
        for values in lists:
            strangers = random.integers(-9, 9, size=random.integers(0, 3)).astype(width)
            pieces += [strangers, values]
            self.ranges.append((at, at + len(strangers), at + len(strangers) + len(values)))
            at += len(strangers) + len(values)
        self.array = np.concatenate([*pieces, np.zeros(1, width)]).astype(width)


# -------------------------------------------------------------------------------- where two meet


def two_lists(random: Any, count: int, most: int) -> list[tuple[int, int, int]]:
    """Lengths, and how far the values lie apart."""
    lengths = [length for length in LENGTHS if length <= most]
    found = [tuple(random.choice(lengths, size=2)) for _ in range(count - 2)]
    found += [(random.integers(1, 70), 2000), (2000, random.integers(1, 70))]
    return [(a, b, int(max(a, b) * random.choice([0.6, 1, 3, 30])) + 1) for a, b in found]


def check(seed: int, tile: int, pairs: list[tuple[Array, Array]], types: Types) -> None:
    """Each tile has cases of its own: all that they find is as Python's sets have it."""
    random, count = np.random.default_rng(seed), len(pairs)
    a = Lists(random, [one for one, _ in pairs], types[0])
    b = Lists(random, [other for _, other in pairs], types[1])
    cases, room = [], 0
    for mine, other in zip(a.ranges, b.ranges, strict=True):
        cases.append((*mine[1:], *other[1:], room, mine[0]))
        room += min(mine[2] - mine[1], other[2] - other[1])
    out, own = xp.zeros(room + 1, dtype=types[0]), xp.asarray(a.array)
    found = xp.zeros((count, 4), dtype=np.int64)
    args = (xp.asarray(a.array), own, xp.asarray(b.array), xp.asarray(np.array(cases)), count)
    launch(kernels(*types)[f"meet_{tile}"], tile, count, seed, *args, out, found)
    together = xp.zeros(count, dtype=np.int64)
    given = (args[0], args[2], args[3], count, together)
    launch(kernels(*types)[f"each_{tile}"], tile, count, seed, *given)
    common = [len(set(one.tolist()) & set(other.tolist())) for one, other in pairs]
    assert together.get().tolist() == [0 if at % 5 == 4 else n for at, n in enumerate(common)]
    counts, written, kept = found.get().tolist(), out.get().tolist(), own.get().tolist()
    for at, (case, (one, other_one)) in enumerate(zip(cases, pairs, strict=True)):
        wanted = sorted(set(one.tolist()) & set(other_one.tolist()))
        start, buffer = case[4], case[5]
        told = f"case {at}: {case}"
        assert counts[at] == [len(wanted)] * 4, told
        assert written[start : start + len(wanted)] == wanted, told
        assert kept[buffer : buffer + len(wanted)] == wanted, told


def check_meetings(seed: int, tile: int, types: Types, count: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [
        tuple(drawn(random, width, n, span) for width, n in zip(types, sizes, strict=True))
        for *sizes, span in two_lists(random, count, 400)
    ]
    check(seed, tile, pairs, types)


@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_two_lists_meet(tile: int, seed: int) -> None:
    check_meetings(seed, tile, PAIRS[0], 24)


@pytest.mark.parametrize("tile", TILES)
def test_a_list_goes_on_behind_another(tile: int) -> None:
    """Its values lie before, all in one place of, and behind the other one."""
    long = np.arange(0, 4000, 2)
    pairs = []
    for near in range(40):
        short = np.concatenate([np.arange(-near, 0), np.arange(near), 5000 + np.arange(80 - near)])
        pairs += [(short, long), (long, short), (short - 3000, long), (short + 1000, long)]
    check(tile, tile, pairs, PAIRS[0])


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lists_meet_one_that_is_held(seed: int) -> None:
    """Or one that is not: too long, too short, with values below 0, met by few."""
    random = np.random.default_rng(seed)
    held = Lists(
        random, [drawn(random, np.int32, n, 2 * n + 1) for n in (9, 40, 300, 900)], np.int32
    )
    lengths = random.choice([0, 1, 5, 20, 40, 130, 2000], size=70)
    own = Lists(random, [drawn(random, np.int32, n, 2 * n + 1) for n in lengths], np.int32)
    cases, wanted = [], np.zeros(len(lengths), dtype=np.int64)
    other = 0
    for at, (values, (_, lo, hi)) in enumerate(zip(own.lists, own.ranges, strict=True)):
        other = int(random.integers(len(held.lists))) if random.random() < 0.2 else other
        cases.append((lo, hi, *held.ranges[other][1:]))
        both = set(values.tolist()) & set(held.lists[other].tolist())
        wanted[at // 32] += 0 if at % 5 == 4 else len(both)
    found = xp.zeros(len(lengths), dtype=np.int64)
    given = xp.asarray(own.array), xp.asarray(held.array), xp.asarray(np.array(cases))
    launch(kernels(*PAIRS[0])["held_32"], 32, len(cases), seed, *given, len(cases), found)
    assert found.get().tolist() == wanted.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), types=st.sampled_from(PAIRS))
def test_many_lists_meet(tile: int, types: Types, seed: int) -> None:
    check_meetings(seed, tile, types, 60)


# ------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("tile", TILES)
def test_parents_of_neighbours(tile: int) -> None:
    """Some parents have no list, so that the next one is far away."""
    random = np.random.default_rng(tile)
    lengths = np.where(random.random(900) < 0.1, random.integers(0, 60, 900), 0)
    lengths[200:260] = 1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    count = int(offsets[-1])
    found = xp.zeros(count, dtype=np.int64)
    given = (xp.asarray(offsets.astype(np.int64)), len(offsets), count, found)
    launch(kernels(np.int64, np.int64)[f"parents_{tile}"], tile, 300, tile, *given)
    assert found.get().tolist() == np.repeat(np.arange(900), lengths).tolist()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_searches(tile: int, width: type[Any], seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.choice([*LENGTHS, 1000], size=30)
    lists = Lists(random, [drawn(random, width, n, n + 1) for n in lengths], width)
    cases = []
    for values, (_, lo, hi) in zip(lists.lists, lists.ranges, strict=True):
        among = [*values.tolist()[:: max(1, len(values) // 3)], *values.tolist()[-1:]]
        near = [min(max(key + by, -(2**63)), 2**63 - 1) for key in among for by in (-1, 0, 1)]
        cases += [(lo, hi, key) for key in [*near, 0, 2**63 - 1, -(2**63)]]
    found = xp.zeros((len(cases), 11), dtype=np.int64)
    args = xp.asarray(lists.array), xp.asarray(np.array(cases)), len(cases), found
    launch(kernels(width, np.int32)[f"search_{tile}"], tile, len(cases), seed, *args)
    whole_array = lists.array.tolist()
    for (lo, hi, key), got in zip(cases, found.get().tolist(), strict=True):
        first = bisect_left(whole_array, key, lo, hi)
        last = bisect_right(whole_array, key, lo, hi)
        place = first if last > first else -1
        one = [first, last, place, int(place >= 0)]
        assert got == [*one, first, *one, *[last - lo - 1] * 2], (lo, hi, key)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 100, 1023, 1024, 1025, 2047, 2049, 2500, 9999])
def test_a_root_by_its_top(n: int, width: type[Any]) -> None:
    random = np.random.default_rng(n)
    ends = np.iinfo(width)
    values = np.sort(random.permutation(np.arange(-3 * n, 3 * n))[:n]).astype(width)
    if n > 4:
        values[0], values[-1] = ends.min, ends.max
    near = [values + by for by in (-1, 0, 1)] + [[-(2**63), 0, 2**63 - 1]]
    keys = random.permutation(np.concatenate(near).astype(np.int64))[:700]
    keys = np.append(keys, values[-2:])
    found = xp.zeros(len(keys), dtype=np.int64)
    args = xp.asarray(np.append(values, [7]).astype(width)), n, xp.asarray(keys), len(keys), found
    kernels(width, np.int32)["find_in_top"].launch(3, 64, args)
    places = {value: at for at, value in enumerate(values.tolist())}
    assert found.get().tolist() == [places.get(key, -1) for key in keys.tolist()]
