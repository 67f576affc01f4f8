"""Sets of rows that grow: rows, best values of groups, marks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdatalog import cpu_ops as ops
from gdatalog.cpu_ops.byte_marks import ByteMarks
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.storage.symbols import SymbolTable
from tests.test_operations import LARGE, MEDIUM, SMALL, ints, quick, relation, tuples

BATCHES = st.lists(st.lists(st.tuples(LARGE, LARGE), max_size=8), max_size=8)
NARROW_BATCHES = st.lists(st.lists(st.tuples(MEDIUM, SMALL), max_size=8), max_size=8)


@quick
@given(BATCHES | NARROW_BATCHES)
def test_growing_sets(batches: list[list[tuple[int, int]]]) -> None:
    grown, known = DeltaRelation(("a", "b"), ("int", "int"), ops), set[tuple[int, ...]]()
    for batch in batches:
        rows = relation(batch)
        new = grown.add(rows.keys, rows.length)
        assert tuples(new.keys) == sorted(set(batch) - known)
        known |= set(batch)
        assert grown.length == len(known)
    assert tuples(grown.full().keys) == sorted(known)
    assert grown.full() is grown.full()
    assert (grown.nbytes > 0) == bool(known)


def test_a_proposition_grows_once() -> None:
    grown = DeltaRelation((), (), ops)
    assert len(grown.add((), 0)) == 0
    assert len(grown.add((), 1)) == 1
    assert len(grown.add((), 1)) == 0
    assert len(grown.full()) == 1


@quick
@given(BATCHES | NARROW_BATCHES, st.sampled_from(["min", "max"]))
def test_best_of_each_group(batches: list[list[tuple[int, int]]], kind: str) -> None:
    best = LatticeRounds(("g", "v"), ("int", "int"), {1: kind}, SymbolTable(), ops)
    pick = min if kind == "min" else max
    known: dict[int, int] = {}
    for batch in batches:
        rows = relation(batch)
        before = dict(known)
        for group, value in batch:
            known[group] = pick(known.get(group, value), value)
        news = best.add(rows.keys, rows.length)
        assert tuples(news.keys) == sorted(known.items() - before.items())
    assert tuples(best.full().keys) == sorted(known.items())


def test_best_texts_are_compared_as_texts() -> None:
    symbols = SymbolTable()
    codes = [symbols.intern(text) for text in ("pear", "apple", "fig")]
    best = LatticeRounds(("v",), ("symbol",), {0: "min"}, symbols, ops)
    news = best.add((ints(codes, np.int32),), 3)
    assert [symbols.text(code) for code in news.keys[0]] == ["apple"]
    assert not len(best.add((ints(codes[:1], np.int32),), 1))
    assert best.group(news.keys, 0) == []


@quick
@given(BATCHES | NARROW_BATCHES, st.sampled_from([16, 1 << 12, 1 << 22]))
def test_marked_rows(batches: list[list[tuple[int, int]]], most: int) -> None:
    marked, known = ByteMarks(most), set[tuple[int, ...]]()
    for number, batch in enumerate(batches):
        rows = tuple(ints([row[at] for row in batch]) for at in range(2))
        if not batch or not marked.fits(rows):
            continue
        assert marked.nbytes <= most
        if number % 2:
            marked.add(rows)
        else:
            fresh = marked.news(rows)
            assert fresh.tolist() == sorted({batch.index(row) for row in {*batch} - known})
        known |= set(batch)
        assert tuples(marked.rows([np.dtype(np.int64)] * 2)) == sorted(known)


def test_marked_rows_refuse_what_has_no_room_and_stay_as_they_were() -> None:
    marked = ByteMarks(64)
    assert marked.fits((ints([1, 5]),))
    marked.add((ints([1, 5]),))
    assert not marked.fits((ints([1 << 40]),))
    assert not marked.fits((ints([1 << 10]),))  # and are not asked to grow again
    assert marked.fits((ints([2]),))
    assert tuples(marked.rows([np.dtype(np.int32)])) == [(1,), (5,)]


@pytest.mark.parametrize("step", [1, -1])
def test_marked_rows_grow_by_doubling(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    widened = 0
    widen = ByteMarks._widen

    def counted(marked: ByteMarks, ends: Any) -> bool:
        nonlocal widened
        widened += 1
        return widen(marked, ends)

    monkeypatch.setattr(ByteMarks, "_widen", counted)
    marked = ByteMarks(1 << 20)
    values = [step * at for at in range(2000)]
    for value in values:
        assert marked.fits((ints([value]), ints([7])))
        marked.add((ints([value]), ints([7])))
    assert widened <= 12
    assert tuples(marked.rows([np.dtype(np.int64)] * 2)) == [(v, 7) for v in sorted(values)]
