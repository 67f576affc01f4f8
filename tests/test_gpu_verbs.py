"""Each verb of a device against the CPU's: drawn data, threads that take turns in drawn orders.

The kernels are run with a few blocks and with tiles enough for them to wait for each other.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog import cpu_ops
from gdatalog.calls import NotOnDevice
from gdatalog.cpu_ops import exact_totals
from gdatalog.cpu_ops import functions as host_functions
from gdatalog.engine.fixpoint.row_bitmap import rows_of_bits
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.kernels import TILE
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Choice, ListEntries, ListRanges, Lookup, TrieLevel
from gdatalog.storage.trie import ValueTests as Tests
from gdatalog.values import INT_MAX, INT_MIN
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

DRIVER = HostDriver()
DRIVER.compiles_ahead = False  # kernels are what is tested, not what runs meanwhile
OPS: Any = Gpu(DRIVER).ops
xp = OPS.xp

few = settings(max_examples=7, deadline=None)
some = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 1 << 20)
OPERATORS = ("<", "<=", ">", ">=")


def there(array: Any) -> Any:
    return xp.asarray(np.ascontiguousarray(array))


def here(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def same(found: Any, wanted: Any) -> None:
    assert here(found).tolist() == here(wanted).tolist()


class Taking:
    """Threads take turns as the seed says, in so many blocks."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        DRIVER.seed, DRIVER.blocks = self.seed, 1 + self.seed % 4
        self.patch.setattr(CupyKernel, "resident", lambda kernel, threads: DRIVER.blocks)

    def __exit__(self, *reason: Any) -> None:
        self.patch.undo()
        DRIVER.seed, DRIVER.blocks = 0, 2


def level_of(random: Any, lists: int, most: int, values: int, dtype: Any) -> TrieLevel:
    """Lists of random lengths, some of them empty."""
    made = [
        np.sort(random.choice(values, random.integers(0, most + 1), replace=False))
        for _ in range(lists)
    ]
    offsets = np.append(0, np.cumsum([len(one) for one in made]))
    return TrieLevel(np.concatenate([*made, np.empty(0)]).astype(dtype), offsets)


def on_device(level: TrieLevel) -> Any:
    return OPS.level_of(there(level.values), there(level.offsets))


# ---------------------------------------------------------------------------------- kernels


