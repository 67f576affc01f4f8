"""The names that kernels are written with, on the host and on a GPU: prelude.cuh and tile.cuh."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gdatalog.gpu_ops.sources import source_of, whole
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.compiler import HERE

DRIVER = HostDriver()
xp = DRIVER.xp
LANES = [1, 2, 4, 8, 16, 32]
SEEDS = [0, 1, 2, 7]
TYPES = {"i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "double": "float64"}

# ------------------------------------------------------------------------------------- names


def names_of(text: str) -> set[str]:
    """What a header defines: macros, types, functions."""
    text = re.sub(r"//.*", "", text)
    found = set(re.findall(r"^#define (\w+)", text, re.M))
    found |= set(re.findall(r"^typedef [^;]*?(\w+);", text, re.M))
    found |= set(re.findall(r"^using (\w+)", text, re.M))
    found |= set(re.findall(r"^(?:template <class T>\n)?struct (\w+) \{", text, re.M))
    found |= set(re.findall(r"^DEVICE [\w<>* ]*?(\w+)\(", text, re.M))
    for macro, at in (("GD_ATOMIC", 1), ("GD_CAS", 0)):  # host.hpp makes functions by these
        for uses in re.findall(rf"^{macro}\((.*)\)$", text, re.M):
            found.add("atomic_cas" if macro == "GD_CAS" else uses.split(",")[at].strip())
    return {name for name in found if not name.startswith(("GD_", "Gd"))} - {"name"}


def test_both_have_the_same_names() -> None:
    device = names_of(source_of("prelude.cuh")) - {"GD_HOST", "BOUNDS"}  # what sources define
    host = names_of((HERE / "host.hpp").read_text(encoding="utf-8"))
    assert device == host
    assert {
        "u8",
        "KERNEL",
        "SHARED",
        "Array",
        "slice",
        "warp_ballot",
        "atomic_cas",
        "pause",
    } <= host


def overloads(text: str) -> set[tuple[str, str]]:
    """Atomics and the type of what they change."""
    found = set(re.findall(r"^DEVICE \w+ (atomic_\w+|add_acquire_release)\((\w+)\* a,", text, re.M))
    found |= {(name, kind) for kind, name in re.findall(r"^GD_ATOMIC\((\w+), (\w+),", text, re.M)}
    return found | {("atomic_cas", kind) for kind in re.findall(r"^GD_CAS\((\w+)\)$", text, re.M)}


def test_both_have_the_same_atomics() -> None:
    device = overloads(source_of("prelude.cuh"))
    assert device == overloads((HERE / "host.hpp").read_text(encoding="utf-8"))
    assert len(device) >= 11


# ---------------------------------------------------------------------------------- functions

ATOMICS = {
    "atomic_add": ["i32", "u32", "i64", "u64"],
    "atomic_or": ["u32", "u64"],
    "atomic_min": ["i64"],
    "atomic_max": ["i64"],
    "add_acquire_release": ["i64"],
}

TILES = """
template <int N, class T, class A, class B>
DEVICE void moved(A in, B out) {
    const Tile<N> t = tile_here<N>();
    const i64 me = thread_of_grid(), all_threads = threads_of_grid();
    const T mine = in[me];
    out[me] = from_rank(t, mine, (t.rank + 1) % N);
    out[all_threads + me] = sum(t, mine);
    out[2 * all_threads + me] = least(t, mine);
    out[3 * all_threads + me] = greatest(t, mine);
}
template <int N, class A, class B>
DEVICE void asked(A in, B out) {
    const Tile<N> t = tile_here<N>();
    const i64 me = thread_of_grid(), all_threads = threads_of_grid();
    const bool yes = in[me] != 0;
    const u32 votes = ballot(t, yes);
    sync(t);
    out[me] = votes;
    out[all_threads + me] = any(t, yes);
    out[2 * all_threads + me] = all(t, yes);
    out[3 * all_threads + me] = before(t, votes);
    out[4 * all_threads + me] = tile_of_grid<N>() * 1000 + tiles_of_grid<N>();
    out[5 * all_threads + me] = (i64)t.mask << 32 | t.rank << 16 | t.first;
}
// Tiles of one warp go round as often as their first lane's value says, which differs.
template <int N, class A, class B>
DEVICE void uneven(A in, B out) {
    const Tile<N> t = tile_here<N>();
    const i64 me = thread_of_grid();
    const i64 rounds = from_rank(t, in[me], 0);
    i64 found = 0;
    for (i64 k = 0; k < rounds; k++) {
        const u32 votes = ballot(t, (in[me] + k) % 3 == 0);
        if (votes != 0u) found += sum(t, in[me] + k) * bits_of(votes);
        if (any(t, (in[me] + k) % 5 == 0)) found += from_rank(t, in[me], 0);
        sync(t);
    }
    out[me] = found;
}
"""


def kernel_text() -> tuple[str, list[str]]:
    parts, names = ['#include "tile.cuh"', TILES], []

    def kernel(name: str, parameters: str, body: str) -> None:
        names.append(name)
        parts.append(f"KERNEL({name})({parameters}) {{ {body} }}")

    for n in LANES:
        for kind in TYPES:
            kernel(
                f"moved_{n}_{kind}",
                f"ARRAY(const {kind}) in, ARRAY({kind}) out",
                f"moved<{n}, {kind}>(in, out);",
            )
        kernel(f"asked_{n}", "ARRAY(const i64) in, ARRAY(i64) out", f"asked<{n}>(in, out);")
        kernel(f"uneven_{n}", "ARRAY(const i64) in, ARRAY(i64) out", f"uneven<{n}>(in, out);")
    for kind in TYPES:
        kernel(
            f"shuffled_{kind}",
            f"ARRAY(const {kind}) in, ARRAY({kind}) out",
            "const int me = thread_of_block(); const u32 whole = 0xFFFFFFFFu;"
            "out[me] = warp_shuffle(whole, in[me], 31 - me);"
            "out[32 + me] = warp_shuffle_xor(whole, in[me], 5);"
            "out[64 + me] = warp_shuffle_up(whole, in[me], 3);",
        )
    for name, kinds in ATOMICS.items():
        for kind in kinds:
            kernel(
                f"{name}_{kind}",
                f"ARRAY({kind}) a, ARRAY({kind}) before, ARRAY(const {kind}) by",
                f"const i64 me = thread_of_grid(); before[me] = {name}(a, 1, by[me]);",
            )
    for kind in ("i32", "i64"):
        kernel(
            f"atomic_cas_{kind}",
            f"ARRAY({kind}) a, ARRAY({kind}) before",
            f"const {kind} me = ({kind})thread_of_grid();"
            "before[me] = atomic_cas(a, me, 7, 100 + me);",
        )
    kernel(
        "words",
        "ARRAY(const u64) in, ARRAY(i64) out, ARRAY(double) doubles",
        "const u64 word = in[thread_of_grid()]; const i64 at = 8 * thread_of_grid();"
        "out[at] = bits_of(word); out[at + 1] = bits_of((u32)word);"
        "out[at + 2] = lowest_bit(word); out[at + 3] = lowest_bit((u32)word);"
        "doubles[thread_of_grid()] = double_of_bits((i64)word);"
        "out[at + 4] = bits_of_double(doubles[thread_of_grid()]); out[at + 5] = sizeof(u8);"
        "out[at + 6] = highest_bit(word); out[at + 7] = highest_bit((u32)word);",
    )
    kernel(
        "places",
        "ARRAY(i64) out",
        "const i64 at = 6 * thread_of_grid();"
        "out[at] = thread_of_block(); out[at + 1] = threads_of_block();"
        "out[at + 2] = block_of_grid(); out[at + 3] = blocks_of_grid();"
        "out[at + 4] = thread_of_grid(); out[at + 5] = threads_of_grid();",
    )
    kernel(
        "memory",
        "ARRAY(i64) a, ARRAY(const i64) b",
        "Array<i64> part = slice(a, 2, 3); part[0] = load_relaxed(b, 0) + load_acquire(b, 1);"
        "store_relaxed(part, 1, 5); store_release(part, 2, 6);"
        "a[0] = same_array(a, b); a[1] = same_array(a, slice(a, 0, 1));"
        "i64 own[4] = {1, 2, 3, 4}; a[5] = slice(own, 1, 2)[1];"
        "Array<const i64> choice = a[0] ? b : slice(b, 1, 1); a[6] = choice[0];",
    )
    return whole("\n".join(parts) + "\n"), names


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    text, names = kernel_text()
    return dict(DRIVER.kernels(text, names, "prelude"))


pytestmark = needs_compiler


def launched(kernel: Any, seed: int, blocks: int, threads: int, *args: Any) -> None:
    DRIVER.seed = seed
    kernel.launch(blocks, threads, args)


def drawn(kind: str, count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Values near both ends too."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[kind])
    if kind == "double":
        return rng.integers(-(2**40), 2**40, count).astype(dtype)
    limits = np.iinfo(dtype)
    shift = 6  # so that no sum of 32 overflows
    return rng.integers(limits.min >> shift, limits.max >> shift, count, dtype=dtype)


def per_tile(
    values: np.ndarray[Any, Any], n: int, f: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    tiles = values.reshape(-1, n).tolist()
    return [value for tile in tiles for value in f(tile)]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", LANES)
def test_lanes_of_a_tile(kernels: dict[str, Any], n: int, kind: str) -> None:
    given = drawn(kind, 128)
    for seed in SEEDS:
        out = xp.zeros(4 * 128, dtype=TYPES[kind])
        launched(kernels[f"moved_{n}_{kind}"], seed, 2, 64, xp.asarray(given), out)
        found = out.get().reshape(4, 128).tolist()
        assert found[0] == per_tile(given, n, lambda tile: tile[1:] + tile[:1])
        assert found[1] == per_tile(given, n, lambda tile: [sum(tile)] * n)
        assert found[2] == per_tile(given, n, lambda tile: [min(tile)] * n)
        assert found[3] == per_tile(given, n, lambda tile: [max(tile)] * n)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("n", LANES)
def test_votes_of_a_tile(kernels: dict[str, Any], n: int, share: float) -> None:
    given = (np.random.default_rng(3).random(128) < share).astype(np.int64)
    given[:n] = 1
    given[64 : 64 + n] = 0
    for seed in SEEDS:
        out = xp.zeros(6 * 128, dtype=xp.int64)
        launched(kernels[f"asked_{n}"], seed, 2, 64, xp.asarray(given), out)
        found = out.get().reshape(6, 128).tolist()
        assert found[0] == per_tile(
            given, n, lambda tile: [sum(yes << rank for rank, yes in enumerate(tile))] * n
        )
        assert found[1] == per_tile(given, n, lambda tile: [any(tile)] * n)
        assert found[2] == per_tile(given, n, lambda tile: [all(tile)] * n)
        assert found[3] == per_tile(given, n, lambda tile: [sum(tile[:rank]) for rank in range(n)])
        assert found[4] == [thread // n * 1000 + 128 // n for thread in range(128)]
        for thread, packed in enumerate(found[5]):
            first = thread % 32 // n * n
            mask = ((1 << n) - 1) << first
            assert packed % 2**64 == mask << 32 | thread % n << 16 | first


@pytest.mark.parametrize("n", LANES)
def test_tiles_go_round_unequally_often(kernels: dict[str, Any], n: int) -> None:
    given = np.random.default_rng(n).integers(0, 40, 128)

    def expected(tile: list[int]) -> list[int]:
        found = 0
        for k in range(tile[0]):
            votes = sum((value + k) % 3 == 0 for value in tile)
            found += sum(value + k for value in tile) * votes
            if any((value + k) % 5 == 0 for value in tile):
                found += tile[0]
        return [found] * n

    for seed in range(12):
        out = xp.zeros(128, dtype=xp.int64)
        launched(kernels[f"uneven_{n}"], seed, 2, 64, xp.asarray(given), out)
        assert out.get().tolist() == per_tile(given, n, expected)


@pytest.mark.parametrize("kind", TYPES)
def test_shuffles(kernels: dict[str, Any], kind: str) -> None:
    given = drawn(kind, 32)
    for seed in SEEDS:
        out = xp.zeros(96, dtype=TYPES[kind])
        launched(kernels[f"shuffled_{kind}"], seed, 1, 32, xp.asarray(given), out)
        found = out.get()
        assert (found[:32] == given[::-1]).all()
        assert (found[32:64] == given[np.arange(32) ^ 5]).all()
        assert (found[64:] == given[np.maximum(np.arange(32) - 3, 0) * (np.arange(32) >= 3)
                                    + np.arange(32) * (np.arange(32) < 3)]).all()  # fmt: skip


AFTER: dict[str, Callable[[int, int], int]] = {
    "atomic_add": lambda old, by: old + by,
    "add_acquire_release": lambda old, by: old + by,
    "atomic_or": lambda old, by: old | by,
    "atomic_min": min,
    "atomic_max": max,
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in ATOMICS.items() for kind in kinds]
)
def test_atomics(kernels: dict[str, Any], name: str, kind: str) -> None:
    dtype = np.dtype(TYPES[kind])
    limits = np.iinfo(dtype)
    given = np.random.default_rng(5).integers(limits.min, limits.max, 64, dtype=dtype)
    for seed in SEEDS:
        a, before = xp.zeros(3, dtype=dtype), xp.zeros(64, dtype=dtype)
        launched(kernels[f"{name}_{kind}"], seed, 2, 32, a, before, xp.asarray(given))
        last = 0
        for by in given.tolist():
            last = AFTER[name](last, by)
        wrapped = last & (2 ** (8 * dtype.itemsize) - 1)  # sums go round
        assert a.get().tolist() == [0, int(np.array(wrapped, dtype="u8").astype(dtype)), 0]
        # Each saw what another had left: as a chain, from 0 to the end.
        if name in ("atomic_add", "add_acquire_release"):
            left = {0: 0}
            for was, by in zip(before.get(), given, strict=True):
                with np.errstate(over="ignore"):
                    left[int(was)] = int(was + by)
            at = 0
            for _ in range(64):
                at = left[at]
            assert at == int(a[1])


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_compare_and_swap(kernels: dict[str, Any], kind: str) -> None:
    a = xp.asarray(np.array([7, 8, 7, -7], dtype=TYPES[kind]))
    before = xp.zeros(4, dtype=TYPES[kind])
    launched(kernels[f"atomic_cas_{kind}"], 1, 1, 4, a, before)
    assert a.get().tolist() == [100, 8, 102, -7]
    assert before.get().tolist() == [7, 8, 7, -7]


def test_words(kernels: dict[str, Any]) -> None:
    words = [0, 1, 6, 1 << 31, 1 << 32, 1 << 63, 2**64 - 1, 0x3FF8000000000000]
    out = xp.zeros(8 * len(words), dtype=xp.int64)
    doubles = xp.zeros(len(words), dtype=xp.float64)
    given = xp.asarray(np.array(words, dtype=np.uint64))
    launched(kernels["words"], 0, 1, len(words), given, out, doubles)
    found = out.get().reshape(-1, 8).tolist()
    for word, row in zip(words, found, strict=True):
        low = word % 2**32
        lowest = [(one & -one).bit_length() - 1 for one in (word, low)]
        assert row[:4] == [word.bit_count(), low.bit_count(), *lowest]
        assert row[4] % 2**64 == word
        assert row[5] == 1
        assert row[6:] == [word.bit_length() - 1, low.bit_length() - 1]
    assert doubles.get().tolist()[-1] == 1.5


def test_places(kernels: dict[str, Any]) -> None:
    for seed in SEEDS:
        out = xp.zeros(6 * 120, dtype=xp.int64)
        launched(kernels["places"], seed, 3, 40, out)
        expected = [[i % 40, 40, i // 40, 3, i, 120] for i in range(120)]
        assert out.get().reshape(120, 6).tolist() == expected


def test_memory(kernels: dict[str, Any]) -> None:
    a = xp.zeros(7, dtype=xp.int64)
    launched(kernels["memory"], 0, 1, 1, a, xp.asarray(np.array([30, 4])))
    assert a.get().tolist() == [0, 1, 34, 5, 6, 3, 4]
