"""Rows that were not marked before come out of compiled loops once, whoever makes them."""

from __future__ import annotations

import numpy as np
import pytest

import gdatalog as gd
from gdatalog import calls
from gdatalog.engine.context import Sources
from gdatalog.engine.depth import Form, JoinNest
from gdatalog.engine.draft import StratumDraft
from gdatalog.executors import lftj
from gdatalog.records import replace
from gdatalog.settings import Settings
from gdatalog.storage.table import Array

SIZE = 300
TEXT = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."


def walk(edges: Array, marks: Array, size: int) -> Array:
    """The new rows of the recursive rule, for all edges as what is new."""
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        session = db.workspace.open(TEXT, None)
        inputs = session.evaluator.inputs()
        (stratum,) = session.checked.strata
        ((join,),) = [plan.joins for plan in StratumDraft(stratum, inputs).later]
        relation = inputs.relation("E")
        sources = Sources(
            lambda ref: relation.trie(ref.columns), lambda _: (relation.keys, relation.length)
        )
        given = {"marks": marks, "space": np.array([0, size, 0, size])}
        context = replace(inputs.context, settings=Settings(threads=2))
        nest = JoinNest(join, Form(join.outputs, fresh=True), sources, context, marks=given)
        blocks = nest.run("p")
    return np.concatenate([np.empty((0, 2), int), *(np.stack(block, 1) for block in blocks)])


@pytest.fixture
def edges() -> Array:
    return np.unique(np.random.default_rng(3).integers(0, SIZE, (2000, 2)), axis=0)


@pytest.mark.parametrize("room", [1, 16, 1 << 12], ids="room for {}".format)
def test_each_new_row_comes_once(edges: Array, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lftj, "FIRST_ROOM", room)
    monkeypatch.setattr(lftj, "MOST_ROOM", 64 * room)
    linked = np.zeros((SIZE, SIZE), dtype=int)
    linked[edges[:, 0], edges[:, 1]] = 1
    wanted = np.argwhere(linked @ linked)
    marks = np.zeros(SIZE * SIZE // 64 + 1, dtype=np.int64)
    known = wanted[::3]
    places = known[:, 0] * SIZE + known[:, 1]
    np.bitwise_or.at(marks, places >> 6, np.int64(1) << (places & 63))
    found = walk(edges, marks, SIZE)
    left = np.delete(wanted, np.s_[::3], axis=0)
    assert len(found) == len(left)
    assert np.array_equal(np.unique(found, axis=0), left)
    assert len(walk(edges, marks, SIZE)) == 0


def test_rows_outside_of_the_space_are_told_of(edges: Array) -> None:
    with pytest.raises(calls.Outside):
        walk(edges, np.zeros(SIZE, dtype=np.int64), SIZE // 2)
