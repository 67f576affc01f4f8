"""Calls that read have a snapshot of the database: they wait for no other call, and see whole
calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

import gdatalog as gd

EDGES = [(x, x + 1) for x in range(200)]
CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). ?- p(x, y)."


@contextmanager
def another_call(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, a call of another thread evaluates a query."""
    monkeypatch.setattr("gdatalog.cancellation.EVERY", 0.0)
    entered, leave = Event(), Event()

    def wait(_: Any) -> None:
        entered.set()
        leave.wait(60)

    other = Thread(target=lambda: db.query(CLOSURE, on_progress=wait, strategy="levelwise"))
    other.start()
    try:
        assert entered.wait(60)
        yield
    finally:
        leave.set()
        other.join()


def test_queries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        db["S"] = [("a", 1), ("b", 2)]
        q, s = db.prepare("?- E($x, y)."), db.prepare("?- S($x, y).")
        for x in range(3):
            q(x=x)
            s(x="a")
            db.query(f"?- E({x}, y), y < 99.")
            db.query("?- E(x, $y).", {"y": x})
        with another_call(db, monkeypatch):
            for x in range(20):
                assert q(x=x).fetchall() == [(x + 1,)]
                assert db.query(f"?- E({x}, y), y < 99.").fetchall() == [(x + 1,)]
                assert db.query("?- E(x, $y).", {"y": x + 1}, timeout=5).fetchall() == [(x,)]
            assert q(x=7, limit=0).fetchall() == [] and s(x="b").fetchall() == [(2,)]
            assert db.query("?- E(x, y), x + y = 9.").fetchall() == [(4, 5)]
            assert s(x="a new text").fetchall() == []
            with pytest.raises(gd.TypeMismatchError):
                q(x="a")
            with pytest.raises(gd.UsageError):
                q(x=1, timeout=-1)


def test_a_block_of_calls_is_seen_as_a_whole() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        q = db.prepare("?- E($x, y).")
        for _ in range(3):
            q(x=1)
        ready, go = Event(), Event()

        def change() -> None:
            with db.call():
                db["E"] = [(1, 7)]
                assert q(x=1).fetchall() == [(7,)]  # in the block
                ready.set()
                go.wait(60)
                db.insert("E", [(1, 8)])

        other = Thread(target=change)
        other.start()
        assert ready.wait(60)
        assert q(x=1).fetchall() == [(2,)]
        go.set()
        other.join()
        assert sorted(q(x=1).fetchall()) == [(7,), (8,)]


def test_each_query_sees_one_version() -> None:
    """A writer adds rows in pairs: a reader sees both or none, and no fewer than before."""
    with gd.connect(device="cpu") as db:
        db["E"] = [(0, at) for at in range(20)]
        q, insert = db.prepare("?- E($x, y)."), db.inserter("E")
        done = Event()
        wrong: list[list[int]] = []

        def read() -> None:
            seen = 0
            while not done.is_set():
                now = sorted(y for (y,) in q(x=0).fetchall())
                if len(now) % 2 or len(now) < seen or now != list(range(len(now))):
                    wrong.append(now)
                seen = len(now)

        readers = [Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for at in range(20, 60, 2):
            insert([(0, at), (0, at + 1)])
            q(x=0), q(x=1), q(x=2)
        done.set()
        for reader in readers:
            reader.join()
        assert not wrong and len(q(x=0)) == 60


def test_settings_and_what_is_dropped_are_seen() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        for _ in range(3):
            assert db.query("?- E(1, y).").fetchall() == [(2,)]
        with pytest.raises(gd.UsageError):
            db.query("?- E(1, y).", timeout=-1)
        db["E"] = [(1, 5)]
        assert db.query("?- E(1, y).").fetchall() == [(5,)]
        del db["E"]
        with pytest.raises(gd.NameResolutionError):
            db.query("?- E(1, y).")
    with pytest.raises(gd.UsageError, match="closed"):
        db.query("?- E(1, y).")