@some
@given(seeds, st.integers(1, 200), st.integers(1, 40), st.sampled_from([0.0, 0.02, 0.6, 1.0]))
def test_rows_of_marks(seed: int, left: int, right: int, share: float) -> None:
    """All of a bitmap, and some of its runs; one column of 32 bits, one of 64."""
    random = np.random.default_rng(seed)
    space = KeySpace((-3, 1 << 40), (left, right))
    bits = np.zeros(-(-space.size // 64) * 64, dtype=bool)
    bits[: space.size] = random.random(space.size) < share
    words = np.packbits(bits, bitorder="little").view(np.int64)
    dtypes = [np.int32, np.int64]
    wanted = space.rows(np.flatnonzero(bits))
    for mine, its, dtype in zip(rows_of_bits(space, words, dtypes), wanted, dtypes, strict=True):
        assert mine.tolist() == its.tolist() and mine.dtype == dtype
    with Taking(seed):
        counts = OPS.counts_of_marks(there(words))
        first = int(random.integers(0, len(counts)))
        low, high = (int(here(counts)[:end].sum()) for end in (first, len(counts)))
        found = OPS.rows_of_marks(there(words), counts, first, len(counts), space.box, dtypes)
        assert high == bits.sum() and [column.dtype for column in found] == dtypes
        for mine, its in zip(found, wanted, strict=True):
            same(mine, its[low:])


@few
@given(seeds, st.sampled_from([0, 1, 31, 1000, TILE, 5 * TILE + 7]), st.floats(0, 1))
def test_survivors(seed: int, size: int, share: float) -> None:
    mask = np.random.default_rng(seed).random(size) < share
    with Taking(seed):
        same(OPS.survivors(there(mask)), np.flatnonzero(mask))
        same(OPS.survivors(there(mask.astype(np.int64) * 7)), np.flatnonzero(mask))


def meeting(seed: int, dtype: Any, count: int) -> tuple[list[Choice], list[Lookup], Tests]:
    """Rows with `count` lists of parents each, which may be expanded; a root, dense or not; tests
    with columns. Some rows have long lists, others none."""
    random = np.random.default_rng(seed)
    rows, lists = int(random.integers(1, (8, 300, 1500)[seed % 3])), 20
    choices: list[Choice] = []
    for at in range(count):
        kind = dtype if at == 0 or seed % 2 else (np.int64, np.int32)[dtype is np.int64]
        most = (2, 60, 2)[seed % 3] - at
        level = level_of(random, lists, most, 80, kind)
        level = level if random.random() < 0.7 or not choices else choices[0].lookup.level
        parents = random.integers(0, lists, rows).astype((np.int32, np.int64)[at % 2])
        entries = ListEntries(
            level.values, level.offsets[parents], np.diff(level.offsets)[parents], None, 0, at
        )
        wanted = bool(random.integers(0, 2))
        choices.append(Choice(entries, Lookup(level, parents, wanted)))
    others = []
    if random.random() < 0.5:
        spread = 1000 if random.random() < 0.5 else 1
        values = np.unique(random.integers(0, 80 * spread, 60)).astype(dtype)
        level = TrieLevel(values, np.array([0, len(values)]))
        others.append(Lookup(level, None, bool(random.integers(0, 2))))
    operators = random.choice([*OPERATORS, "=", "!="], int(random.integers(0, 2))).tolist()
    return choices, others, [(op, random.integers(0, 80, rows)) for op in operators]


def moved_lookup(lookup: Lookup) -> Lookup:
    parents = None if lookup.parents is None else there(lookup.parents)
    return Lookup(on_device(lookup.level), parents, lookup.wanted)


@few
@given(seeds, st.sampled_from([np.int32, np.int64]), st.integers(1, 3))
def test_fused_levels(seed: int, dtype: Any, count: int) -> None:
    """The rows of a level, in one piece or several, and how many there are."""
    choices, others, tests = meeting(seed, dtype, count)
    rows = len(choices[0].lists.lengths)
    wanted: dict[int, list[tuple[int, ...]]] = {row: [] for row in range(rows)}
    own = choices[0].lists._replace(size=int(choices[0].lists.lengths.sum()))
    sought = [Lookup(*choice.lookup[:2], True) for choice in choices[1:]] + others
    *found, places = cpu_ops.intersect_lists(own, sought, tests, True)
    asked = [choice.lookup.wanted for choice in choices] + [lookup.wanted for lookup in others]
    kept = [column for column, asks in zip(places, asked, strict=False) if asks]
    for row, *more in zip(*(column.tolist() for column in (*found, *kept)), strict=True):
        wanted[row].append(tuple(more))
    lookups = [moved_lookup(choice.lookup) for choice in choices]
    theirs = [
        Choice(
            ListRanges(lookup.level, lookup.parents, (), at)
            if (seed + at) % 2
            else ListEntries(lookup.level.values, *map(there, entries[1:3]), None, 0, at),
            lookup,
        )
        for at, ((entries, _), lookup) in enumerate(zip(choices, lookups, strict=True))
    ]
    args = theirs, [moved_lookup(lookup) for lookup in others], [(op, there(c)) for op, c in tests]
    with Taking(seed):
        if seed % 2:
            level = OPS.fused(*args, "counts", 1, rows)
            same(level.counts(), np.array([len(wanted[row]) for row in range(rows)]))
        else:
            level = OPS.fused(*args, "count", 1, rows)
            assert level.count() == sum(map(len, wanted.values()))
        least = np.min([choice.lists.lengths for choice in choices], axis=0)
        assert level.total == level.tried == least.sum()
        level, start, left = OPS.fused(*args, "expand", 1, rows), 0, np.ones(rows, bool)
        room = int(np.random.default_rng(seed).choice([1, 7, 5000]))
        seen: dict[int, list[tuple[int, ...]]] = {row: [] for row in range(rows)}
        for turn in range(4) if room == 1 else range(10_000):
            part = level.expand(start, room)
            assert len(part.values) <= room and part.values.dtype == level._value
            columns = part.rows, part.values, *(part.places[n] for n in sorted(part.places))
            for row, *more in zip(*(here(column).tolist() for column in columns), strict=True):
                seen[row].append(tuple(more))
            if part.whole:
                assert all(seen[row] == wanted[row] for row in set(here(part.rows).tolist()))
            start = part.stop
            if start >= level.total:
                break
            if turn == 1:  # rows that have something need no more
                left = np.array([not seen[row] for row in range(rows)])
                level.leave_out(there(left), start)
                start = 0
    done = start >= level.total
    for row in range(rows):
        whole = done and left[row]
        assert seen[row] == wanted[row] if whole else seen[row] == wanted[row][: len(seen[row])]


@few
@given(seeds, st.sampled_from([np.int32, np.int64]), st.sampled_from([1, 40, 1 << 40]))
def test_searches(seed: int, dtype: Any, spread: int) -> None:
    random = np.random.default_rng(seed)
    level = level_of(random, 12, 30, 50, np.int64)
    level = TrieLevel(
        (level.values * (spread if dtype is np.int64 else 1)).astype(dtype), level.offsets
    )
    parents = random.integers(0, 12, 500)
    sought = random.integers(-3, 55, 500) * (spread if random.random() < 0.8 else INT_MAX // 99)
    moved = on_device(level)
    with Taking(seed):
        args = there(parents), there(sought)
        same(OPS.find_in(moved, *args), level.find_in(parents, sought))
        for after in (False, True):
            same(OPS.bound_in(moved, *args, after), level.bound_in(parents, sought, after))
        values = np.unique(level.values)
        root = TrieLevel(values, np.array([0, len(values)]))
        same(OPS.find(on_device(root), there(sought)), root.find(sought))
        # A part of a list that fits shared memory, and one that does not; ascending or not.
        among = np.unique(random.integers(-(1 << 30), 1 << 30, 9000)).astype(dtype)
        root = TrieLevel(among, np.array([0, len(among)]))
        sought = np.append(random.choice(among, 900), random.integers(-(1 << 31), 1 << 31, 900))
        for keys in (np.sort(sought)[:: 1 + seed % 3], sought, np.array([INT_MIN, INT_MAX])):
            same(OPS.find(on_device(root), there(keys)), root.find(keys))


@few
@given(seeds, st.sampled_from([np.int32, np.int64]), st.sampled_from([30, 900, 9000]))
def test_sorted_keys_and_lists_are_read_together(seed: int, dtype: Any, longest: int) -> None:
    """Tiles that follow each other, of keys in order and not quite, with equal ones; lists that a
    block has room for, and others."""
    random = np.random.default_rng(seed)
    among = np.unique(random.integers(0, 1 << 30, 5 * longest)).astype(dtype)
    sought = np.sort(np.append(random.choice(among, 3500), random.integers(0, 1 << 30, 3500)))
    if seed % 2:
        sought[random.integers(0, 7000)] = random.choice(among)
    level = level_of(random, 9, longest, 3 * longest, dtype)
    parents, keys = np.sort(random.integers(0, 9, 5000)), random.integers(0, 3 * longest, 5000)
    if seed % 3:
        parents[-1] = 0
    root = TrieLevel(among, np.array([0, len(among)]))
    with Taking(seed):
        same(OPS.find(on_device(root), there(sought)), root.find(sought))
        same(
            OPS.find_in(on_device(level), *map(there, (parents, keys))),
            level.find_in(parents, keys),
        )


@few
@given(seeds, st.integers(2, 4), st.sampled_from([0, 1, 3000]))
def test_shortest(seed: int, count: int, size: int) -> None:
    random = np.random.default_rng(seed)
    lists = [random.integers(0, 1 << 40, size) for _ in range(count)]
    with Taking(seed):
        totals, least = OPS.shortest([there(one) for one in lists])
    assert (totals, least) == cpu_ops.shortest(lists)
    assert least == sum(map(min, zip(*(one.tolist() for one in lists), strict=True)))


@few
@given(
    seeds, st.sampled_from([np.int32, np.int64]), st.lists(st.sampled_from(OPERATORS), max_size=2)
)
def test_ranges(seed: int, dtype: Any, operators: list[str]) -> None:
    random = np.random.default_rng(seed)
    level = level_of(random, 12, 30, 50, dtype)
    parents = random.integers(0, 12, 300).astype(dtype)
    cuts = [(op, random.integers(-3, 55, 300)) for op in operators]
    with Taking(seed):
        moved = [(op, there(bounds)) for op, bounds in cuts]
        starts, lengths = OPS.ranges(on_device(level), there(parents), moved)
        lists = ListRanges(on_device(level), there(parents), moved, 0)
        fused = OPS.fused(
            [Choice(lists, Lookup(lists.level, lists.parents, True))], (), (), "expand", 9, 300
        )
        part = fused.expand(0, 1 << 20)
    wanted, long = cpu_ops.ranges(level, parents, cuts)
    found = cpu_ops.expand(wanted, long)
    same(part.rows, found[0])
    same(part.places[0], found[1])
    same(lengths, long)
    some = long > 0
    same(starts.get()[some], wanted[some])


@few
@given(seeds, st.booleans())
def test_sums(seed: int, ordered: bool) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 40))
    groups = random.integers(0, count, int(random.integers(0, 3000)))
    if ordered:
        groups.sort()
    amounts = random.integers(-(1 << 40), 1 << 40, len(groups))
    with Taking(seed):
        same(
            OPS.sums_by(there(groups), count, there(amounts)),
            cpu_ops.sums_by(groups, count, amounts),
        )
        same(OPS.sums_by(there(groups), count, None), cpu_ops.sums_by(groups, count, None))
        floats = amounts / 3
        found = OPS.sums_by(there(groups), count, there(floats)).get()
        again = OPS.sums_by(there(groups), count, there(floats)).get()
        if len(groups):
            names, groups_ = np.unique(groups, return_inverse=True)
            least, values = bool(seed % 2), amounts % 50
            best = OPS.best_by(there(groups_), len(names), there(values), least)
            same(best, cpu_ops.best_by(groups_, len(names), values, least))
    assert found.tolist() == again.tolist()
    np.testing.assert_allclose(found, cpu_ops.sums_by(groups, count, floats), rtol=1e-12, atol=1e-3)


# ------------------------------------------------------------------------- arrays and rows


@st.composite
def columns(draw: Any) -> list[Any]:
    width, rows = draw(st.integers(1, 3)), draw(st.integers(0, 30))
    edge = st.sampled_from([INT_MIN, INT_MAX, 1 << 31, -(1 << 31) - 1])
    values = draw(st.sampled_from([st.integers(-3, 3), st.integers(-3, 3) | edge]))
    return [
        np.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype=np.int64)
        for _ in range(width)
    ]


