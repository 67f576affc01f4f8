"""Fixpoints that split on a device that is not there: a tile's list of rows for each value.

The number chooses the tile, whether lanes or threads of blocks take turns at everything, and how
little room there is for rows that come out: then values are begun again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.calls import Block, LoopRun
from gdatalog.engine import counting
from gdatalog.gpu_ops import launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from tests import test_engine_oracle as oracle
from tests.cases import SEEDS, share
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, recursive_programs
from tests.test_partitioned import ONE_WORKLIST, SHAPES, draw

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
QUICK = {"left linear", "mutual, of other widths"}
followed: list[str] = []


class Noted(Gpu):
    """What was followed is noted."""

    def follow(self, run: LoopRun, *rest: Any) -> list[list[Block]]:
        followed.append(run.printed.shape)
        return super().follow(run, *rest)


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    tile = TILES[5 - number % 6]
    device = Noted(HostDriver(seed=number % 7, blocks=1 + number % 2, races=number % 5 == 1))
    with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "BLOCK_ROWS", 32)
        db.workspace.device = device
        pool = (1, 1 << 14)[number // 3 % 2]
        db.workspace.tune(tile_shares_after=(0, -1)[number % 2], pool_rows=pool)
        db.workspace.force(split="always", tile=tile)
        return oracle.answers(db, text, data, defined)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    followed.clear()
    yield
    followed.clear()


@pytest.mark.drawn
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SHAPES],
)
def test_shapes(name: str) -> None:
    for seed in (6, 18) if name in QUICK else SEEDS:
        oracle.agrees_in(run, draw(SHAPES[name], seed))
    elsewhere = ("no rows to begin with", "generated", *ONE_WORKLIST)
    assert bool(followed) == (name not in elsewhere)


@pytest.mark.parametrize("step", [1, -1], ids=["to greater values", "to smaller ones"])
def test_the_values_that_lead_furthest_come_first(step: int) -> None:
    device = Noted(HostDriver())
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device
        db.workspace.force(split="always")
        db["E"] = [(x, x + step) for x in range(40)]
        assert db.query(text).fetchall() == [(40 * 41 // 2,)]
        assert len(db.query(text.partition(" n(")[0] + " ?- p(x, y).")) == 40 * 41 // 2
        assert len(device.walks._kernels) == 2
        for source in device.walks._kernels:
            assert ("u0 = ((total - 1) - u);" in source) == (step < 0)


def test_a_few_values_that_lead_far_go_by_rounds() -> None:
    rows = [(x, x + 1) for x in range(40)]
    text = "p(x, y) <- E(x, y), x < $most. p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.tune(tiles_from=10, partitioned_from=0, tiles_busy=8)
        db.workspace.device = Noted(HostDriver())
        db["E"] = rows
        for most, expected in ((3, set()), (20, {"counts of a fixpoint of 1 rules"})):
            count = sum(40 - x for x in range(most))
            assert db.query(text, {"most": most}).fetchall() == [(count,)]
            assert set(followed) == expected  # asked again, it also runs once to be bound


@pytest.mark.slow
@share(2)
@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32))
def test_drawn_shapes(name: str, seed: int) -> None:
    oracle.agrees_in(run, draw(SHAPES[name], seed))


@pytest.mark.slow
@share(2)
@given(recursive_programs())
def test_drawn_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


class Watched(Noted):
    """Polled while a fixpoint runs; the fifth time somebody wants it to end."""

    polled = 0

    def follow(self, run: LoopRun, *rest: Any) -> list[list[Block]]:

        def check() -> None:
            self.polled += 1
            if self.polled == 5:
                raise KeyboardInterrupt

        self.driver.polls = 100  # type: ignore[attr-defined]
        try:
            with run.limits.checking(check):
                return super().follow(run, *rest)
        finally:
            self.driver.polls = 0  # type: ignore[attr-defined]


def test_a_fixpoint_that_is_under_way_can_be_stopped() -> None:
    device = Watched(HostDriver())
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device
        db.workspace.force(split="always")
        db["E"] = [(x, x + 1) for x in range(40)]
        with pytest.raises((KeyboardInterrupt, gdatalog.Interrupted)):
            db.query(text)
        assert followed and device.polled < 500
        assert db.query(text).fetchall() == [(40 * 41 // 2,)]


@pytest.mark.parametrize("counts", [True, False])
def test_a_fixpoint_over_the_same_rows_has_its_launch_at_hand(
    counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    real = launch.Launch.__init__

    def noted(self: launch.Launch, *given: Any) -> None:
        made.append(1)
        real(self, *given)

    monkeypatch.setattr(launch.Launch, "__init__", noted)
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
    text += " n(count()) <- p(_, _). ?- n(c)." * counts
    rows = {(x, y) for x in range(20) for y in range(x + 1, 21)}
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(HostDriver())
        db["E"] = [(x, x + 1) for x in range(20)]
        answers = []
        for _ in range(3):
            db.workspace.results.clear()
            db.workspace.force(split="always")  # the query is not bound
            answers.append(db.query(text))
        assert made == [1] and device.walks.fixpoints._kept
        for answer in answers:
            assert answer.fetchall() == [(210,)] if counts else set(answer.fetchall()) == rows
        device.kept.relieve()  # memory is short
        assert not device.walks.fixpoints._kept
        db["E"] = [(x, x + 1) for x in range(10)]
        assert len(db.query(text).fetchall()) == (1 if counts else 55) and made == [1, 1]


def test_a_count_that_is_asked_again_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is planned once, also if the query is not bound."""
    planned, real = list[str](), counting.plan_stratum

    def noted(stratum: Any, *rest: Any, **given: Any) -> Any:
        planned.append(stratum.relations[0])
        return real(stratum, *rest, **given)

    monkeypatch.setattr(counting, "plan_stratum", noted)
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."
    above = text.replace("p(_, _)", "p(x, _), x > $least")
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = Noted(HostDriver())
        db["E"] = [(x, x + 1) for x in range(20)]
        for bound, runs in enumerate([1, 1, 1, 1, 0, 0]):
            followed.clear()
            db.workspace.results.clear()
            if bound < 3:
                db.workspace.force(split="always")
            assert db.query(text).fetchall() == [(210,)]
            assert len(followed) == runs
        assert planned == ["p"]
        for least in (4, 9, 4, 30, 9):
            expected = sum(range(20 - least)) if least < 20 else 0
            found = db.query(above, {"least": least}).fetchall()
            assert found == [(expected,)], least
