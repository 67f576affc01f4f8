"""A small change does little: what did not change is neither planned, copied nor indexed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine import draft
from gdatalog.engine.operators import incremental
from gdatalog.engine.rules.index_lookup import IndexLookup
from gdatalog.storage import parts, relation
from tests.tuned import tune

Edges = list[tuple[int, int]]
CHAINS: Edges = [(at, at + 1) for at in range(400) if at % 20 != 19]
VIEWS = {
    "two hops": ("v(x, z) <- E(x, y), E(y, z).", "?- v(0, z)."),
    "a closure": ("v(x, y) <- E(x, y). v(x, z) <- v(x, y), E(y, z).", "?- v(0, z)."),
    "mutual": (
        "v(x, y) <- E(x, y). v(x, z) <- w(x, y), E(y, z). w(x, z) <- v(x, y), E(y, z).",
        "?- v(0, z), z > 3.",
    ),
    "a view of a view": ("v(x, z) <- w(x, y), E(y, z). w(x, y) <- E(x, y), x < y.", "?- v(0, z)."),
}


def counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[str]:
    """A list that gets an entry for each call of a function."""
    calls: list[str] = []
    real: Callable[..., Any] = getattr(where, name)

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return real(*args, **options)

    monkeypatch.setattr(where, name, counting)
    return calls


def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations lie in parts, and get an index when they are looked up in for the second time."""
    monkeypatch.setattr(parts, "APART_FROM", 64)
    tune(monkeypatch, scanned_from=1, index_scans=1)


@pytest.mark.parametrize("view", list(VIEWS))
def test_a_row_is_inserted_and_a_view_asked(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_large(monkeypatch)
    rules, question = VIEWS[view]
    with gd.connect(device="cpu") as db:
        db["E"] = CHAINS
        db.run(rules)
        len(db["v"])
        insert, new = db.inserter("E"), iter(range(1000, 2000))
        for _ in range(8):
            insert([(0, next(new))])
            db.query(question).fetchall()
        plans = counted(monkeypatch, incremental, "plan_rule")
        plans += counted(monkeypatch, draft, "plan_rule")
        indexes = counted(monkeypatch, relation, "build_trie")
        looked_up = counted(monkeypatch, IndexLookup, "of_parts")
        large = db.workspace.stored["E"].parts[0]
        for _ in range(8):
            insert([(0, next(new))])
            found = db.query(question).fetchall()
        assert (plans, indexes) == ([], [])
        assert len(looked_up) >= 16  # each time: by a rule, and by the question
        assert db.workspace.stored["E"].parts[0] is large
        with gd.connect(device="cpu") as fresh:
            fresh["E"] = db["E"].fetchall()
            fresh.run(rules)
            assert sorted(found) == sorted(fresh.query(question).fetchall())