@some
@given(columns())
def test_rows(parts: list[Any]) -> None:
    moved, length = [there(part) for part in parts], len(parts[0])
    for mine, its in zip(OPS.sort_rows(moved), cpu_ops.sort_rows(parts), strict=True):
        same(mine, its)
    same(OPS.first_rows(moved), cpu_ops.first_rows(parts))
    for mine, its in zip(
        OPS.group_rows(moved, length), cpu_ops.group_rows(parts, length), strict=True
    ):
        same(mine, its)
    for mine, its in zip(OPS.sort_across(moved), cpu_ops.sort_across(parts), strict=True):
        same(mine, its)
    if length:
        same(OPS.row_firsts(moved), cpu_ops.row_firsts(parts))
        _, groups = cpu_ops.group_rows(parts[:1], length)
        count = int(groups.max()) + 1
        for least in (True, False):
            same(
                OPS.best_by(there(groups), count, moved[-1], least),
                cpu_ops.best_by(groups, count, parts[-1], least),
            )
    among = np.unique(parts[0])
    same(OPS.in_sorted(moved[-1], there(among)), cpu_ops.in_sorted(parts[-1], among))
    lists = [np.unique(part) for part in parts]
    mine, its = OPS.intersect([there(one) for one in lists]), cpu_ops.intersect(lists)
    same(mine[0], its[0])
    for at, place in zip(mine[1], its[1], strict=True):
        same(at, place)


