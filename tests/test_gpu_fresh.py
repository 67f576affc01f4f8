"""Rows that a plan gives for given rows, on a device that is not there; and those new among them.

A plan for given rows is walked by lanes that begin a row each and share what these lead into, or by
a tile for each row. Rows are marked as they come out: with a pool of hardly any room, units are
done again and again, and what is marked must not get lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.calls import Outside
from gdatalog.engine.context import Sources
from gdatalog.engine.depth import Form, JoinNest
from gdatalog.engine.draft import StratumDraft
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.settings import Settings
from gdatalog.storage.table import Array
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = needs_compiler
SIZE = 24
RULES = {
    "a list": "p(x, z) <- p(x, y), E(y, z).",
    "a list and a test": "p(x, z) <- p(x, y), E(y, z), x != z, !E(z, x).",
    "lists in lists": "p(x, y) <- E(a, x), p(a, b), E(b, y).",
    "lists that meet": "p(x, z) <- p(x, y), E(y, z), E(x, z).",
    "no list": "p(y, x) <- p(x, y).",
}


@pytest.fixture
def edges() -> Array:
    return np.unique(np.random.default_rng(3).integers(0, SIZE, (60, 2)), axis=0)


def brought(device: Gpu, blocks: list[Any]) -> Array:
    found = [np.stack([device.ops.xp.asnumpy(c) for c in block], 1) for block in blocks]
    return np.concatenate([np.empty((0, 2), int), *found])


def walked(
    rule: str, edges: Array, tile: int, seed: int, limit: int, marks: Array | None, size: int = SIZE
) -> Array:
    """What the rule gives for all edges as rows that are given; `marks` are written."""
    device = Gpu(HostDriver(seed=seed, blocks=1 + seed % 2, races=tile < 16))
    xp = device.ops.xp
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        session = db.workspace.open(f"p(x, y) <- E(x, y). {rule}", None)
        inputs = session.evaluator.inputs()
        (stratum,) = session.checked.strata
        ((join,),) = [plan.joins for plan in StratumDraft(stratum, inputs).later]
        relation = inputs.relation("E")
        rows = tuple(map(xp.asarray, relation.keys)), relation.length
        sources = Sources(lambda ref: device.trie(relation, ref), lambda _: rows)
        given = {}
        if marks is not None:
            space = xp.asarray(np.array([0, size, 0, size]))
            given = {"marks": xp.asarray(marks), "space": space}
        form = Form(join.outputs, fresh=marks is not None)
        settings = Settings(tile=tile).tuned(
            pool_rows=1, tile_shares_after=limit, tile_grain=seed % 9
        )
        context = replace(inputs.context, settings=settings, device=device)
        nest = JoinNest(join, form, sources, context, given)
        found = brought(device, nest.run("p"))
    if marks is not None:
        marks[:] = xp.asnumpy(given["marks"])
    return found


def expected(rule: str, edges: Array) -> set[tuple[int, ...]]:
    text = f"{rule.replace('p(', 'q(', 1).replace(' p(', ' E(')}"
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        return set(db.query(text))


QUICK = {(32, "lists in lists"), (32, "a list and a test"), (16, "lists that meet")}


@pytest.mark.parametrize(
    ("tile", "rule"),
    [
        pytest.param(tile, rule, marks=() if (tile, rule) in QUICK else pytest.mark.slow)
        for tile in TILES
        for rule in RULES
    ],
)
def test_given_rows(tile: int, rule: str, edges: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    wanted = expected(RULES[rule], edges)
    number = tile + len(rule)
    found = walked(RULES[rule], edges, tile, number, (0, -1)[number % 2], None)
    assert set(map(tuple, found.tolist())) == wanted
    marks = np.zeros(SIZE * SIZE // 64 + 1, dtype=np.int64)
    known = np.array(sorted(wanted))[::3]
    places = known[:, 0] * SIZE + known[:, 1]
    np.bitwise_or.at(marks, places >> 6, np.int64(1) << (places & 63))
    for limit in (0, 300 if tile > 8 else -1):
        left = marks.copy()
        found = walked(RULES[rule], edges, tile, number + 1, limit, left)
        assert len(found) == len(wanted) - len(known)
        assert set(map(tuple, found.tolist())) == wanted - set(map(tuple, known.tolist()))
    assert len(walked(RULES[rule], edges, tile, number, 0, left)) == 0


@pytest.mark.parametrize("tile", [1, 32])
def test_rows_outside_of_the_space_are_told_of(edges: Array, tile: int) -> None:
    marks = np.zeros(SIZE * SIZE, dtype=np.int64)
    with pytest.raises(Outside):
        walked(RULES["a list"], edges, tile, 1, 0, marks, SIZE // 2)
