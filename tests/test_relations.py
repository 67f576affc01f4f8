"""Relations whose rows are sorted, or made distinct, only when that is asked for.

What depends on how many rows there are is made to depend on nothing: the few rows of these
tests go the way of millions.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import cpu_ops
from gdatalog.engine.derived import DistinctBlocks, in_order, relation_of
from gdatalog.result import Result
from gdatalog.storage import keys, relation, row_store, rows, threads, trie_builder
from gdatalog.storage.frames import table_from
from gdatalog.storage.key_columns import relation_of_table
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import order_distinct, order_rows, row_firsts
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.threads import sort_values
from gdatalog.storage.trie import Trie
from tests.cases import cases

quick = settings(
    max_examples=cases(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SMALL = st.integers(-3, 3)
WIDE = st.integers(-(2**63), 2**63 - 1) | SMALL
Row = tuple[int, ...]


@pytest.fixture
def as_if_long(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (keys, relation, row_store, rows, threads, threads, trie_builder):
        for name in ("LONG", "SORTED_BELOW", "SORTED_BY_COLUMN_BELOW", "SORTED_BY_ONE_BELOW"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(threads, "BATCH", 3)
    monkeypatch.setattr(keys, "_PIECE", 2)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    yield


def row_lists(values: st.SearchStrategy[int], most: int = 30) -> st.SearchStrategy[list[Row]]:
    width = st.shared(st.integers(1, 4), key="width")
    return width.flatmap(lambda n: st.lists(st.tuples(*[values] * n), min_size=1, max_size=most))


LISTS = row_lists(SMALL) | row_lists(WIDE)


def columns_of(found: Sequence[Row], dtype: Any = np.int64) -> tuple[Array, ...]:
    return tuple(np.array(column, dtype=dtype) for column in zip(*found, strict=True))


def made(found: Sequence[Row], cuts: int = 1, distinct: bool = False) -> Relation:
    """A relation of rows that come in blocks."""
    width = len(found[0])
    if distinct:
        found = list(dict.fromkeys(found))
    size = max(1, len(found) // cuts)
    blocks = [columns_of(found[at : at + size]) for at in range(0, len(found), size)]
    names = tuple(f"c{at}" for at in range(width))
    return Relation.of_blocks(names, ("int",) * width, blocks, len(found), distinct)


def tuples(columns: Sequence[Array]) -> list[Row]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def paths(trie: Trie) -> list[Row]:
    found: list[tuple[Row, int]] = [((), 0)]
    for level in trie.levels:
        found = [
            ((*path, int(level.values[at])), at)
            for path, node in found
            for at in range(level.offsets[node], level.offsets[node + 1])
        ]
    return [path for path, _ in found]


@quick
@given(LISTS, st.integers(1, 4), st.booleans())
def test_rows_are_a_set_whenever_it_is_asked_for(
    as_if_long: None, found: list[Row], cuts: int, distinct: bool
) -> None:
    expected = sorted(set(found))
    assert len(made(found, cuts, distinct)) == len(expected)
    assert tuples(made(found, cuts, distinct).keys) == expected
    whole = made(found, cuts, distinct)
    assert not whole.sorted and whole.at_most >= len(expected)
    assert sorted(row for block in whole.blocks() for row in tuples(block)) == expected
    assert tuples(whole.keys) == expected and whole.sorted
    assert whole.at_most == len(whole) == len(expected)
    assert tuples(pickle.loads(pickle.dumps(made(found, cuts))).keys) == expected


@quick
@given(LISTS, st.integers(1, 3), st.data())
def test_tries_of_rows_in_any_order(
    as_if_long: None, found: list[Row], cuts: int, data: st.DataObject
) -> None:
    width = len(found[0])
    order = tuple(data.draw(st.permutations(range(width)))[: data.draw(st.integers(0, width))])
    tests = ((0, "<", width - 1),) if data.draw(st.booleans()) else ()
    weighted = data.draw(st.booleans())
    whole = made(found, cuts)
    if data.draw(st.booleans()):
        assert len(whole.keys[0]) == len(set(found))
    trie = whole.trie(order, tests, weighted)
    kept = [row for row in set(found) if not tests or row[0] < row[width - 1]]
    shown = [tuple(row[at] for at in order) for row in kept]
    if order:
        assert paths(trie) == sorted(set(shown))
    if not order or weighted:
        assert trie.total == len(kept)
    if order and weighted:
        assert trie.weights is not None
        assert trie.weights.tolist() == [shown.count(path) for path in paths(trie)]
    for at, level in zip(order, trie.levels, strict=True):
        fits = all(-(2**31) <= row[at] < 2**31 for row in found)
        assert level.values.dtype == (np.int32 if fits else np.int64)


@quick
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=12), st.booleans())
def test_symmetry_of_rows_that_come_twice(as_if_long: None, found: list[Row], mirror: bool) -> None:
    if mirror:
        found += [(b, a) for a, b in set(found)]
    whole = made(found)
    turned = paths(whole.trie((1, 0)))
    assert turned == sorted({(b, a) for a, b in found})
    expected = {(b, a) for a, b in found} == set(found)
    assert whole.symmetric == expected
    assert whole.renamed(("x", "y")).symmetric == expected
    if expected:
        assert whole.trie((1, 0)) is whole.trie((0, 1))


@quick
@given(LISTS)
def test_statistics_of_rows_that_come_twice(as_if_long: None, found: list[Row]) -> None:
    whole = made(found + found[::-1])
    for at in range(len(found[0])):
        if len(found[0]) > 1:
            values = {row[at] for row in found}
            assert whole.statistics.distinct(frozenset({at})) == len(values)
        assert whole.statistics.ascends(0, at) == all(row[0] < row[at] for row in found)
    assert not whole.sorted


def test_wide_rows_are_told_apart_by_numbers(as_if_long: None) -> None:
    random = np.random.default_rng(3)
    columns = [random.integers(-(2**62), 2**62, 500) for _ in range(3)]
    columns[0][250:] = columns[0][:250]  # no column tells them apart
    names, types = ("a", "b", "c"), ("int",) * 3
    apart = Relation.of_blocks(names, types, [tuple(columns)], 500)  # type: ignore[arg-type]
    assert len(apart) == 500 and not apart.sorted
    again = [np.append(column, column[:7]) for column in columns]
    few = Relation.of_blocks(names, types, [tuple(again)], 507)  # type: ignore[arg-type]
    assert len(few) == 500 and not few.sorted
    assert sorted(tuples(few.blocks()[0])) == sorted(tuples(columns))
    twice = [np.append(column, column) for column in columns]
    many = Relation.of_blocks(names, types, [tuple(twice)], 1000)  # type: ignore[arg-type]
    assert len(many) == 500 and tuples(many.keys) == sorted(tuples(columns))


def test_a_column_of_different_values_tells_rows_apart(as_if_long: None) -> None:
    random = np.random.default_rng(4)
    columns = (random.integers(0, 9, 300), random.permutation(300) - 50)
    whole = Relation.of_blocks(("a", "b"), ("int", "int"), [columns], 300)
    assert len(whole) == 300 and not whole.sorted


def changed_by_pandas(frame: pd.DataFrame) -> None:
    frame.loc[0, "a"] = 70
    frame.iloc[1, 1] = 71
    frame["a"] += 72
    frame.iloc[:, 0] = 73
    frame.replace({73: 74}, inplace=True)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int16", "uint8"])
@pytest.mark.parametrize("shift", [0, 40])
@pytest.mark.parametrize("form", ["frame", "series", "array", "matrix", "arrow", "result"])
def test_a_relation_is_not_changed_with_its_data(form: str, dtype: str, shift: int) -> None:
    ascending = np.arange(6, dtype=dtype) << (shift if dtype == "int64" else 0)
    matrix = np.stack([ascending, ascending], axis=1)
    frame = pd.DataFrame({"a": ascending, "b": ascending})
    column = pd.Series(ascending, name="a")
    data: dict[str, Any] = {
        "frame": frame,
        "series": column,
        "array": ascending,
        "matrix": matrix,
        "arrow": pa.table({"a": ascending, "b": ascending}),
        "result": gd.query("?- r.", {"r": frame}),
    }
    db = gd.connect()
    db["r"] = data[form]
    before = sorted(db["r"].fetchall())
    assert len(before) == 6
    changed_by_pandas(frame)
    column.iloc[0], column.iloc[2:4] = 75, 76
    ascending[:], matrix[:] = 77, 78
    assert sorted(db["r"].fetchall()) == before
    if form in ("frame", "matrix"):
        assert db.query("n(count()) <- r(x, y), r(y, x).").fetchall() == [(6,)]


@pytest.mark.skipif(int(pd.__version__.split(".")[0]) < 3, reason="pandas 3 copies on write")
def test_columns_of_a_frame_are_not_copied() -> None:
    frame = pd.DataFrame({"a": np.arange(9, dtype=np.int32)})
    whole = relation_of_table(table_from(frame), SymbolTable())
    assert np.shares_memory(whole.column(0), frame["a"].to_numpy())
    assert not np.shares_memory(pickle.loads(pickle.dumps(whole)).column(0), frame["a"])


def test_threads_sort_one_relation_at_the_same_time(as_if_long: None) -> None:
    found = [(int(a), int(b)) for a, b in np.random.default_rng(5).integers(0, 50, (4000, 2))]
    whole = made(found, 7)
    with ThreadPoolExecutor(4) as pool:
        everyone = list(
            pool.map(lambda at: (len(whole), whole.keys, whole.trie((at % 2,))), range(8))
        )
    for length, sorted_keys, _ in everyone:
        assert length == len(set(found)) and sorted_keys is whole.keys
    assert tuples(whole.keys) == sorted(set(found))


# ------------------------------------------------------------------------------------ answers


def result_of(whole: Relation) -> Result:
    return Result(whole, SymbolTable())


@quick
@given(LISTS, st.integers(1, 4), st.integers(0, 40))
def test_answers_in_blocks(as_if_long: None, found: list[Row], cuts: int, n: int) -> None:
    whole = made(found, cuts, distinct=True)
    result = result_of(whole)
    fetched = result.fetchall()
    assert sorted(fetched) == sorted(set(found)) and not whole.sorted
    columns = result.to_arrow().to_pydict().values()
    assert list(zip(*columns, strict=True)) == fetched
    assert result.head(n).fetchall() == fetched[:n]
    assert result.head(n).sorted().fetchall() == sorted(fetched[:n])
    assert result.sorted().fetchall() == sorted(fetched) and whole.sorted
    assert result.fetchall() == fetched  # in the order of the first time
    assert [len(part) for part in result._picked(3)] == (
        [2, 1] if len(fetched) > 3 else [len(fetched), 0]
    )


def test_values_of_all_types_leave_in_blocks(as_if_long: None) -> None:
    symbols = SymbolTable()
    codes = [symbols.intern(text) for text in ("b", "a", "é")]
    halves = keys.float_to_key(np.array([0.5, -1.0, np.inf]))
    blocks = [
        (
            np.array(codes[:2], dtype=np.int32),
            halves[:2],
            np.array([1, 0], dtype=np.int32),
            np.array([5, 2**40]),
        ),
        (np.array(codes[2:], dtype=np.int32), halves[2:], np.array([1]), np.array([-1])),
    ]
    types = ("symbol", "float", "bool", "int")
    whole = Relation.of_blocks(("s", "f", "b", "i"), types, blocks, 3, distinct=True)
    result = Result(whole, symbols)
    expected = [("b", 0.5, True, 5), ("a", -1.0, False, 2**40), ("é", np.inf, True, -1)]
    assert result.fetchall() == expected
    assert [str(kind) for kind in result.to_arrow().schema.types] == [
        "string",
        "double",
        "bool",
        "int64",
    ]
    assert list(result.df().itertuples(index=False, name=None)) == expected
    assert [row[0] for row in result.sorted().fetchall()] == ["a", "b", "é"]


def test_no_rows_and_no_columns() -> None:
    nothing = Relation.of_blocks(("x",), ("int",), [], 0, distinct=True)
    assert result_of(nothing).fetchall() == [] and result_of(nothing).head(1).df().shape == (0, 1)
    assert str(result_of(nothing).to_arrow().schema.types[0]) == "int64"
    true = Relation.of_blocks((), (), [(), ()], 2)
    assert len(true) == 1 and result_of(true).fetchall() == [()]
    assert result_of(true).sorted().head(0).fetchall() == []
    assert result_of(Relation((), (), (), 0)).fetchall() == []


@quick
@given(st.lists(LISTS, max_size=3), st.data())
def test_what_rules_give(as_if_long: None, many: list[list[Row]], data: st.DataObject) -> None:
    width = len(many[0][0]) if many else 2
    parts: list[Any] = []
    for found in many:
        distinct = list(dict.fromkeys(found))
        if data.draw(st.booleans()):
            blocks = [columns_of([row]) for row in distinct]
            parts.append(DistinctBlocks(blocks, len(distinct)))
            expected = in_order(parts[-1], cpu_ops)
        else:
            parts.append((columns_of(sorted(distinct)), len(distinct)))
            expected = in_order(parts[-1], cpu_ops)
        assert tuples(expected[0]) == sorted(distinct) and expected[1] == len(distinct)
    names, types = tuple(f"c{at}" for at in range(width)), ("int",) * width
    whole = relation_of(names, types, parts, cpu_ops)  # type: ignore[arg-type]
    assert tuples(whole.keys) == sorted({row for found in many for row in found})
    assert len(whole.keys) == width


def test_a_proposition_that_rules_give() -> None:
    for part, expected in (
        (((), 1), 1),
        (((), 0), 0),
        (DistinctBlocks([()], 1), 1),
        (DistinctBlocks([], 0), 0),
    ):
        assert len(relation_of((), (), [part], cpu_ops)) == expected  # type: ignore[list-item]
        assert in_order(part, cpu_ops) == ((), expected)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------ sorting


@quick
@given(st.lists(WIDE, min_size=1) | st.lists(SMALL, min_size=1))
def test_long_arrays_are_sorted(as_if_long: None, found: list[int]) -> None:
    values = np.array(found)
    kept = values.copy()
    assert sort_values(values).tolist() == sorted(found)
    assert (values == kept).all()
    narrow = (values % 100).astype(np.int32)
    ordered = sort_values(narrow)
    assert ordered.dtype == np.int32 and ordered.tolist() == sorted(narrow.tolist())


def test_arrays_of_many_values_are_sorted(as_if_long: None) -> None:
    random = np.random.default_rng(6)
    for values in (
        random.integers(-(2**63), 2**63 - 1, 50_000),
        random.zipf(1.3, 50_000) % 2**30,
        random.integers(5, 8, 50_000),
        np.full(50_000, -7),
    ):
        assert (sort_values(values) == np.sort(values)).all()


@quick
@given(LISTS)
def test_the_order_of_wide_rows(as_if_long: None, found: list[Row]) -> None:
    columns = columns_of(found)
    assert order_rows(columns).tolist() == sorted(range(len(found)), key=lambda at: found[at])
    order, marks = order_distinct(columns)
    assert [found[at] for at in order[marks]] == sorted(set(found))
    assert tuples(sort_rows(columns)) == sorted(set(found))


@pytest.mark.parametrize("few", [2, 1 << 20])
@pytest.mark.parametrize("twice", [False, True])
def test_few_wide_rows_that_begin_alike_are_sorted_twice(
    few: int, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the first columns tell apart are sorted once; those left are sorted alone."""
    sorts: list[int] = []
    plain = rows._sorted_by

    def counted(*given: Any) -> Array:
        sorts.append(given[-1])
        return plain(*given)

    monkeypatch.setattr(rows, "_sorted_by", counted)
    random, count = np.random.default_rng(few), 70_000
    columns = [random.integers(0, few, count) << 20, *random.integers(0, 1 << 40, (2, count))]
    columns[0][:300], columns[1][:300] = 1, random.integers(0, 9, 300)  # these rows begin alike
    columns[2][:90] = 5
    if twice:
        columns = [np.concatenate([column, column]) for column in columns]
    order, marks = order_distinct(columns)
    assert (order == np.lexsort(columns[::-1])).all()
    assert (marks == row_firsts([column[order] for column in columns])).all()
    assert len(sorts) == (1 if not twice else 3)
