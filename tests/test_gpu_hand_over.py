"""Rows of a level that are more than a chunk go on in a GPU's depth-first loops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gdatalog
from gdatalog.gpu_ops.device import Gpu
from tests import test_engine_oracle as oracle
from tests import test_symmetry as symmetry
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw_patterns import drawn_pattern
from tests.test_hand_over import CHUNKS, EDGES, noted, opened

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture
def taken() -> Iterator[list[int]]:
    with noted() as counts:
        yield counts


def on_device(chunk: int, hand_over: str, strategy: str = "levelwise") -> gdatalog.Database:
    db = opened(chunk, hand_over, strategy)
    driver = HostDriver()
    driver.compiles_ahead = False  # loops take rows as soon as there are too many
    db.workspace.device = Gpu(driver)
    return db


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    with on_device(CHUNKS[number % len(CHUNKS)], "always") as db:
        return oracle.answers(db, text, data, defined)


@pytest.mark.parametrize("number", [2, 13, 16])
def test_drawn_patterns(taken: list[int], number: int) -> None:
    """Rows, values that are told apart, and counts by groups."""
    symmetry.agrees(
        drawn_pattern(number), lambda text, data, names, _: run(text, data, names, number)
    )
    assert taken


def test_rows(taken: list[int]) -> None:
    text = "?- E(a, b), E(b, c), E(c, a), a != b, not E(a, c), c = a + b - 8."
    with opened(40, "never") as db:
        db["E"] = EDGES
        expected = sorted(db.query(text).fetchall())
    with on_device(40, "auto", "auto") as db:  # few rows: they run breadth-first
        db["E"] = EDGES
        assert sorted(db.query(text).fetchall()) == expected
        assert taken
        taken.clear()
        db.set(hand_over="never")
        assert sorted(db.query(text, strategy="levelwise").fetchall()) == expected
        assert not taken


@pytest.mark.parametrize(
    "text",
    ["n(count()) <- E(a, b), E(b, c), E(a, c).", "n(sum(c), min(b), count()) <- E(a, b), E(b, c)."],
)
def test_totals_of_given_rows(taken: list[int], text: str) -> None:
    """A worker gives one row for all of its given rows, on the CPU and on a device."""
    with opened(12, "never") as db:
        db["E"] = EDGES
        expected = db.query(text).fetchall()
    assert not taken
    for db in (opened(12, "always"), on_device(12, "auto", "auto")):
        taken.clear()
        with db:
            db["E"] = EDGES
            assert db.query(text).fetchall() == expected
        assert taken


def test_rows_stay_breadth_first_until_loops_are_compiled(taken: list[int]) -> None:
    text = "t(a, count()) <- E(a, b), E(b, c), E(a, c)."
    with opened(12, "never") as db:
        db["E"] = EDGES
        expected = sorted(db.query(text).fetchall())
    with on_device(12, "auto", "auto") as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gpu, "waits_for", lambda *given: True)
        db["E"] = EDGES
        assert sorted(db.query(text).fetchall()) == expected and not taken
        patch.undo()
        db["E"] = EDGES[:]  # asked anew
        assert sorted(db.query(text).fetchall()) == expected and taken
