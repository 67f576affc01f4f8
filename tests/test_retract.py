"""`retract` in texts that are run: the same deletions as `db.delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gdatalog as gd

PATHS = "path(x, z) <- E(x, z) ; path(x, y), E(y, z)."


@pytest.fixture
def db() -> gd.Database:
    made = gd.connect()
    made["E"] = [(1, 2), (2, 3), (3, 4), (9, 9)]
    made.run(PATHS + " F(4). F(9).", name="facts")
    return made


def rows(db: gd.Database, name: str) -> list[tuple[Any, ...]]:
    return db[name].sorted().fetchall()


def test_facts_are_taken_back_before_facts_are_stated(db: gd.Database) -> None:
    db.run("E(4, 5). retract E(1, 2). retract E(x, _) where x > $most, F(x). F(5).", {"most": 4})
    assert rows(db, "E") == [(2, 3), (3, 4), (4, 5)] and rows(db, "F") == [(4,), (5,), (9,)]
    assert rows(db, "path")[:3] == [(2, 3), (2, 4), (2, 5)] and len(db["path"]) == 6
    db.run("retract E(7, _). retract E(x, y) where F(y) ; y = 5. retract F(x) where E(_, x).")
    assert rows(db, "E") == [(2, 3)] and rows(db, "F") == [(9,)]  # both over the state before
    db.run(PATHS + " F(4). F(9).", name="facts")
    assert rows(db, "F") == [(4,), (9,)]


def test_a_text_that_is_run_again_retracts_again(db: gd.Database) -> None:
    text = "retract E(x, y) where x < y. E(5, 4)."
    for _ in range(2):
        db.run(text)
        assert rows(db, "E") == [(5, 4), (9, 9)]
        db.insert("E", [(1, 8)])
    db.run("retract F(4).", name="facts")  # in place of the text that stated it
    assert "F" not in db.relations or len(db["F"]) == 0


def test_facts_with_expressions() -> None:
    db = gd.connect()
    db.run('road("a", "b", 6 * 7), seen("a"). road("b", "c", 1 + 1). far(x) <- road(x, _, 42).')
    db.run("retract road(_, _, km) where km > 40.")
    assert rows(db, "road") == [("b", "c", 2)] and rows(db, "seen") == [("a",)]
    assert db.delete("road", [("b", "c", 2)]).rows == 1 and len(db["road"]) == len(db["far"]) == 0


def error(call: Callable[..., Any], text: str) -> str:
    with pytest.raises(gd.Error) as found:
        call(text)
    return str(found.value)


def test_mistakes(db: gd.Database) -> None:
    before = db.workspace.catalog
    assert error(db.run, "E(1, 2). retract E(3, _).\nE(3, 4).") == (
        "<run>:2:1: usage error: `E(3, 4)` is stated here, and retracted by the same text\n"
        " 2 | E(3, 4).\n"
        "   | ^^^^^^^\n"
        "  hint: retractions come before facts, wherever they stand: leave one of both out"
    )
    many = "".join(f"new({at}, {at + 1}). " for at in range(200))
    assert "`new(7, 8)` is stated" in error(db.run, many + "retract new(x, _) where x = 7.")
    assert "`d(1)` is stated" in error(db.run, ".decl d(a: int)\nd(1). retract d(x).")
    assert "did you mean 'path'?" in error(db.run, "retract pathh(1, _).")
    assert "in E" in error(db.run, "retract path(1, _).")
    assert "2 columns there" in error(db.run, "retract E(1) where F(1).")
    assert "retract E(x, _) where x > 9, F(x)" in error(db.run, "retract E(1, 2), E(3, 4).")
    assert "`where` is no operator" in error(db.run, "p(x) <- E(x, _) where x > 3.")
    assert "unsafe rule" in error(db.run, "retract E(3, 4). p(x) <- E(_, _), x > 3.")
    for ask in (db.query, db.prepare, db.explain, db.profile):
        asked = error(ask, "retract E(1, 2). ?- E(x, y).")
        assert "`retract` changes the data" in asked and "hint: give it to db.run(...)" in asked
    db.run("later(x) <- E(x, _). retract later(1).")  # the text has its first rule
    assert len(db["later"]) == 4 and len(db["E"]) == 4 and db.workspace.catalog is not before


def test_words_of_retractions_are_names_elsewhere() -> None:
    db = gd.connect()
    db.run("retract(1), where(2). retract(x), where(x) <- where(x).")
    db.run("retract retract(where) where where(where), where > 0.")
    assert rows(db, "retract") == [(1,), (2,)] and rows(db, "where") == [(2,)]
    db.run("retract retract(1).")
    assert rows(db, "retract") == [(2,)]
