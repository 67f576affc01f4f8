"""Duplicate rows: each of the ways to find them, against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.storage import duplicates, trie_builder
from gdatalog.storage.duplicates import distinct_rows
from gdatalog.storage.keys import narrow
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, spans_of
from gdatalog.storage.selection import rows_among
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.threads import LONG
from gdatalog.storage.trie_builder import trie_of_rows
from tests.cases import cases

COUNT = 40_000
random = np.random.default_rng(7)


def ints(low: int, high: int) -> np.ndarray:
    return random.integers(low, high, COUNT)


def tuples(rows: Columns) -> list[tuple[int, ...]]:
    return list(zip(*(key.tolist() for key in rows), strict=True))


def checked(rows: Columns) -> KnownRows:
    """Looks for duplicates; gives what is known of the rows then."""
    found, known = distinct_rows(rows)
    expected = set(tuples(rows))
    assert len(found[0]) == len(expected) and set(tuples(found)) == expected
    if known == KnownRows.SORTED:
        assert tuples(found) == sorted(expected)
    return known


def few_again(rows: Columns) -> Columns:
    """The rows, some of them twice."""
    again = random.integers(0, COUNT, 9)
    return tuple(np.append(key, key[again]) for key in rows)


NARROW = [ints(0, 1000), ints(-500, 500), ints(0, 2)]
WIDE = [ints(-(2**62), 2**62) // 999 * 999 for _ in range(3)]
LUMPY = [np.repeat(ints(-(2**61), 2**61)[: COUNT // 100], 100) for _ in range(3)]
IDS = random.permutation(COUNT) * 1_000_003
SORTED = np.sort(IDS)


@pytest.mark.parametrize(
    "columns, known",
    [
        ([SORTED, *NARROW], KnownRows.SORTED),
        ([*NARROW, SORTED], KnownRows.DISTINCT),
        ([*NARROW, IDS], KnownRows.DISTINCT),
        ([*NARROW, random.permutation(COUNT)], KnownRows.DISTINCT),
        (NARROW, KnownRows.SORTED),
        ([ints(0, 2**20) for _ in range(3)], KnownRows.DISTINCT),
        ([ints(0, 2**20) for _ in range(2)], KnownRows.SORTED),
        ([(ints(-(2**14), 2**14) * 2**16).astype(np.int32) for _ in range(3)], KnownRows.DISTINCT),
        ([ints(0, 2**20), ints(0, 2**16)], KnownRows.DISTINCT),
        ([ints(0, 2**20), ints(2**20, 2**21)], KnownRows.DISTINCT),
        ([ints(-(2**20), 0), *NARROW, ints(0, 2**40)], KnownRows.DISTINCT),
        (WIDE, KnownRows.DISTINCT),
        ([key // 2**40 * 2**40 for key in WIDE], KnownRows.DISTINCT),
        (LUMPY, KnownRows.SORTED),
        (np.sort(np.array(NARROW), axis=1), KnownRows.SORTED),
        ([ints(0, 100)], KnownRows.SORTED),
        ([np.full(COUNT, 3)] * 2, KnownRows.SORTED),
    ],
)  # fmt: skip
def test_rows_of_every_shape(columns: list[np.ndarray], known: KnownRows) -> None:
    rows = tuple(columns)
    assert checked(rows) == known
    assert checked(few_again(rows)) >= KnownRows.DISTINCT
    assert checked(tuple(key[::-1] for key in rows)) >= KnownRows.DISTINCT
    small = tuple(key.astype(np.int32) for key in rows if abs(key).max() < 2**31)
    if small:
        checked(small)


def test_rows_of_one_hash_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(rows: Columns) -> np.ndarray:
        return np.arange(len(rows[0])) // 2 * 2 % 39_000

    rows = tuple(key // 2**30 * 2**30 for key in WIDE)
    monkeypatch.setattr(duplicates, "_hashes", poor)
    monkeypatch.setattr(duplicates, "_differs_in_sample", lambda key: False)
    assert checked(rows) >= KnownRows.DISTINCT

    def good(rows: Columns) -> np.ndarray:
        numbers = np.arange(len(rows[0]))
        numbers[7], numbers[11] = numbers[9], numbers[10]  # 7 and 9 differ, 10 and 11 do not
        return numbers

    monkeypatch.setattr(duplicates, "_hashes", good)
    again = tuple(np.append(key[:11], key[10:]) for key in rows)
    assert checked(again) == KnownRows.DISTINCT


def test_rows_of_many_columns() -> None:
    wide = [ints(0, 2**12) for _ in range(6)]
    assert checked(tuple(wide)) == KnownRows.DISTINCT
    assert checked(few_again(tuple(wide))) == KnownRows.DISTINCT
    # Nearly everywhere only the last column tells rows apart.
    alike = np.arange(COUNT) % 20_000 >= 256
    same = [np.where(alike, key[::-1] % 2, key) for key in wide]
    assert checked((*same, ints(0, 2**11))) >= KnownRows.DISTINCT


def test_very_many_rows_have_longer_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MANY", COUNT)
    rows = tuple(ints(0, 2**20) for _ in range(3))
    assert duplicates._hashes(rows).dtype == np.int32
    assert duplicates._hashes(few_again(rows)).dtype == np.int64
    assert checked(few_again(rows)) == KnownRows.DISTINCT


def test_long_columns_are_looked_at_in_parts() -> None:
    count = LONG + 70_001
    rows = (
        random.integers(0, 2**17, count).astype(np.int32),
        random.integers(-(2**62), 2**62, count) // 2**50 * 2**50,
        random.integers(0, 2, count).astype(np.int32),
    )
    again = tuple(np.append(key, key[-3:]) for key in rows)
    found, known = distinct_rows(again)
    assert known == KnownRows.DISTINCT and all(
        map(np.array_equal, sort_rows(found), sort_rows(rows))
    )
    assert spans_of([again]) == [(int(key.min()), int(key.max())) for key in rows]
    among = np.unique(rows[1][::5000])
    assert rows_among(rows[1], among).tolist() == np.flatnonzero(np.isin(rows[1], among)).tolist()
    among = np.unique(rows[0][::50])
    assert rows_among(rows[0], among).tolist() == np.flatnonzero(np.isin(rows[0], among)).tolist()


@pytest.mark.parametrize("high", [2**17, 2**19, 2**40])
def test_how_often_values_stand_in_a_long_column(high: int) -> None:
    column = random.integers(-5, high, LONG + 70_001)
    trie = trie_of_rows([column], len(column), weighted=True)
    values, counts = np.unique(column, return_counts=True)
    assert trie.levels[0].values.tolist() == values.tolist() and trie.weights is not None
    assert trie.weights.tolist() == counts.tolist() and trie.total == len(column)


@settings(max_examples=cases(80), deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.tuples(*[st.sampled_from([0, 1, -1, 2**40, -(2**63), 2**63 - 1])] * n),
            min_size=1,
            max_size=40,
        )
    )
)
def test_drawn_rows(found: list[tuple[int, ...]]) -> None:
    checked(tuple(np.array(column) for column in zip(*found, strict=True)))


@settings(max_examples=cases(80), deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.tuples(*[st.integers(-3, 9) | st.sampled_from([2**20, -(2**40), 2**62])] * n),
            min_size=2,
            max_size=40,
        )
    ),
    st.booleans(),
)
def test_tries_of_few_rows_are_those_of_many(found: list[tuple[int, ...]], few: bool) -> None:
    columns = [narrow(np.array(column)) for column in zip(*found, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            trie_builder, "SORTED_BY_ONE_BELOW", trie_builder.SORTED_BY_ONE_BELOW if few else 0
        )
        trie = trie_of_rows(columns, len(found), weighted=False)
    assert trie.total == len(set(found))
    assert [level.values.dtype for level in trie.levels] == [column.dtype for column in columns]
    rows: list[tuple[int, ...]] = [()]
    for level in trie.levels:
        lists = [
            level.values[start:end].tolist()
            for start, end in zip(level.offsets, level.offsets[1:], strict=False)
        ]
        rows = [(*row, value) for row, values in zip(rows, lists, strict=True) for value in values]
    assert rows == sorted(set(found))


def test_what_is_learnt_stays_with_the_relation() -> None:
    rows = tuple(ints(0, 2**20) for _ in range(3))
    relation = Relation.of_blocks(("a", "b", "c"), ("int",) * 3, [rows], COUNT)
    assert relation.store.known < KnownRows.DISTINCT
    assert len(relation) == COUNT
    assert relation.store.known >= KnownRows.DISTINCT and not relation.sorted
    assert relation.renamed(("x", "y", "z")).store.known >= KnownRows.DISTINCT
    assert (relation.column(0) == rows[0]).all()  # as they lie
    assert relation.spans == spans_of([rows])
