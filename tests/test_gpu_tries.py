"""Tries made on a device are those that storage makes; what is kept there, and let go."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.gpu_ops.elementwise import Elementwise
from gdatalog.gpu_ops.rows import RowOperations
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.storage import statistics
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.stand_in import COUNTER

pytestmark = needs_compiler
INT = np.iinfo(np.int64)
SMALL = st.integers(-3, 5)
WIDE = st.sampled_from([INT.min, -(1 << 40), -1, 0, 7, 1 << 33, INT.max])
VALUES = {"small": SMALL, "spread": st.integers(-(10**6), 10**6), "wide": WIDE}
OPS = ("=", "!=", "<", "<=", ">", ">=")


@st.composite
def relations(draw: st.DrawFn, width: int | None = None) -> Relation:
    arity = width or draw(st.integers(1, 3))
    values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
    rows = draw(st.lists(st.tuples(*[values] * arity), max_size=30))
    if arity == 2 and draw(st.booleans()):
        rows += [(b, a) for a, b in rows]
    return relation(rows, arity)


def relation(rows: list[tuple[int, ...]], arity: int) -> Relation:
    columns = [np.array([row[at] for row in rows], dtype=np.int64) for at in range(arity)]
    names = tuple(f"c{at}" for at in range(arity))
    return Relation.from_rows(names, ("int",) * arity, columns, len(rows))


@st.composite
def asked(draw: st.DrawFn, arity: int) -> tuple[tuple[int, ...], tuple[Any, ...], bool]:
    order = draw(st.permutations(range(arity)))[: draw(st.integers(0, arity))]
    tests = []
    if arity > 1:
        pairs = st.permutations(range(arity)).map(lambda p: p[:2])
        for left, right in draw(st.lists(pairs, max_size=2)):
            tests.append((left, draw(st.sampled_from(OPS)), right))
    return tuple(order), tuple(tests), draw(st.booleans())


def same(found: Any, expected: Any, dtypes: bool = True) -> None:
    assert (found is None) == (expected is None)
    if expected is not None:
        there = brought(found)
        assert there.tolist() == expected.tolist()
        assert not dtypes or there.dtype == expected.dtype


def same_tries(found: Trie, expected: Trie) -> None:
    assert found.total == expected.total and len(found.levels) == len(expected.levels)
    same(found.weights, expected.weights)
    same(found.labels, expected.labels)
    if expected.weights is not None:
        same(found.weight_sums, expected.weight_sums)
    for mine, other in zip(found.levels, expected.levels, strict=True):
        same(mine.values, other.values)
        same(mine.offsets, other.offsets, dtypes=False)
        assert mine.offsets.dtype == np.int32
        assert mine.longest == other.longest and mine.span == other.span
    if expected.levels:
        there, here = found.levels[0].dense_index(), expected.levels[0].dense_index()
        assert (there is None) == (here is None)
        if there is not None and here is not None:
            assert there[0] == here[0]
            same(there[1], here[1])


def kept(limit: int | None = None) -> DeviceTries:
    driver = HostDriver()
    return DeviceTries(driver, RowOperations(driver), limit)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_tries_are_those_of_storage(data: st.DataObject) -> None:
    held, rows = kept(), data.draw(relations())
    if data.draw(st.booleans()):
        rows.store.sorted()
    # The first may be the longer one whose levels the second shares.
    for _ in range(2):
        order, tests, weighted = data.draw(asked(len(rows.types)))
        found = held.trie(rows, order, tests, weighted)
        same_tries(found, rows.trie(order, tests, weighted))
        assert not order or held.trie(rows, order, tests, weighted) is found


@settings(deadline=None, max_examples=60)
@given(relations(2), st.lists(st.sampled_from(OPS), max_size=2), st.booleans(), st.booleans())
def test_ranked_tries_are_those_of_storage(
    rows: Relation, ops: list[str], turned: bool, weighted: bool
) -> None:
    held = kept()
    order = (1, 0) if turned else (0, 1)
    tests = tuple((0, op, 1) for op in ops)
    same_tries(
        held.trie(rows, order, tests, weighted, True), rows.trie(order, tests, weighted, True)
    )
    there, here = held.graph(rows), rows.graph
    assert here is not None
    assert there.symmetric == here.symmetric and there.loops == here.loops
    assert there.skew == pytest.approx(here.skew)
    ways = ((0, ((0, "<", 1),)), (1, ((0, "<", 1),)), (0, ((0, "<", 1),)))
    assert there.paths(ways) == pytest.approx(here.paths(ways))
    for column in (0, 1):
        same(there.degrees(column, tests), here.degrees(column, tests), dtypes=False)


def test_paths_of_a_graph_need_no_kernel_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power of doubles would be compiled for the first query of a process."""
    monkeypatch.setattr(Elementwise, "real", lambda *given: pytest.fail("it is compiled"))
    driver: Any = HostDriver(own_arrays=True)
    rows = relation([(x, y) for x in range(6) for y in range(6) if (x * y) % 4 == 1], 2)
    there, here = DeviceTries(driver, RowOperations(driver)).graph(rows), rows.graph
    assert here is not None
    assert there.paths(((0, ()),) * 3) == here.paths(((0, ()),) * 3) > 0