@some
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_pieces_and_expansion(lengths: list[int], limit: int) -> None:
    given_ = np.array(lengths, dtype=np.int64)
    assert list(OPS.pieces(there(given_), limit)) == list(cpu_ops.pieces(given_, limit))
    starts = np.arange(len(lengths)) * 5
    for mine, its in zip(
        OPS.expand(there(starts), there(given_)), cpu_ops.expand(starts, given_), strict=True
    ):
        same(mine, its)


@some
@given(st.lists(columns(), min_size=1, max_size=5))
def test_marked_rows(blocks: list[Any]) -> None:
    width = len(blocks[0])
    mine, its = OPS.seen_rows(300), cpu_ops.seen_rows(300)
    for parts in blocks:
        if len(parts) != width:
            continue
        moved = tuple(map(there, parts))
        fits = its.fits(tuple(parts))
        assert mine.fits(moved) == fits
        if fits:
            same(mine.news(moved), its.news(tuple(parts)))
    if its._packing is not None:
        types = [np.dtype(np.int64)] * width
        for one, other in zip(mine.rows(types), its.rows(types), strict=True):
            same(one, other)


@some
@given(st.lists(columns(), min_size=1, max_size=5))
def test_marked_rows_that_fit_before_any_is_marked(blocks: list[Any]) -> None:
    """Blocks of which the first lies beside the second: room for one is kept for the other."""
    blocks = [parts for parts in blocks if len(parts) == len(blocks[0])]
    marked = OPS.seen_rows(1 << 12)
    held = [moved for moved in (tuple(map(there, parts)) for parts in blocks) if marked.fits(moved)]
    for moved in held:
        marked.add(moved)
    if held:
        types = [np.dtype(np.int64)] * len(blocks[0])
        found = zip(*(here(column).tolist() for column in marked.rows(types)), strict=True)
        rows = (zip(*(here(column).tolist() for column in moved), strict=True) for moved in held)
        assert list(found) == sorted(set(chain.from_iterable(rows)))


