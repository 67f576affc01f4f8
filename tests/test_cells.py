"""A join cell by cell gives what it gives at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine.derived import DistinctBlocks
from gdatalog.engine.rules.evaluate import run_rule
from gdatalog.plan.cells import GREATEST, LEAST, Cell, KeyRange, cuttable, roles, within
from gdatalog.plan.join_plan import JoinPlan
from tests.plan_check import check_join_plan

EDGES = np.random.default_rng(5).integers(0, 30, (200, 2))
QUERIES = {
    "triangles": "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "cliques": "c(a, b, c, d) <- S(a, b), S(a, c), S(a, d), S(b, c), S(b, d), S(c, d), a<b<c<d.",
    "negation": "n(x, y, z) <- E(x, y), E(y, z), !E(x, z).",
    "floats": "f(x, y) <- F(x, a), F(y, a), x < y.",
    "texts": "s(x, y) <- T(x, a), T(y, a), x != y.",
}


def cells_of(join: JoinPlan, bounds: list[int | None]) -> Iterator[Cell]:
    names = [slot.name for slot in cuttable(join)]
    for stretches in product([KeyRange(*ends) for ends in pairwise(bounds)], repeat=len(names)):
        yield Cell(dict(zip(names, stretches, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "strategy"),
    [*((query, "levelwise") for query in QUERIES), ("cliques", "lftj"), ("floats", "lftj")],
)
def test_rows_of_cells(query: str, strategy: Any, monkeypatch: Any) -> None:
    met: list[int] = []
    # Loops are compiled for which ends there are.
    ends = (None, None) if strategy == "levelwise" else (LEAST, GREATEST)
    bounds = [ends[0], 7, 15, 1 << 40, ends[1]]

    def by_cells(plan: Any, inputs: Any, _: Any = None) -> Any:
        (join,) = plan.joins
        assert all(len(names) for names in roles(join))
        counts = []
        for cell in cells_of(join, bounds):
            part = within(join, cell)
            check_join_plan(part)
            rows = run_rule(replace(plan, joins=(part,)), inputs)
            counts.append(rows.count if isinstance(rows, DistinctBlocks) else rows[1])
        met.append(sum(counts))
        return run_rule(plan, inputs)

    db = gd.connect(device="cpu")
    db["E"], db["S"] = EDGES, np.concatenate([EDGES, EDGES[:, ::-1]])
    db["F"] = [(n / 2, n % 5) for n in range(30)]
    db["T"] = [(f"t{n}", f"a{n % 5}") for n in range(30)]
    monkeypatch.setattr("gdatalog.engine.stratum_run.run_rule", by_cells)
    found = db.query(QUERIES[query], strategy=strategy)
    assert met == [len(found)] and len(found) > 0
