"""What users of dicts and of SQL shells try on a database first."""

from __future__ import annotations

import pytest

import gdatalog as gd


def test_a_database_knows_its_names() -> None:
    db = gd.connect()
    db["e"] = [(1, 2)]
    db.run("p(x) <- e(x, _).")
    assert "e" in db and "p" in db and "q" not in db
    assert 0 not in db
    assert sorted(db) == ["e", "p"]


def test_run_tells_that_it_answers_no_query() -> None:
    db = gd.connect()
    with pytest.warns(gd.ProgramWarning, match="`run` keeps rules and answers no query"):
        assert db.run("e(1). ?- e(x).") == {}
    assert db["e"].fetchall() == [(1,)]