@settings(deadline=None, max_examples=40)
@given(relations(), st.data())
def test_searches_in_tries(rows: Relation, data: st.DataObject) -> None:
    held = kept()
    order = tuple(range(len(rows.types)))
    there, here = held.trie(rows, order), rows.trie(order)
    wanted = np.array(data.draw(st.lists(SMALL | WIDE, max_size=9)), dtype=np.int64)
    upload = held.ops.xp.asarray
    same(there.levels[0].find(upload(wanted)), here.levels[0].find(wanted), dtypes=False)
    for mine, other in zip(there.levels[1:], here.levels[1:], strict=True):
        last = len(other.offsets) - 2
        drawn = data.draw(
            st.lists(st.integers(0, last), min_size=len(wanted), max_size=len(wanted))
            if last >= 0
            else st.just([])
        )
        parents = np.array(drawn, dtype=np.int64)
        values = wanted[: len(parents)]
        given = upload(parents), upload(values)
        same(mine.find_in(*given), other.find_in(parents, values), dtypes=False)
        for after in (False, True):
            if len(other):
                same(mine.bound_in(*given, after), other.bound_in(parents, values, after), False)


def test_one_trie_serves_both_orders_of_a_symmetric_relation() -> None:
    held, rows = kept(), relation([(1, 2), (2, 1), (2, 3), (3, 2)], 2)
    assert held.trie(rows, (1, 0)) is held.trie(rows, (0, 1))
    other = relation([(1, 2), (2, 3)], 2)
    assert held.trie(other, (1, 0)) is not held.trie(other, (0, 1))


def test_columns_are_copied_to_the_device_once() -> None:
    held, rows = kept(), relation([(1, 2), (2, 3), (1, 3)], 2)
    COUNTER.reset()
    held.trie(rows, (0, 1))
    assert COUNTER.uploads == 2
    held.trie(rows, (1, 0))
    held.trie(rows, (0,), (), True)
    held.trie(rows, (0, 1), ((0, "<", 1),))
    held.trie(rows.renamed(("a", "b")), (0, 1), (), False, True)
    assert COUNTER.uploads == 2


def test_what_is_kept_dies_with_the_relation() -> None:
    held, rows = kept(), relation([(1, 2), (2, 3)], 2)
    held.trie(rows, (0, 1))
    held.trie(rows, (), ((0, "<", 1),))
    assert held.nbytes_of(rows) == held.nbytes > 0
    del rows
    gc.collect()
    assert held.nbytes == 0


def test_what_was_used_longest_ago_goes_first() -> None:
    held = kept()
    first, second = (relation([(n, at) for at in range(50)], 2) for n in range(2))
    held.trie(first, (0, 1))
    held.trie(second, (0, 1))
    held.trie(first, (0, 1))
    gone = []
    while held.nbytes:
        before = held.nbytes_of(first), held.nbytes_of(second)
        held.shrink(held.nbytes - 1)
        gone.append(int(held.nbytes_of(first) == before[0]))
        rows = [store.store.on_device is None for store in (first, second)]
    assert gone == [0, 1, 1, 0] and rows == [True, True]


def test_a_budget_that_would_be_passed() -> None:
    held = kept()
    first, second = (relation([(n, at) for at in range(50)], 2) for n in range(2))
    held.trie(first, (0, 1))
    held.limit = held.nbytes + 100
    held.trie(second, (0, 1))
    assert held.nbytes_of(first) == 0 < held.nbytes <= held.limit


