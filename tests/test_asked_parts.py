"""Parts of a recursive view that are asked for again and again, until the whole view is cheaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.evaluator.asked_parts import AskedParts
from tests.test_maintenance import ways as ways  # a fixture
from tests.tuned import tune

Edges = list[tuple[int, int]]
PATH = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."
CHAINS: Edges = [(at, at + 1) for at in range(60) if at % 6 != 5]  # ten chains of six vertices
NOTE = "path asked {} for its part: {} rows; the whole view is evaluated"
Ask = Callable[[int], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question counts as its rows and ten others, a whole view as six questions."""
    tune(monkeypatch, part_asked=10, whole_view_asked=6, whole_view_share=10_000)


def database(text: str = PATH, edges: Edges = CHAINS) -> gd.Database:
    db = gd.connect(device="cpu")
    db.workspace.force(strategy="levelwise")
    db["E"] = edges
    db.run(text)
    return db


def counted(db: gd.Database) -> AskedParts:
    (found,) = (each for each in db.workspace.results.values() if isinstance(each, AskedParts))
    return found


def asking(db: gd.Database, how: str) -> Ask:
    if how == "prepared":
        q = db.prepare("?- path($x, y).")
        return lambda x: q(x=x).fetchall()
    if how == "a parameter":
        return lambda x: db.query("?- path($x, y).", {"x": x}).fetchall()
    return lambda x: db.query(f"?- path({x}, y).").fetchall()


def reached(x: int, edges: Edges) -> list[tuple[int]]:
    found: set[int] = set()
    waiting = [x]
    while waiting:
        at = waiting.pop()
        new = {b for a, b in edges if a == at} - found
        found |= new
        waiting += new
    return sorted((y,) for y in found)


@pytest.mark.parametrize("how", ["prepared", "a parameter", "another text"])
def test_the_whole_view_is_evaluated_once(how: str, ways: list[str]) -> None:
    with database() as db:
        ask = asking(db, how)
        starts = [at * 6 for at in range(10)]
        # The 50 edges and a whole view count as 110 rows, and each question as 10 and the 5 of a
        # chain, so the ninth evaluates the view.
        for number, x in enumerate(starts, 1):
            assert ask(x) == reached(x, CHAINS)
            assert ("path" in db.workspace.evaluated()) == (number > 8)
            assert ways.count("path run") == (number > 8)
        assert (counted(db).times, counted(db).rows) == (8, 40)
        assert NOTE.format("8 times", 40) in str(db.explain("?- path(0, y)."))
        ways.clear()
        db.insert("E", [(5, 6)])
        assert ask(0) == reached(0, [*CHAINS, (5, 6)])
        assert ways == ["path followed"]  # it is maintained from now on
        assert NOTE.format("8 times", 40) in str(db.explain("?- path(0, y)."))


def test_texts_and_inserts_in_between_count_together() -> None:
    with database() as db:
        asks = [asking(db, how) for how in ("prepared", "a parameter", "another text")]
        edges = [*CHAINS]
        for number in range(10):
            assert asks[number % 3](6 * number) == reached(6 * number, edges)
            assert ("path" in db.workspace.evaluated()) == (number > 7)
            edges.append((5, 100 + number))
            db.insert("E", edges[-1:])


def test_a_view_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, part_asked=10, whole_view_asked=6, whole_view_share=0)
    tried: list[int] = []
    evaluated = AskedParts.evaluated

    def noting(self: AskedParts, *args: Any) -> bool:
        least = self.least
        found = evaluated(self, *args)
        if self.least != least:
            tried.append(self.times)
        return found

    monkeypatch.setattr(AskedParts, "evaluated", noting)
    with database() as db:
        ask = asking(db, "prepared")
        for number in range(40):
            assert ask(number % 10 * 6) == reached(number % 10 * 6, CHAINS)
        assert tried == [8, 16, 32]  # each time the questions had doubled
        assert "path" not in db.workspace.evaluated()
        assert "is evaluated" not in str(db.explain("?- path(0, y)."))


def test_other_data_begin_again() -> None:
    with database() as db:
        ask = asking(db, "prepared")
        for _ in range(5):
            ask(0)
        assert counted(db).times == 5
        db["E"] = CHAINS[:20]
        ask(0)
        assert counted(db).times == 1


def test_a_view_that_inserts_evaluate_anew_begins_again() -> None:
    text = "path(x, y) <- E(x, y), not B(y). path(x, z) <- path(x, y), E(y, z), not B(z)."
    with gd.connect(device="cpu") as db:
        db["E"], db["B"] = CHAINS, [(4,)]
        db.run(text)
        ask = asking(db, "prepared")
        for number in range(12):
            assert ask(0) == [(1,), (2,), (3,)]
            db.insert("B", [(100 + number,)])
            assert counted(db).times == 1
        assert "path" not in db.workspace.evaluated()


def test_errors_of_rows_that_nobody_asks_for() -> None:
    text = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, w), z = 4 ^ w."
    with database(text) as db:
        ask = asking(db, "prepared")
        rows = ask(0)
        for _ in range(20):
            assert ask(0) == rows
        with pytest.raises(gd.EvaluationError):
            len(db["path"])
