"""Recursion on a device: sets that grow there, and fixpoints whose rows never leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.gpu_ops.device import Gpu
from gdatalog.storage.symbols import SymbolTable
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import ndarray
from tests.cuda_host.stand_in import COUNTER
from tests.test_known_rows import BATCHES, NARROW_BATCHES
from tests.test_operations import relation, tuples

pytestmark = needs_compiler
OPS = Gpu(HostDriver()).ops
quick = settings(deadline=None, max_examples=25)
Batches = list[list[tuple[int, int]]]


@quick
@given(BATCHES | NARROW_BATCHES, st.booleans())
def test_growing_sets(batches: Batches, uploaded: bool) -> None:
    grown, known = DeltaRelation(("a", "b"), ("int", "int"), OPS), set[tuple[int, ...]]()
    for batch in batches:
        rows = relation(batch)
        keys = tuple(map(OPS.xp.asarray, rows.keys)) if uploaded else rows.keys
        new = grown.add(keys, rows.length)
        assert not len(new) or not new.store.on_host
        assert len(new) == len(set(batch) - known)
        assert tuples(new.keys) == sorted(set(batch) - known)
        known |= set(batch)
        assert grown.length == len(known)
    full = grown.full()
    assert grown.full() is full and full.store.on_host == (not known)
    assert tuples(full.keys) == sorted(known)
    assert (grown.nbytes > 0) == bool(known)


@quick
@given(BATCHES | NARROW_BATCHES, st.sampled_from(["min", "max"]))
def test_best_of_each_group(batches: Batches, kind: str) -> None:
    best = LatticeRounds(("g", "v"), ("int", "int"), {1: kind}, SymbolTable(), OPS)
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
    codes = np.array([symbols.intern(text) for text in ("pear", "apple", "fig")], dtype=np.int32)
    best = LatticeRounds(("v",), ("symbol",), {0: "min"}, symbols, OPS)
    news = best.add((codes,), 3)
    assert [symbols.text(code) for code in news.keys[0]] == ["apple"]
    assert not len(best.add((codes[:1],), 1))
    assert best.group(news.keys, 0) == []


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the arrays that have been copied to the host."""
    lengths: list[int] = []
    whole = ndarray.get

    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        lengths.append(len(self))
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(ndarray, "get", get)
    return lengths


def chain(db: gd.Database, size: int) -> None:
    db.workspace.device = Gpu(HostDriver())
    db.workspace.force(strategy="levelwise")
    db["E"] = [(n, n + 1) for n in range(size)]


def test_the_rounds_of_a_fixpoint_move_nothing(fetched: list[int]) -> None:
    moved = []
    for size in (10, 30):
        with gd.connect() as db:
            chain(db, size)
            COUNTER.reset()
            fetched.clear()
            found = db.query("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
            assert len(found) == size * (size + 1) // 2
            moved.append((COUNTER.uploads, sum(fetched)))
            assert sorted(found.fetchall()) == [
                (x, z) for x in range(size) for z in range(x + 1, size + 1)
            ]
    assert moved == [(2, 0), (2, 0)]  # the columns of E, and nothing back


def test_shortest_paths() -> None:
    text = "dist(y, min(d)) <- y = 0, d = 0 ; dist(x, c), E(x, y), d = c + 1."
    with gd.connect() as db:
        chain(db, 8)
        db.insert("E", [(0, 4), (8, 0)])
        assert dict(db.query(text).fetchall()) == {n: n if n < 4 else n - 3 for n in range(9)}