def test_what_somebody_holds_stays_within_a_budget_of_nothing() -> None:
    held, rows = kept(1), relation([(1, 2), (2, 3)], 2)
    trie = held.trie(rows, (0, 1))
    other = held.trie(rows, (1, 0))
    assert held.trie(rows, (0, 1)) is trie
    del trie, other
    held.shrink(0)
    assert held.nbytes == 0 and rows.store.on_device is None
    same_tries(held.trie(rows, (0, 1)), rows.trie((0, 1)))


def test_an_allocation_that_fails_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    held = kept()
    old, new = relation([(1, 2)], 2), relation([(3, 4), (4, 5)], 2)
    held.trie(old, (0, 1))
    failures = [MemoryError("full")]
    whole = held.ops.packing

    def packing(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return whole(*args)

    monkeypatch.setattr(held.ops, "packing", packing)
    same_tries(held.trie(new, (1, 0)), new.trie((1, 0)))
    assert held.nbytes_of(old) == 0
    failures += [MemoryError("full"), MemoryError("full")]
    with pytest.raises(MemoryError, match="full"):
        held.trie(relation([(5, 6), (6, 7)], 2), (1, 0))


def test_closing_lets_go_and_brings_home_what_is_nowhere_else() -> None:
    held, rows = kept(), relation([(1, 2), (2, 3)], 2)
    held.trie(rows, (0, 1))
    columns = tuple(map(held.ops.xp.asarray, (np.array([3, 1]), np.array([4, 2]))))
    made = Relation.of_blocks(("x", "y"), ("int", "int"), [columns], 2, True, held.ops)
    held.hold(made)
    assert len(made) == 2 and not made.store.on_host
    held.close()
    assert held.nbytes == 0 and rows.store.on_device is None
    assert made.store.on_host and made.store.on_device is None
    assert [key.tolist() for key in made.keys] == [[1, 3], [2, 4]]


@settings(deadline=None, max_examples=60)
@given(relations(), st.data())
def test_statistics_of_rows_on_a_device(rows: Relation, data: st.DataObject) -> None:
    """They are those that are counted here, where nothing is estimated."""
    ops = RowOperations(HostDriver())
    width, count = len(rows.types), len(rows)
    keys = tuple(map(ops.xp.asarray, rows.keys))
    there = Relation(rows.columns, rows.types, keys, count, ops)
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(count)))
        shuffled = tuple(
            map(ops.xp.asarray, (key[np.array(order, dtype=int)] for key in rows.keys))
        )
        there = Relation.of_blocks(rows.columns, rows.types, [shuffled], count, True, ops)
    if not count:
        return
    before, statistics.FETCHED = statistics.FETCHED, 0
    try:
        mine, other = there.statistics, rows.statistics
        assert mine.rows == other.rows and mine.rises == other.rises
        assert mine.loopless == other.loopless and mine.symmetric == other.symmetric
        for columns in ({0}, {width - 1}, set(range(width))):
            assert mine.distinct(frozenset(columns)) == other.distinct(frozenset(columns))
        for column in range(width):
            _, tests, _ = data.draw(asked(width))
            assert mine.degrees(column, tests) == other.degrees(column, tests)
            assert mine.size(tests) == other.size(tests)
            if rows.types[column] == "int":
                low = data.draw(st.integers(-3, 9))
                bounds = [(">=", low), ("<", low + data.draw(st.integers(-1, 9)))]
                assert mine.within(column, bounds) == other.within(column, bounds)
        if width == 2:
            assert mine.degrees(0, (), True) == other.degrees(0, (), True)
        assert mine.lists(0) is None and mine.set() is None
        assert not there.store.on_host
        if width == 2:
            held = DeviceTries(ops.driver, ops)
            for order in ((0, 1), (1, 0)):
                assert mine.sorting(order[0]) in (0, mine.rows)
                held.trie(there, order)
                assert mine.sorting(order[0]) == 0
                rows.trie(order)
                for tests in ((), ((0, "<", 1),)):
                    lists, expected = mine.lists(order[0], tests), other.lists(order[0], tests)
                    assert lists is not None and expected is not None
                    for name in ("values", "starts", "ends", "children"):
                        same(getattr(lists, name), getattr(expected, name), dtypes=False)
    finally:
        statistics.FETCHED = before
