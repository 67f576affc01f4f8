"""The verbs that executors are written over, and what storage is made of, against plain Python.

One section for each kind of thing; they share their strategies.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog import cpu_ops as ops
from gdatalog.cpu_ops.arrays import pieces
from gdatalog.executors.ops import Ops
from gdatalog.storage import symbols as symbols_module
from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import RowOps
from gdatalog.storage.rows import RowPacking, first_rows, in_sorted, sorted_set
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import TextColumn
from gdatalog.storage.trie import Trie, TrieLevel
from gdatalog.storage.trie_builder import build_trie
from gdatalog.values import INT_MAX, INT_MIN
from tests.cases import cases

INT32 = (-(1 << 31), (1 << 31) - 1)
SMALL = st.integers(-3, 6)
MEDIUM = SMALL | st.sampled_from([*INT32, 1 << 20, -(1 << 20)])
LARGE = MEDIUM | st.sampled_from([INT_MIN, INT_MIN + 1, INT_MAX - 1, INT_MAX, 1 << 40, -(1 << 40)])

quick = settings(max_examples=cases(60), deadline=None)


def ints(values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype=dtype)


def columns_of(rows: list[tuple[int, ...]], width: int, dtypes: list[Any]) -> tuple[Any, ...]:
    return tuple(ints([row[at] for row in rows], dtypes[at]) for at in range(width))


def tuples(columns: Any) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def row_sets(draw: Callable[..., Any]) -> tuple[list[tuple[int, ...]], tuple[Any, ...]]:
    """Rows as tuples and as columns: narrow and wide ones, of 32 and of 64 bits, mixed."""
    width = draw(st.integers(1, 4))
    kinds = [draw(st.sampled_from([(SMALL, np.int32), (MEDIUM, np.int32), (SMALL, np.int64),
                                   (LARGE, np.int64)])) for _ in range(width)]  # fmt: skip
    rows = draw(st.lists(st.tuples(*(values for values, _ in kinds)), max_size=30))
    return rows, columns_of(rows, width, [dtype for _, dtype in kinds])


# ------------------------------------------------------------------------------------ verbs


@quick
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=20))
def test_expand(lists: list[tuple[int, int]]) -> None:
    starts, lengths = [s for s, _ in lists], [n for _, n in lists]
    rows, positions = ops.expand(ints(starts), ints(lengths))
    assert list(zip(rows.tolist(), positions.tolist(), strict=True)) == [
        (row, start + at) for row, (start, length) in enumerate(lists) for at in range(length)
    ]


@quick
@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 9))
def test_pieces_cover_every_entry_once_and_are_small(lengths: list[int], limit: int) -> None:
    seen = []
    for low, high, skip, take, size in pieces(ints(lengths), limit):
        if take < 0:
            entries = [(row, at) for row in range(low, high) for at in range(lengths[row])]
        else:
            assert high == low + 1
            entries = [(low, at) for at in range(skip, skip + take)]
        assert 0 < len(entries) == size <= limit
        seen += entries
    assert seen == [(row, at) for row, length in enumerate(lengths) for at in range(length)]


@quick
@given(st.lists(st.sets(LARGE, max_size=12), min_size=1, max_size=4))
def test_intersect(sets: list[set[int]]) -> None:
    lists = [ints(sorted(values)) for values in sets]
    values, positions = ops.intersect(lists)
    assert values.tolist() == sorted(set.intersection(*sets))
    for at, place in zip(lists, positions, strict=True):
        assert at[place].tolist() == values.tolist()


@quick
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), max_size=25))
def test_sums_by_group(pairs: list[tuple[int, int]]) -> None:
    pairs.sort()
    rows, amounts = ints([row for row, _ in pairs]), ints([amount for _, amount in pairs])
    expected = [sum(amount for row, amount in pairs if row == at) for at in range(6)]
    counts = [sum(row == at for row, _ in pairs) for at in range(6)]
    totals, counted = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64)
    ops.add_at(totals, rows, amounts)
    ops.add_at(counted, rows, None)
    assert totals.tolist() == ops.sums_by(rows, 6, amounts).tolist() == expected
    assert counted.tolist() == ops.sums_by(rows, 6, None).tolist() == counts


@quick
@given(st.lists(st.tuples(st.integers(0, 5), LARGE), min_size=1), st.booleans())
def test_best_by_group(pairs: list[tuple[int, int]], least: bool) -> None:
    names = sorted({group for group, _ in pairs})
    groups = ints([names.index(group) for group, _ in pairs])
    values = ints([value for _, value in pairs])
    best = ops.best_by(groups, len(names), values, least)
    pick = min if least else max
    assert values[best].tolist() == [
        pick(value for group, value in pairs if group == name) for name in names
    ]
    assert groups[best].tolist() == list(range(len(names)))


# ------------------------------------------------------------------------------------- rows


@quick
@given(row_sets())
def test_sort_rows(both: tuple[list[tuple[int, ...]], tuple[Any, ...]]) -> None:
    rows, columns = both
    found = sort_rows(columns)
    assert tuples(found) == sorted(set(rows))
    assert [column.dtype for column in found] == [column.dtype for column in columns]


@quick
@given(row_sets())
def test_first_rows_and_groups(both: tuple[list[tuple[int, ...]], tuple[Any, ...]]) -> None:
    rows, columns = both
    assert first_rows(columns).tolist() == sorted({rows.index(row) for row in rows})
    first, groups = group_rows(columns, len(rows))
    distinct = sorted(set(rows))
    assert groups.tolist() == [distinct.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in distinct]


@pytest.mark.parametrize("length", [0, 1, 3])
def test_rows_without_columns_are_one_group(length: int) -> None:
    first, groups = group_rows((), length)
    assert (first.tolist(), groups.tolist()) == ([0] * min(1, length), [0] * length)


@quick
@given(row_sets())
def test_packing_keeps_order_and_rows(both: tuple[list[tuple[int, ...]], tuple[Any, ...]]) -> None:
    rows, columns = both
    packing = RowPacking.of(columns)
    ranges = [max(c.tolist()) - min(c.tolist()) if len(c) else 0 for c in columns]
    if sum(width.bit_length() for width in ranges) > 63:
        assert packing is None
        return
    assert packing is not None and packing.holds(columns)
    packed = packing.pack(columns)
    assert tuples(packing.unpack(packed, [c.dtype for c in columns])) == rows
    assert [rows[at] for at in np.argsort(packed, kind="stable")] == sorted(rows)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("scale", [1, 1000, 1 << 20])
def test_sets_of_one_column_marked_or_sorted(scale: int, dtype: Any) -> None:
    values = ints(np.random.default_rng(1).integers(-1000, 1000, 5000) * scale, dtype)
    found = sorted_set(values)
    assert found.tolist() == np.unique(values).tolist() and found.dtype == dtype


@quick
@given(st.lists(LARGE), st.sets(LARGE))
def test_in_sorted(values: list[int], among: set[int]) -> None:
    assert in_sorted(ints(values), ints(sorted(among))).tolist() == [v in among for v in values]


@quick
@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_keys_of_floats_are_in_their_order(values: list[float]) -> None:
    keys = float_to_key(np.array(values))
    assert key_to_float(keys).tolist() == [value + 0.0 for value in values]
    order = np.argsort(keys, kind="stable")
    assert [values[at] for at in order] == sorted(values)


# ------------------------------------------------------------------------------------- tries


@st.composite
def levels(draw: Callable[..., Any]) -> tuple[list[list[int]], TrieLevel, Any]:
    """Lists of one level, the level, and the strategy of what may be looked for in it."""
    wide = draw(st.booleans())
    values = LARGE if wide else MEDIUM
    lists = [sorted(found) for found in draw(st.lists(st.sets(values, max_size=8), max_size=6))]
    flat = [value for found in lists for value in found]
    offsets = np.cumsum([0, *map(len, lists)])
    return lists, TrieLevel(ints(flat, np.int64 if wide else np.int32), offsets), LARGE


@quick
@given(levels(), st.data())
def test_find_and_bound_in_many_lists(level_of: Any, data: st.DataObject) -> None:
    lists, level, values = level_of
    if not lists:
        return
    asked = data.draw(st.lists(st.tuples(st.integers(0, len(lists) - 1), values), max_size=20))
    dtypes = [np.int64]
    if all(INT32[0] <= value <= INT32[1] for _, value in asked):
        dtypes.append(np.int32)
    starts = [int(offset) for offset in level.offsets]
    for dtype in dtypes:
        parents, wanted = ints([p for p, _ in asked]), ints([v for _, v in asked], dtype)
        assert level.find_in(parents, wanted).tolist() == [
            starts[p] + lists[p].index(v) if v in lists[p] else -1 for p, v in asked
        ]
        for after, side in ((False, bisect_left), (True, bisect_right)):
            assert level.bound_in(parents, wanted, after).tolist() == [
                starts[p] + side(lists[p], v) for p, v in asked
            ]


@quick
@given(st.sets(LARGE), st.lists(LARGE), st.booleans())
def test_find_in_a_root(values: set[int], asked: list[int], narrow: bool) -> None:
    if narrow:
        values = {value for value in values if INT32[0] <= value <= INT32[1]}
    ordered = sorted(values)
    level = TrieLevel(ints(ordered, np.int32 if narrow else np.int64), ints([0, len(ordered)]))
    assert level.find(ints(asked)).tolist() == [
        ordered.index(value) if value in values else -1 for value in asked
    ]


def test_a_dense_root_is_found_by_index_and_a_sparse_one_by_search() -> None:
    dense = TrieLevel(np.arange(100, 3000, 2), ints([0, 1450]))
    sparse = TrieLevel(np.arange(0, 1 << 30, 1 << 20), ints([0, 1024]))
    assert dense.dense_index() is not None and sparse.dense_index() is None
    for level in (dense, sparse):
        assert level.find(level.values[[3, 7]]).tolist() == [3, 7]
        assert level.find(ints([-5, 1 << 40])).tolist() == [-1, -1]


def paths(trie: Trie) -> list[tuple[int, ...]]:
    """All rows of a trie, from the lists of its levels."""
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for level in trie.levels:
        found = [
            ((*path, int(level.values[at])), at)
            for path, node in found
            for at in range(level.offsets[node], level.offsets[node + 1])
        ]
    return [path for path, _ in found]


@quick
@given(row_sets(), st.data())
def test_a_trie_holds_the_rows(both: Any, data: st.DataObject) -> None:
    rows, columns = both
    ordered = sort_rows(columns)
    distinct = sorted(set(rows))
    depth = data.draw(st.integers(1, len(columns)))
    trie = build_trie(ordered, depth, len(distinct), True)
    assert paths(trie) == sorted({row[:depth] for row in rows})
    assert trie.weights is not None
    assert trie.weights.tolist() == [
        sum(row[:depth] == path for row in distinct) for path in paths(trie)
    ]
    assert trie.weight_sums.tolist() == [0, *np.cumsum(trie.weights)]
    copy = pickle.loads(pickle.dumps(trie))
    assert paths(copy) == paths(trie) and copy.total == trie.total
    assert len(pickle.dumps(trie)) == len(pickle.dumps(copy))  # what was worked out stays here


# ---------------------------------------------------------------------------------- relations


def relation(rows: list[tuple[int, ...]], width: int = 2) -> Relation:
    names, kinds = tuple(f"c{at}" for at in range(width)), ("int",) * width
    keys = columns_of(rows, width, [np.int64] * width)
    return Relation.from_rows(names, kinds, keys, len(rows))  # type: ignore[arg-type]


PAIRS = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=25)
OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


@quick
@given(PAIRS, st.permutations(range(3)), st.integers(1, 3), st.sampled_from([*OPERATORS, None]))
def test_tries_of_a_relation(
    rows: list[tuple[int, ...]], order: list[int], depth: int, op: str | None
) -> None:
    columns = tuple(order[:depth])
    tests = ((0, op, 2),) if op else ()
    kept = [row for row in set(rows) if op is None or OPERATORS[op](row[0], row[2])]
    whole = relation(rows, 3)
    plain, weighted = whole.trie(columns, tests), whole.trie(columns, tests, True)
    expected = sorted({tuple(row[at] for at in columns) for row in kept})
    assert paths(plain) == paths(weighted) == expected
    assert weighted.weights is not None and weighted.weights.tolist() == [
        sum(tuple(row[at] for at in columns) == path for row in kept) for path in expected
    ]
    assert whole.trie(columns, tests) is plain  # kept
    assert weighted.total == len(kept)


def test_a_trie_of_no_columns_knows_how_many_rows_there_are() -> None:
    assert relation([(1, 2), (1, 3)]).trie(()).total == 2
    assert relation([(1, 2), (1, 3)]).trie((), ((0, "<", 1),)).total == 2
    assert relation([(1, 2), (1, 3)]).trie((), ((0, ">", 1),)).total == 0


def test_a_symmetric_relation_needs_one_trie() -> None:
    both_ways = relation([(1, 2), (2, 1), (2, 3), (3, 2)])
    assert both_ways.symmetric and both_ways.trie((1, 0)) is both_ways.trie((0, 1))
    # the same degrees each way round, and yet not symmetric
    cycle = relation([(1, 2), (2, 3), (3, 1)])
    assert not cycle.symmetric and paths(cycle.trie((1, 0))) == [(1, 3), (2, 1), (3, 2)]
    assert not relation([(1, 2, 3)], 3).symmetric


def test_a_renamed_relation_shares_its_tries() -> None:
    whole = relation([(1, 2)])
    renamed = whole.renamed(("a", "b"))
    assert renamed.columns == ("a", "b") and renamed.trie((1,)) is whole.trie((1,))
    assert whole.trie_nbytes > 0


@quick
@given(PAIRS)
def test_statistics_of_a_relation(rows: list[tuple[int, ...]]) -> None:
    whole = relation(rows, 3)
    for column in range(3):
        assert whole.statistics.distinct(frozenset({column})) == len({row[column] for row in rows})
    for left, right in ((0, 1), (1, 0), (0, 2)):
        expected = bool(rows) and all(row[left] < row[right] for row in rows)
        assert whole.statistics.ascends(left, right) == expected


def test_distinct_values_of_a_long_column_are_estimated() -> None:
    random = np.random.default_rng(5)
    count = 300_000
    rows = (np.arange(count), random.integers(0, 100, count), random.permutation(count))
    whole = Relation.from_rows(("a", "b", "c"), ("int",) * 3, rows, count)
    assert whole.statistics.distinct(frozenset({0})) == count
    assert 90 <= whole.statistics.distinct(frozenset({1})) <= 110
    assert 0.5 * count <= whole.statistics.distinct(frozenset({2})) <= 1.1 * count


def test_a_relation_is_pickled_without_its_tries() -> None:
    whole = relation([(1, 2), (3, 4)])
    whole.trie((1, 0))
    copy = pickle.loads(pickle.dumps(whole))
    assert tuples(copy.keys) == [(1, 2), (3, 4)] and copy.trie_nbytes == 0
    assert copy.columns == whole.columns and len(copy) == 2


# ----------------------------------------------------------------------------------- symbols


@quick
@given(st.lists(st.text(max_size=3)))
def test_symbols_have_codes_and_ranks(texts: list[str]) -> None:
    table = SymbolTable()
    codes = [table.intern(text) for text in texts]
    assert [table.text(code) for code in codes] == texts
    assert len(table) == len(set(texts))
    ranks = table.ranks()
    assert sorted(set(texts)) == sorted(set(texts), key=lambda text: ranks[table.intern(text)])
    assert table.decode(ints(codes, np.int32)).decode().tolist() == texts


@pytest.mark.parametrize("more", ["", "\ud800"])
def test_very_many_symbols_have_ranks(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    monkeypatch.setattr(symbols_module, "MANY", 100)
    monkeypatch.setattr(symbols_module, "PIECE", 30)
    table = SymbolTable()
    texts = [f"{chr(0xFFF0 + n * 7919 % 64)}{n * 31 % 101}{more}" for n in range(150)]
    for text in texts:
        table.intern(text)
    ranks = table.ranks()
    assert sorted(set(texts)) == sorted(set(texts), key=lambda t: ranks[table.intern(t)])
    assert sorted(ranks.tolist()) == list(range(len(table)))


def test_ranks_follow_texts_that_come_later() -> None:
    table = SymbolTable()
    table.intern("b")
    assert table.ranks().tolist() == [0]
    table.intern("a")
    assert table.ranks().tolist() == [1, 0]
    assert table.array().tolist() == ["b", "a"]


def test_symbols_encode_columns_and_are_pickled() -> None:
    table = SymbolTable()
    table.intern("z")
    column = TextColumn(ints([1, 0, 1], np.int32), np.array(["x", "z"], dtype=object))
    assert table.encode(column).tolist() == [0, 1, 0]
    assert table.encode(TextColumn(ints([]), np.empty(0, dtype=object))).tolist() == []
    copy = pickle.loads(pickle.dumps(table))
    assert copy.intern("x") == table.intern("x") and copy.intern("new") == 2


def test_numpy_has_all_operations_and_no_other() -> None:
    """Type checkers compare both devices with the protocols; they do not see what is too much."""
    asked = {name for kind in (RowOps, Ops) for name in vars(kind) if not name.startswith("_")}
    modules = {name for name, value in vars(ops).items() if isinstance(value, ModuleType)}
    names = {name for name in vars(ops) if not name.startswith("_")}
    assert names - (modules - {"xp"}) == asked
