"""Rows of bits on a device, by tiles of all sizes, against plain Python sets."""

from __future__ import annotations

import re
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

CASES: Final = (Path(__file__).parent / "cuda_host" / "bit_cases.cuh").read_text(encoding="utf-8")
TILES: Final = (1, 2, 4, 8, 16, 32)
C_TYPES: Final = {np.int32: "i32", np.int64: "i64"}
SIZES: Final = (0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 400)

Array = np.ndarray[Any, Any]
Types = tuple[type[Any], type[Any]]
DRIVER: Final = HostDriver()
DRIVER.races = True
xp: Final = DRIVER.xp


@cache
def kernels(a: type[Any], b: type[Any]) -> dict[str, Any]:
    types = f"typedef {C_TYPES[a]} A;\ntypedef {C_TYPES[b]} B;\n"
    names = [f"{name}_{tile}" for name in ("rows", "recode") for tile in TILES]
    cases = "".join(re.sub(r"(?<=[_<])32\b", str(tile), CASES) for tile in TILES)
    return DRIVER.kernels(whole(f'#include "bits.cuh"\n{types}{cases}'), names, "tests of bits")


def words_of(n: int) -> int:
    return (n + 63) // 64


def row(members: set[int], n: int) -> list[int]:
    found = [0] * words_of(n)
    for k in members:
        found[k // 64] |= 1 << (k % 64)
    return found


# ---------------------------------------------------------------------------------------- rows


def check_rows(seed: int, tile: int, count: int) -> None:
    random = np.random.default_rng(seed)
    cases, given_rows, wanted_rows, wanted = [], [], [], []
    at = 0
    for n in random.choice(SIZES, size=count).tolist():
        one, other = (set(np.flatnonzero(random.random(n) < 0.5).tolist()) for _ in range(2))
        over, under = random.integers(-1, n + 70), random.integers(0, n + 70)
        cases.append((n, over, under, at))
        at += words_of(n)
        given_rows += row(one, n) + row(other, n)
        cut = {k for k in one if k > over}
        made = (set(range(n)), other, one & other, cut, {k for k in cut if k < under})
        wanted_rows += [word for members in made for word in row(members, n)]
        wanted.append([len(one & other), len(one)] * 2 + [int(over in one), 1])
    worked, made_rows = xp.zeros(at + 1, dtype=np.uint64), xp.zeros(5 * at + 1, dtype=np.uint64)
    found = xp.zeros((count, 6), dtype=np.int64)
    rows = np.array([*given_rows, 0], dtype=np.uint64)
    args = np.array(cases), count, rows, worked, made_rows, found
    DRIVER.seed = seed
    kernels(np.int32, np.int64)[f"rows_{tile}"].launch(2, 32, _on_device(args))
    assert found.get().tolist() == wanted
    assert made_rows.get()[:-1].tolist() == wanted_rows


def _on_device(args: Any) -> list[Any]:
    return [xp.asarray(arg) if isinstance(arg, np.ndarray) else arg for arg in args]


@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows(tile: int, seed: int) -> None:
    check_rows(seed, tile, 24)


# ------------------------------------------------------------------------------------ recoding


def check_recoding(seed: int, tile: int, types: Types, indexed: bool, count: int) -> None:
    """Lists of a graph in which some have no children, and some very many."""
    random = np.random.default_rng(seed)
    base, span = random.choice([-300, 0, 5]), random.choice([40, 300, 900])
    everything = np.arange(base, base + span)
    root = everything[random.random(span) < 0.8]
    shares = random.choice([0, 0.01, 0.1, 0.5, 1], size=len(root))
    children = [everything[random.random(span) < share] for share in shares]
    children = [some[: random.integers(0, span)] for some in children]
    sizes = random.choice(SIZES, size=count)
    lists = [np.sort(random.permutation(everything)[:n]) for n in sizes]

    index = np.full(span + 1, -1, dtype=np.int32)
    index[root - base] = np.arange(len(root))
    offsets = np.cumsum([0, *(len(some) for some in children)])
    cases, lo, at = [], 0, 0
    for some in lists:
        cases.append((lo, lo + len(some), at))
        lo, at = lo + len(some), at + len(some) * words_of(len(some))
    # what was there before must not be seen
    rows = xp.asarray(np.full(at + 1, 2**64 - 1, dtype=np.uint64))
    found = xp.zeros((count, tile), dtype=np.int64)
    args = (
        *(np.array(cases), count, np.concatenate(lists).astype(types[0]), root.astype(types[0])),
        *(len(root), int(base), index, span if indexed else 0),
        *(np.concatenate([*children, [0]]).astype(types[1]), offsets.astype(np.int64)),
        *(rows, found),
    )
    DRIVER.seed = seed
    kernels(*types)[f"recode_{tile}"].launch(2, 32, _on_device(args))
    of = {value: set(some.tolist()) for value, some in zip(root.tolist(), children, strict=True)}
    got = rows.get().tolist()
    for case, (some, (_, _, at)) in enumerate(zip(lists, cases, strict=True)):
        values, bits = some.tolist(), 0
        for j, value in enumerate(values):
            members = {k for k, other in enumerate(values) if other in of.get(value, ())}
            bits += len(members)
            start = at + j * words_of(len(values))
            assert got[start : start + words_of(len(values))] == row(members, len(values)), (
                f"row {j} of list {case}, which has {len(values)}"
            )
        assert found.get()[case].tolist() == [bits] * tile
    assert got[-1] == 2**64 - 1


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lists_are_recoded(tile: int, indexed: bool, seed: int) -> None:
    check_recoding(seed, tile, (np.int32, np.int64), indexed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("types", [(np.int32, np.int32), (np.int64, np.int32)])
@pytest.mark.parametrize("tile", TILES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_many_lists_are_recoded(tile: int, types: Types, seed: int) -> None:
    check_recoding(seed, tile, types, seed % 2 == 0, 12)
