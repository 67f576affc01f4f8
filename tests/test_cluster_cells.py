"""Cells of rules that are spread over workers: cut, dealt out, given back, made again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.cluster.joins import cells, morsels, replicated
from gdatalog.cluster.joins.cells import join_cells, settled
from gdatalog.cluster.joins.morsels import CostLevel
from gdatalog.cluster.joins.replicated import MorselCells
from gdatalog.cluster.pool.calls import Call
from tests.test_cluster_replicated import CASES, alone, here, load, not_compiled, relations, spread

__all__ = ["not_compiled"]  # fixtures

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def handed(db: gdatalog.Database, text: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pieces that workers were given, call by call."""
    seen: list[Any] = []
    made = MorselCells._made

    def noting(self: MorselCells, pieces: Any, firm: bool = False, **to: Any) -> Call:
        call = made(self, pieces, firm, **to)
        seen.append([(cell, firm) for cell in call.args[1]])
        return call

    monkeypatch.setattr(MorselCells, "_made", noting)
    db.query(text).fetchall()
    return seen


STAR = [(0, b) for b in range(1, 2000)] + [(b, 0) for b in range(1, 2000)]


def test_a_hub_is_cut_by_the_next_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(4))
        db["E"] = [*STAR, *[(b, b + 1) for b in range(1, 100)]]
        calls = handed(db, "n(count()) <- E(x, y), E(y, z), E(x, w).", monkeypatch)
        cells = [cell for call in calls for cell, _ in call]
        assert sum(len(cell.stretches) == 2 for cell in cells) >= 4
        (found,) = db.query("n(count()) <- E(x, y), E(y, z), E(x, w).").fetchall()
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [*STAR, *[(b, b + 1) for b in range(1, 100)]]
        assert db.query("n(count()) <- E(x, y), E(y, z), E(x, w).").fetchall() == [found]


@pytest.mark.parametrize("case", CASES)
def test_cells_that_take_too_long_are_cut_until_they_cannot_be(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = alone(CASES[case], 9)
    monkeypatch.setattr(cells, "PATIENCE", 0.0)  # nothing is soon enough
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(1))
        assert relations(db, CASES[case], 9) == expected


def test_calls_give_back_what_they_have_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "BUDGET", 0.0)
    text = CASES["aggregates of all kinds"]
    with gdatalog.connect(device="cpu") as db:
        spreading = here(2)
        spread(db, spreading)
        assert relations(db, text) == alone(text)
        assert spreading.pool.calls > 4 * 8  # type: ignore[attr-defined]


def test_cells_that_do_not_fit_are_cut_and_then_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "p(x, z, w) <- E(x, y), E(y, z), E(x, w)."
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        load(db)
        expected = len(db.query(text))
        db["dummy"] = [(1,)]
    monkeypatch.setattr(cells, "room", lambda tries: 20_000)
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        load(db)
        assert len(db.query(text)) == expected
        monkeypatch.setattr(cells, "room", lambda tries: 8)
        with pytest.raises(gdatalog.MemoryLimitError, match="8 B"):
            db.query("p(x, z, w, y) <- E(x, y), E(y, z), E(x, w).").fetchall()


def test_rows_of_a_cell_that_did_not_fit_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "room", lambda tries: 4_000)
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        db["E"] = [(x, y) for x in range(4) for y in range(20)]
        found = db.query("p(x, y, z) <- E(x, y), E(x, z).").fetchall()
    assert len(found) == len(set(found)) == 4 * 20 * 20


def test_what_stays_is_made_again_of_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def noted(*args: Any) -> Any:
        calls.append(args)
        return join_cells(*args)

    monkeypatch.setattr(replicated, "join_cells", noted)
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(1))
        load(db)
        db.query("p(x, y, z) <- E(x, y), E(y, z).").fetchall()
    task, cells, _, _, tries, table = max(calls, key=lambda args: len(args[1]))
    all_of_them = join_cells(task, cells, None, True, tries, table)
    one = join_cells(task, cells, 0.0, True, tries, table)
    assert one.cells == 1 < all_of_them.cells and 0 < one.count < all_of_them.count
    for told, others in ((one, all_of_them), (all_of_them, one)):
        exact = task, cells[: told.cells], None, True, tries, table
        found = settled(others, told.cells, join_cells, *exact)
        assert (found.cells, found.count) == (told.cells, told.count)


def test_calls_that_are_too_large_come_back_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CASES["aggregates of all kinds"]
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        monkeypatch.setattr(replicated, "join_cells", _too_large_for_several)
        assert relations(db, text) == alone(text)
        monkeypatch.setattr(replicated, "join_cells", _too_large)
        with pytest.raises(gdatalog.MemoryLimitError, match="not enough memory"):
            db.query("p(x, z, y) <- E(x, y), E(y, z).").fetchall()


def _too_large_for_several(task: Any, cells: Any, *rest: Any) -> Any:
    if len(cells) > 1:
        raise MemoryError
    return join_cells(task, cells, *rest)


def _too_large(*args: Any) -> Any:
    raise MemoryError


@given(st.lists(st.integers(1, 100), max_size=60), st.integers(0, 5))
def test_pieces_are_dealt_out_evenly(costs: list[int], threads: int) -> None:
    left = morsels.Morsels.__new__(morsels.Morsels)
    left._left = sorted(map(morsels.Morsel, map(float, costs)), key=lambda piece: piece.cost)
    parts = left.deal(threads)
    if not threads:
        assert parts == [] and len(left._left) == len(costs)
        return
    assert sorted(piece.cost for part in parts for piece in part) == sorted(costs)
    assert not left and len(parts) == min(threads, len(costs))
    sums = [sum(piece.cost for piece in part) for part in parts]
    assert max(sums, default=0) - min(sums, default=0) <= max(costs, default=0)


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 30), st.integers(0, 9))
def test_pieces_cover_a_level_and_share_nothing(
    degrees: list[int], wanted: int, again: int
) -> None:
    values = np.cumsum(np.array([1 + degree % 3 for degree in degrees], dtype=np.int64))
    level = CostLevel("x", values, np.array(degrees, dtype=np.float64) ** 2 + 1)
    if not degrees:
        return
    pieces = morsels._cut(level, {}, 100.0, 0, len(values), wanted)
    parted = pieces[again % len(pieces)]
    if parted.high - parted.low > 1:
        at = pieces.index(parted)
        pieces[at : at + 1] = morsels._cut(level, {}, parted.cost, parted.low, parted.high, 8)
    stretches = [piece.cell.stretches["x"] for piece in pieces]
    assert stretches[0].low is None and stretches[-1].high is None
    assert all(one.high == next_.low is not None for one, next_ in pairwise(stretches))
    assert sum(piece.cost for piece in pieces) == pytest.approx(100.0)
