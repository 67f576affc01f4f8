"""Relations that grow: each way to tell new rows against Python's sets, and from one to another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog import cpu_ops
from gdatalog.engine.fixpoint import delta, runs
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.row_bitmap import RowBitmap
from gdatalog.engine.fixpoint.row_hash_set import Hashed
from gdatalog.engine.fixpoint.row_sets import SortedRows
from gdatalog.settings import Dedup, Thresholds
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_rows
from tests.cases import cases

Row = tuple[int, int]
WAYS: tuple[Dedup, ...] = ("auto", "sort", "bitmap", "hash")

FAR = 1 << 40
values = st.one_of(st.integers(-3, 12), st.integers(-200, 200), st.sampled_from([-FAR, FAR]))
batches = st.lists(st.sets(st.tuples(values, values), max_size=12), max_size=12)


def columns(rows: set[Row]) -> Columns:
    array = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2)
    return sort_rows((array[:, 0].copy(), array[:, 1].copy()))


def rows_of(relation: Relation) -> set[Row]:
    found = list(zip(*(column.tolist() for column in relation.keys), strict=True))
    assert len(set(found)) == len(found) == relation.length
    return set(found)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "AT_ONCE", 3)
    monkeypatch.setattr(delta, "PIECE", 3)
    monkeypatch.setattr(delta, "LEAST", 3)
    monkeypatch.setattr(runs, "MERGED_BELOW", 4)


def grown(way: Dedup, spare: int, indexed: bool, bitmap: int = 64) -> DeltaRelation:
    thresholds = Thresholds(new_rows_sorted=8, bitmap_bytes=bitmap)
    made = DeltaRelation(
        ("a", "b"), ("int", "int"), cpu_ops, way, lambda: spare, thresholds=thresholds
    )
    made.indexed = indexed
    return made


@settings(max_examples=cases(120), deadline=None)
@given(
    batches, st.sampled_from(WAYS), st.sampled_from([0, 200, 20_000, 1 << 24]), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_what_is_new(
    added: list[set[Row]], way: Dedup, spare: int, indexed: bool, passing: bool
) -> None:
    made, known = grown(way, spare, indexed), set[Row]()
    made.passing = passing
    for rows in added:
        delta = made.add(columns(rows), len(rows))
        assert rows_of(delta) == rows - known
        if indexed:
            parts = [rows_of(part) for part in made.runs.before()]
            assert sum(map(len, parts)) == len(known)
            assert set().union(*parts) == known
            assert len(parts) <= 6
        known |= rows
        assert made.length == len(known)
    assert rows_of(made.full()) == known


def loop(rows: Columns) -> Callable[[RowBitmap | Hashed], list[Columns]]:
    """What compiled loops do to what `loops` gives them."""
    return lambda told: [tuple(column[told.news(rows)] for column in rows)]


@settings(max_examples=cases(80), deadline=None)
@given(batches, st.sampled_from(WAYS), st.sampled_from([0, 20_000, 1 << 24]), st.booleans())
def test_rows_of_loops(added: list[set[Row]], way: Dedup, spare: int, indexed: bool) -> None:
    """Every other batch comes from loops, which meet rows outside of the space."""
    made, known = grown(way, spare, indexed), set[Row]()
    for number, rows in enumerate(added):
        told = made.loops() if number % 2 else None
        laid = columns(rows)
        if told is not None and rows and not told.space.holds(laid):
            told = made.widen(laid)
        if isinstance(told, Hashed) and told.room < len(rows):
            told = made.make_room()
        if told is None or not rows or (isinstance(told, Hashed) and told.room < len(rows)):
            delta = made.add(laid, len(rows))
        else:
            before = told.count if isinstance(told, Hashed) else 0
            fresh = told.news(laid)
            if isinstance(told, Hashed):
                told.count = before  # who takes the loops' rows counts them
            made.take([tuple(column[fresh] for column in laid)])
            extra = {(5, number), (number, 5)}
            delta = made.add(columns(extra), len(extra))
            rows = rows | extra
        assert rows_of(delta) == rows - known
        known |= rows
    assert rows_of(made.full()) == known


def test_what_tells_new_rows_goes_with_their_number() -> None:
    made = grown("auto", 1 << 40, False)
    assert made.loops() is None  # of nothing is known where it will be
    made.add(columns({(1, 1)}), 1)
    assert isinstance(made.known, SortedRows)
    made.add(columns({(x, x) for x in range(20)}), 20)
    assert isinstance(made.known, RowBitmap)
    made.add(columns({(1 << 20, 1 << 20)}), 1)
    assert isinstance(made.known, Hashed)  # too many rows could be for marks, by now
    space = KeySpace((0, 0), (1 << 10, 1 << 10))
    assert RowBitmap.bytes_for(space) == 1 << 17


def test_rows_stay_single_while_memory_comes_and_goes() -> None:
    """The runs that hold all rows beside a hash set end with it, and begin anew with another."""
    spare = [1 << 24]
    thresholds = Thresholds(new_rows_sorted=8)
    made = DeltaRelation(
        ("a", "b"), ("int", "int"), cpu_ops, "hash", lambda: spare[0], thresholds=thresholds
    )
    known = set[Row]()
    for free, kind in ((1 << 24, Hashed), (0, SortedRows), (1 << 24, Hashed)):
        spare[0] = free
        rows = {(len(known) + at, at) for at in range(2000)}
        made.add(columns(rows), len(rows))
        known |= rows
        assert isinstance(made.known, kind)
        assert made.full().length == made.length == len(known)
        assert made.runs.length == (0 if kind is SortedRows else len(known))


def test_memory_decides() -> None:
    for spare, kind in ((1 << 40, RowBitmap), (40_000, Hashed), (100, SortedRows)):
        made = grown("auto", spare, False, bitmap=1 << 20)
        made.space = KeySpace((0, 0), (1 << 10, 1 << 10))
        made.add(columns({(1, 1)}), 1)
        made.loops()
        assert isinstance(made.known, kind), spare


def test_propositions() -> None:
    made = DeltaRelation((), (), cpu_ops)
    assert made.loops() is None
    assert made.add((), 0).length == 0
    assert made.add((), 1).length == 1
    assert made.add((), 1).length == 0
    assert made.full().length == 1
    assert sum(run.length for run in made.runs.before()) == 1


def test_a_proposition_holds_once_it_was_found() -> None:
    """A later round that does not find it again takes nothing back."""
    made = DeltaRelation((), (), cpu_ops)
    assert made.add((), 0).length == 0 and made.length == 0
    assert made.add((), 3).length == 1
    assert made.add((), 0).length == 0 and made.add((), 2).length == 0
    assert made.length == made.full().length == 1