# -------------------------------------------------------------------------------- functions

INTS = np.array(
    [
        INT_MIN,
        INT_MIN + 1,
        -(1 << 40),
        -7,
        -2,
        -1,
        0,
        1,
        2,
        3,
        63,
        64,
        1 << 60,
        INT_MAX - 1,
        INT_MAX,
    ]
)
REALS = np.array([-math.inf, -1e300, -2.5, -1, 0, 0.5, 1, 7.25, 9.3e18, 2.0**63, 1e-300, math.inf])

OF_TWO = {*"+*/%^", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}
LAST_BIT = {"exp", "log", "^"}  # in which processors differ
OF_TWO |= {"+!", "-!", "*!", "min", "max", "seconds_between"}
OF_TENS = {"floored", "rounded", "unscaled", "round_to", "to_decimal"}  # and a power of ten


@pytest.mark.parametrize("kind", ["int", "float", "bool"])
def test_functions(kind: Any) -> None:
    table = {
        "int": (OPS.functions.on_ints, INTS),
        "float": (OPS.functions.on_floats, REALS),
        "bool": (OPS.functions.on_bools, np.array([False, True])),
    }
    symbols = SymbolTable()
    functions, values = table[kind]
    pairs = [part.ravel() for part in np.meshgrid(values, values)]
    scaled = [pairs[0], 10 ** (np.arange(len(pairs[0])) % 7).astype(values.dtype)]
    for name in [*functions, "min", "max"]:
        if kind == "bool" and name in ("min", "max"):
            continue
        counts = (1, 2) if name == "-" else (2,) if name in OF_TWO | OF_TENS else (1,)
        given_ = scaled if name in OF_TENS else pairs
        for args in (given_[:count] for count in counts):
            wanted, bad = host_functions.call(name, args, kind, symbols, lambda text: None)
            found, failed = OPS.functions.call(name, [there(arg) for arg in args], kind)
            failed = np.zeros(len(wanted), dtype=bool) if failed is None else failed.get()
            bad = np.zeros(len(wanted), dtype=bool) if bad is None else bad
            assert failed.tolist() == bad.tolist(), name
            if kind == "float" and name in LAST_BIT:
                np.testing.assert_allclose(found.get()[~bad], wanted[~bad], rtol=1e-13)
            else:
                assert found.get()[~bad].tolist() == wanted[~bad].tolist(), name


@some
@given(st.lists(st.integers(INT_MIN, INT_MAX), min_size=1))
def test_dates(times: list[int]) -> None:
    given_ = np.array(times, dtype=np.int64)
    for name in ("year", "month", "day"):
        wanted, _ = host_functions.call(
            name, [given_], "timestamp", SymbolTable(), lambda text: None
        )
        same(OPS.functions.call(name, [there(given_)], "timestamp")[0], wanted)


# ----------------------------------------------------------------------- what must be exact


def test_what_leaves_62_bits_is_left_to_the_cpu() -> None:
    large, groups = there(np.array([1 << 61, 1 << 61])), there(np.array([0, 0]))
    for compute in (
        lambda: OPS.times(large, large),
        lambda: OPS.add_counts(there(np.array([0])), groups, large),
        lambda: OPS.exact_sums(groups, 1, large),
        lambda: OPS.counts_by(groups, 1, large),
        lambda: OPS.halves(large, large),
    ):
        with pytest.raises(NotOnDevice):
            compute()
    small = np.array([3, -5, 1 << 40])
    weight = np.array([2, 7, 1])
    for mine, its in zip(
        OPS.halves(there(small), there(weight)), exact_totals.halves(small, weight), strict=True
    ):
        same(mine, its)
    of_groups = np.array([0, 1, 0])
    sums = OPS.split_sums(there(of_groups), 2, there(small), None)
    for mine, its in zip(sums, exact_totals.split_sums(of_groups, 2, small, None), strict=True):
        assert mine.get().astype(object).tolist() == its.tolist()
    same(OPS.means(*map(there, (small, small, weight))), cpu_ops.means(small, small, weight))
