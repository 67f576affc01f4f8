"""Hash tries against Python's sets: what they hold, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
from entries import Entries
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.codegen.helpers import hash_tables
from gdatalog.engine.fixpoint.hash_indexes import HashIndexes
from gdatalog.engine.fixpoint.row_hash_set import hash_function
from gdatalog.storage import loop_tables
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.relation import Relation
from tests.cases import cases

Row = tuple[int, ...]

ends = st.sampled_from([-(1 << 31), (1 << 31) - 1])
values = st.one_of(st.integers(-3, 5), st.integers(-2000, 2000), ends)
lookups = Entries(hash_tables)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, tuple[int, ...], list[list[Row]]]:
    """An arity, an order of some columns, and rows of which none is there twice."""
    arity = draw(st.integers(1, 3))
    columns = draw(st.permutations(range(arity)))[: draw(st.integers(1, arity))]
    seen: set[Row] = set()
    found = []
    for rows in draw(st.lists(st.lists(st.tuples(*[values] * arity), max_size=30), max_size=6)):
        found.append(list(dict.fromkeys(row for row in rows if row not in seen)))
        seen.update(rows)
    return arity, tuple(columns), found


@pytest.fixture(autouse=True, params=["small", "as they are"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "small":
        monkeypatch.setattr(loop_tables, "LEAST", 2)
        monkeypatch.setattr(loop_tables, "PIECE", 3)
        monkeypatch.setattr(loop_tables, "DENSE", 8)
        monkeypatch.setattr(loop_tables, "DENSE_EACH", 2)


def columns_of(rows: list[Row], arity: int) -> tuple[np.ndarray, ...]:
    array = np.array(rows, dtype=np.int32).reshape(-1, arity)
    return tuple(np.ascontiguousarray(array[:, at]) for at in range(arity))


def listed(trie: HashTrie, depth: int = 0, node: int = 0) -> Iterator[Row]:
    level = trie.levels[depth]
    start, count = level.spans[2 * node : 2 * node + 2].tolist()
    for place in range(start, start + count):
        value = int(level.values[place])
        if level.last:
            yield (value,)
        else:
            yield from ((value, *rest) for rest in listed(trie, depth + 1, int(level.below[place])))


def has(trie: HashTrie, row: Row) -> bool:
    node = 0
    for depth, (level, value) in enumerate(zip(trie.levels, row, strict=True)):
        keys = trie.table(depth)
        if level.dense:
            inside = 0 <= value - level.low < len(level.index)
            node = int(level.index[value - level.low]) if inside else -1
        elif level.last:
            node = lookups.has_child(keys, node, value)
        else:
            node = lookups.find_child(keys, level.ids, node, value)
        if node < 0:
            return False
    return True


@settings(max_examples=cases(60), deadline=None)
@given(batches(), st.integers(0, 6))
def test_rows_are_listed_and_found(
    drawn: tuple[int, tuple[int, ...], list[list[Row]]], asked: int
) -> None:
    arity, order, parts = drawn
    trie = HashTrie(order, arity, hash_function)
    there: set[Row] = set()
    lent: dict[int, list[int]] = {}  # the arrays, by version: loops that know it have these
    for number, rows in enumerate(parts):
        if number == asked:
            trie.table(len(order) - 1)
        trie.add(columns_of(rows, arity))
        arrays = [vars(level).values() for level in trie.levels]
        now = [each.ctypes.data for each in chain(*arrays) if isinstance(each, np.ndarray)]
        assert lent.setdefault(trie.version, now) == now
        there |= {tuple(row[at] for at in order) for row in rows}
        found = list(listed(trie))
        assert sorted(found) == sorted(there)
    near = {(*row[:-1], row[-1] + 1) for row in there} | {(row[0] - 1, *row[1:]) for row in there}
    assert all(has(trie, row) for row in there)
    assert not any(has(trie, row) for row in near - there)
    wide = {(*row[:-1], row[-1] + (1 << 32)) for row in there}
    assert not any(has(trie, row) for row in wide)


def relation(rows: list[Row], dtype: str = "int32") -> Relation:
    columns = tuple(column.astype(dtype) for column in columns_of(rows, 2))
    return Relation.of_blocks(("a", "b"), ("int", "int"), [columns], len(rows), True, None, True)


def test_new_rows_wait_for_their_turn() -> None:
    old, new = relation([(1, 2), (3, 4)]), relation([(5, 6)])
    indexes = HashIndexes(2)
    indexes.wait()
    early = indexes.made(((0, 1), False), [old, new], new, 1 << 30)
    late = indexes.made(((0, 1), True), [old, new], new, 1 << 30)
    assert early is not None and late is not None and early.total == late.total == 2
    indexes.take_turn(new, False, 1 << 30)
    assert (early.total, late.total) == (3, 2)
    indexes.take_turn(new, False, 1 << 30)
    indexes.take_turn(new, True, 1 << 30)
    assert (early.total, late.total) == (3, 3)
    assert indexes.made(((1,), True), [old, new], new, 1 << 30) is not None
    assert indexes.nbytes > 0


@pytest.mark.parametrize(("dtype", "spare"), [("int64", 1 << 30), ("int32", 10)])
def test_wide_columns_and_little_memory(dtype: str, spare: int) -> None:
    indexes = HashIndexes(2)
    assert indexes.made(((1, 0), False), [], None, 1 << 30) is not None
    indexes.wait()
    indexes.take_turn(relation([(3, 4)], dtype), False, spare)
    assert indexes.tries[(1, 0), False] is None
