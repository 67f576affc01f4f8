"""Teams on a device that is not there: all tiles of a block take a unit together.

A number chooses the room in shared memory, the number of blocks, and how the threads take turns.
"""

from __future__ import annotations

from collections import OrderedDict

import pytest

import gdatalog as gd
from gdatalog.engine import depth
from gdatalog.gpu_ops.loops import loops_of
from gdatalog.printer import cached_intersections, layouts, tallies
from gdatalog.printer.module import PrintedPlan
from tests.cuda_host import needs_compiler
from tests.test_gpu_tallies import SQUARES, onto, printed
from tests.test_local_counts import skewed
from tests.test_split_by_degree import core

__all__ = ["printed"]  # a fixture

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

# Two wedges of an edge: an edge between hubs has many common neighbours.
WEDGES = "n(count()) <- E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,e), E(d,e)."


@pytest.mark.parametrize(("number", "kept"), [(1, True), (1, False), (6, False)])
def test_the_table_of_each_edge_is_filled_by_a_team(
    number: int, kept: bool, printed: list[PrintedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit is an entry of the second level's list. If the intersection of the lists of its ends
    is not cached, each lane looks the values of the shorter one up in the other."""
    monkeypatch.setattr(depth, "_printed", OrderedDict())
    if not kept:
        monkeypatch.setattr(cached_intersections, "AGAIN_TOGETHER", 1e9)
    with gd.connect(device="cpu") as db:
        db["E"] = core(100, 8)
        expected = db.query(WEDGES).fetchall()
        onto(db, number)
        db.workspace.force(algebra="split", strategy="lftj", tile=32)
        assert db.query(WEDGES).fetchall() == expected
    plans = [plan for plan in printed if "range(c0, c1)" in plan.source]
    teams = [plan for plan in plans if "= deal(" in loops_of(plan).source]
    assert teams and any("has(" in plan.source for plan in teams) is not kept


@pytest.mark.parametrize(("hubs", "wide"), [(1, "u16[]"), (2, "i32[]")])
def test_the_last_rank_does_not_bound_counts(
    hubs: int, wide: str, printed: list[PrintedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table's keys are behind the vertex that it is for, so that this is not the last one."""
    monkeypatch.setattr(layouts, "COUNTED_SHORT", 200)
    monkeypatch.setattr(tallies, "SHORTEST", 201)
    monkeypatch.setattr(depth, "_printed", OrderedDict())
    leaves = [(hub, 1_000 * hub + leaf) for hub in range(1, 1 + hubs) for leaf in range(250)]
    with gd.connect(device="cpu") as db:
        db["E"] = sorted({*skewed(40), *leaves, *((b, a) for a, b in leaves)})
        expected = db.query(SQUARES).fetchall()
        onto(db, 1)
        db.workspace.force(algebra="quotients", strategy="lftj", tile=32)
        assert db.query(SQUARES).fetchall() == expected
    (kind,) = {a.type for plan in printed for a in plan.arguments if a.kind == "tally"}
    assert kind == wide
