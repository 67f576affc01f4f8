"""Statistics of relations: degrees, lists to walk along, what an index takes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.storage.degrees import MOMENTS, Degrees
from gdatalog.storage.relation import Relation
from tests.cases import cases
from tests.orders import skewed

PAIRS = st.lists(st.tuples(st.integers(-6, 9), st.integers(0, 12)), max_size=60)
TESTS = st.sampled_from([(), ((0, "<", 1),), ((0, ">=", 1),), ((0, "!=", 1),), ((0, "=", 1),)])
HOLDS: dict[str, Any] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
    "=": lambda a, b: a == b,
}


def relation(rows: Any) -> Relation:
    columns = [np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1)]
    found = Relation.from_rows(("a", "b"), ("int", "int"), columns, len(rows))
    assert len(found.keys) == 2  # sorted
    return found


def passing(rows: Any, tests: Any) -> set[tuple[int, int]]:
    return {row for row in rows if all(HOLDS[op](row[a], row[b]) for a, op, b in tests)}


@settings(max_examples=cases(60), deadline=None)
@given(PAIRS, TESTS, st.sampled_from([0, 1]))
def test_degrees(rows: Any, tests: Any, column: int) -> None:
    statistics = relation(rows).statistics
    kept = passing(rows, tests)
    counts = Counter(row[column] for row in kept).values()
    degrees = statistics.degrees(column, tests)
    assert degrees.most == max(counts, default=0)
    assert degrees.powers == tuple(sum(n**k for n in counts) for k in range(MOMENTS + 1))
    assert statistics.size(tests) == len(kept)


@settings(max_examples=cases(60), deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, most) for most in (3, 9, 60, 900)]), max_size=60),
    st.permutations([frozenset(some) for n in (1, 2, 3) for some in combinations(range(4), n)]),
    st.lists(st.integers(0, 3)),
)
def test_how_many_combinations_there_are_whatever_was_asked_before(
    rows: Any, asked: Any, degrees: Any
) -> None:
    columns = [np.array([row[at] for row in rows], dtype=np.int64) for at in range(4)]
    whole = Relation.from_rows(tuple("abcd"), ("int",) * 4, columns, len(rows))
    for column in degrees:
        whole.statistics.degrees(column)
    for some in asked:
        exact = len({tuple(row[at] for at in sorted(some)) for row in rows})
        assert whole.statistics.distinct(some) == exact


@pytest.mark.parametrize("wide", [1, 3, 50])
def test_degrees_are_counted_or_sorted(wide: int) -> None:
    column = np.random.default_rng(wide).integers(0, 3000 * wide, 3000)
    rows = [column, np.arange(3000)]
    degrees = Relation.from_rows(("a", "b"), ("int", "int"), rows, 3000).statistics.degrees(0)
    assert degrees == Degrees.of(np.unique(column, return_counts=True)[1])


@pytest.mark.parametrize("spread", [1, 1 << 20, 1 << 40])
def test_distinct_values_of_many_rows(spread: int) -> None:
    """Rows that most values share with none hide in a sample how few values there are."""
    random = np.random.default_rng(5)
    column = (300_000 * random.random(1_200_000) ** 4).astype(np.int64) * spread
    rows = [np.arange(len(column))[::-1], column]
    found = Relation.from_rows(("a", "b"), ("int", "int"), rows, len(column))
    exact = len(np.unique(column))
    assert found.statistics.distinct(frozenset((1,))) == pytest.approx(exact, rel=0.05)


def test_degrees_of_a_sample_are_about_right() -> None:
    random = np.random.default_rng(3)
    values = (10_000 * random.power(0.4, 400_000)).astype(np.int64) * 1_000_003
    exact = Degrees.of(np.unique(values, return_counts=True)[1])
    step = 8
    counts = np.unique(values[::step], return_counts=True)[1]
    sampled = Degrees.of_sample(counts, step, len(values), int(exact.powers[0]))
    for k in (1, 2, 3):
        assert sampled.powers[k] == pytest.approx(exact.powers[k], rel=0.2)
    once = Degrees.of_sample(np.ones(50, dtype=np.int64), 10, 500, 500)
    assert once.most == 1 and once.powers[2] == 500


@settings(max_examples=cases(60), deadline=None)
@given(PAIRS.filter(bool), TESTS, st.sampled_from([0, 1]))
def test_lists_are_those_of_the_rows(rows: Any, tests: Any, column: int) -> None:
    whole = relation(rows)
    whole.trie((1, 0))
    lists = whole.statistics.lists(column, tests)
    if any(op == "=" for _, op, _ in tests):
        assert lists is None
        return
    assert lists is not None
    tests = tuple(test for test in tests if test[1] != "!=")  # which is not looked at
    found = {
        (int(value), int(child))
        for value, start, end in zip(lists.values, lists.starts, lists.ends, strict=True)
        for child in lists.children[start:end]
    }
    assert found == {(row[column], row[1 - column]) for row in passing(rows, tests)}


@settings(max_examples=cases(60), deadline=None)
@given(rows=PAIRS, tests=TESTS, column=st.integers(0, 1), both_ways=st.booleans())
def test_lists_tell_degrees(rows: Any, tests: Any, column: int, both_ways: bool) -> None:
    rows = sorted({*rows, *((b, a) for a, b in rows)} if both_ways else set(rows))
    if not rows:
        return
    statistics = relation(rows).statistics
    assert statistics.symmetric == all((b, a) in rows for a, b in rows)
    statistics.lists(0)
    found = statistics.degrees(column, tests)
    assert found == Degrees.of(
        np.array([*Counter(row[column] for row in passing(rows, tests)).values()], dtype=np.int64)
    )


def test_lists_are_only_there_where_no_sort_is_needed() -> None:
    one_way = relation([(1, 2), (1, 3), (2, 3)])
    assert one_way.statistics.lists(0) is not None and one_way.statistics.lists(1) is None
    assert one_way.statistics.sorting(0) == 0 and one_way.statistics.sorting(1) == 3
    one_way.trie((1, 0))
    assert one_way.statistics.lists(1) is not None and one_way.statistics.sorting(1) == 0
    both_ways = relation([(1, 2), (2, 1)])
    assert both_ways.statistics.lists(1) is not None and both_ways.statistics.sorting(1) == 0
    assert relation([(1, 2)]).statistics.set() is None
    assert Relation.from_rows(("a",), ("int",), [np.arange(3)], 3).statistics.set() is not None


@pytest.mark.parametrize("rows", [skewed(20, 40, seed=1), [(1, 2), (1, 3), (2, 3), (4, 4)]])
@pytest.mark.parametrize("tests", [(), ((0, "<", 1),), ((0, ">", 1),)])
def test_degrees_by_rank(rows: Any, tests: Any) -> None:
    whole = relation(rows)
    statistics = whole.statistics
    before = statistics.lists(0, tests, ranked=True)
    degrees = [statistics.degrees(column, tests, ranked=True) for column in (0, 1)]
    first, second = whole.trie((0, 1), tests, ranked=True).levels
    assert degrees[0].powers[:2] == (len(first), len(second)) and before is None
    assert degrees[0].powers[2] == (np.diff(second.offsets) ** 2).sum()
    assert degrees[1].powers[2] == (np.bincount(second.values) ** 2).sum()
    assert statistics.lists(0, tests, ranked=True) is not None


def test_the_first_levels_of_a_longer_index_are_an_index() -> None:
    rows = Relation.from_rows(
        ("a", "b", "c"), ("int",) * 3, [np.array([2, 1, 2]), np.array([1, 1, 3]), np.arange(3)], 3
    )
    longer = rows.trie((1, 0, 2))
    shorter = rows.trie((1, 0))
    assert shorter.levels[0] is longer.levels[0] and shorter.total == 3
    assert rows.trie((1,)).total == 2 and rows.trie((1,), weighted=True).levels != longer.levels[:1]
    assert rows.trie((1,), ((0, "<", 1),)).total == 1
    assert rows.trie_nbytes >= longer.nbytes
