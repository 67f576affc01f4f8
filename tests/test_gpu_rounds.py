"""Rounds on a device that is not there: new rows told by marks while the kernels run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.operators.bitmap_rounds import MarkedRounds
from gdatalog.gpu_ops import launch, round_launches, rounds
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.gpu_ops.walk import Walks
from gdatalog.storage.relation import Relation
from tests import test_engine_oracle as oracle
from tests.cases import SEEDS, share
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import COUNTER
from tests.cuda_host.driver import HostKernel
from tests.cuda_host.later import compiled_later
from tests.draw import Drawn, recursive_programs
from tests.test_partitioned import SHAPES, draw
from tests.tuned import tune

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
MORE = {
    **SHAPES,
    "same generation": """
        g(x, y) <- E(a, x), E(a, y), x != y. g(x, y) <- E(a, x), g(a, b), E(b, y).""",
    "not linear": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z).",
    "what is computed": "r(x) <- N(x). r(y) <- r(x), y = x + 1, y < 9, E(_, x).",
    "several heads": """
        a(x, y) <- E(x, y). b(x, y) <- a(x, z), a(z, y). a(x, y) <- b(x, z), E(z, y).
        c(x, y) <- b(x, y), a(y, x), x < y. a(x, 3) <- c(x, _), E(3, x).""",
    "three columns, not linear": """
        t(x, y, x) <- E(x, y). t(x, z, w) <- t(x, y, w), E(y, z), !E(z, x).
        t(x, y, w) <- t(x, z, w), t(z, y, w).""",
    "all atoms grow": "p(x, y) <- E(x, y). p(x, w) <- p(x, y), p(y, z), p(z, w), p(x, z).",
}
QUICK = {"same generation", "what is computed", "several heads"}


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    device = Gpu(HostDriver(seed=number % 7, races=number % 5 == 1))
    with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "BLOCK_ROWS", 32)
        db.workspace.device = device
        pool = (1, 1 << 14)[number // 3 % 2]
        worth = (0, 1 << 60)[number // 5 % 2]
        shares = (0, -1)[number % 2]
        db.workspace.tune(tile_shares_after=shares, pool_rows=pool, kernels_worth=worth)
        db.workspace.tune(device_from=-1, bitmap_rounds_from=0)
        db.workspace.force(
            split="never",
            dedup=("bitmap", "hash", "auto")[number // 2 % 3],
            dead_variables=("auto", "always")[number % 2],
            tile=TILES[5 - number % 6],
        )
        return oracle.answers(db, text, data, defined)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each fixpoint was run so to its end."""
    found: list[bool] = []
    real = MarkedRounds.run

    def noted(self: MarkedRounds, passing: Collection[str] = ()) -> dict[str, Relation] | None:
        relations = real(self, passing)
        found.append(relations is not None)
        return relations

    monkeypatch.setattr(MarkedRounds, "run", noted)
    return found


@pytest.mark.drawn
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MORE],
)
def test_shapes(name: str, ran: list[bool]) -> None:
    for seed in (6, 13) if name in QUICK else SEEDS:
        oracle.agrees_in(run, draw(MORE[name], seed))
    assert any(ran) == (name != "no rows to begin with")


def test_marks_that_have_no_room(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, bitmap_room_share=1 << 60)
    oracle.agrees_in(run, draw(MORE["same generation"], 18))
    assert ran and not any(ran)


@pytest.mark.parametrize(
    ("small", "launch", "rounds", "expected"),
    [
        (1 << 60, 0, 0, []),  # too little has been looked at
        (500, 1 << 60, 0, [False]),  # enough for kernels, which are not compiled yet
        (500, 1, 0, [False, True]),  # enough to wait for them
        (-1, 0, 1 << 60, []),  # on the device at once
        (-1, 0, 0, [True]),
    ],
)
def test_rounds_go_to_the_device_when_they_are_large(
    small: int,
    launch: int,
    rounds: int,
    expected: list[bool],
    ran: list[bool],
) -> None:
    with gdatalog.connect(device="cpu") as db:
        db.workspace.tune(device_from=small, device_from_turn=launch, rounds_most=rounds)
        db.workspace.device = Gpu(HostDriver())
        db.workspace.force(split="never")
        db["E"] = [(x, x + 1) for x in range(40)]
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
        assert len(db.query(text)) == 820
    assert ran == expected


@pytest.mark.parametrize("split", ["never", "auto"])
@pytest.mark.parametrize("counts", [False, True])
def test_small_work_waits_for_no_kernel(
    split: Any, counts: bool, ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU, or breadth-first rounds, answer while kernels are compiled."""
    followed: list[int] = []
    follow = Gpu.follow
    monkeypatch.setattr(Gpu, "follow", lambda *given: followed.append(1) or follow(*given))
    asked = compiled_later(monkeypatch)
    driver = HostDriver()
    driver.compiles_ahead = True
    text = CHAIN + " n(count()) <- p(_, _). ?- n(c)." * counts
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(driver)
        db.workspace.tune(compiled_rounds_from=0)
        db.workspace.force(split=split)
        db["E"] = [(x, x + 1) for x in range(9)]
        assert "until that is compiled: semi-naive rounds" in str(db.explain(CHAIN))
        for found in (False, True):
            db.workspace.results.clear()
            answer = db.query(text)
            assert answer.fetchall() == [(45,)] if counts else len(answer) == 45
            assert (followed, ran[-1:]) == (
                ([], [found]) if split == "never" else ([1] * found, [])
            )
            asked.set()
            for coming in [*device.walks._coming.values()]:
                coming.result(timeout=60)
            followed.clear()


def test_only_rules_that_run_once_wait_for_kernels(
    ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run breadth-first while theirs are compiled; the rounds run on the device."""
    compiled, asked = Walks._compiled_there, Event()
    monkeypatch.setattr(
        Walks, "_compiled_there", lambda *given: asked.wait(60) and compiled(*given)
    )
    driver = HostDriver()
    driver.compiles_ahead = True
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(driver)
        db.workspace.force(split="never")
        db["E"] = [(x, x + 1) for x in range(9)]
        db.workspace.tune(device_from=-1, bitmap_rounds_from=0)  # large work waits
        assert len(db.query(CHAIN)) == 45 and ran == [True]
        db.workspace.tune(device_from=1 << 60, compiled_rounds_from=0)
        for _ in range(2):
            db.workspace.force(split="never")
            assert len(db.query(CHAIN)) == 45
        assert ran == [True] * 3 and len(device.walks._coming) == 1
        asked.set()
        for coming in [*device.walks._coming.values()]:
            coming.result(timeout=60)
        for _ in range(2):
            db.workspace.force(split="never")
            assert len(db.query(CHAIN)) == 45
        assert ran == [True] * 5 and device.walks.fixpoints._kept


@pytest.mark.parametrize("dedup", ["bitmap", "hash"])
@pytest.mark.parametrize("kernels_worth", [0, 1 << 60])
def test_rounds_that_begin_with_rows_are_kept(
    kernels_worth: int, dedup: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rows from facts, or from rules that run breadth-first; also with fewer, not with rows
    that have other values."""
    made: list[int] = []
    real = rounds.DeviceRounds.prepare
    monkeypatch.setattr(rounds.DeviceRounds, "prepare", lambda self: made.append(1) or real(self))
    rules = "p(x, z) <- p(x, y), E(y, z). p(x, y) <- F(x, y)."
    edges = [(x, x + 1) for x in range(12)]
    with on_device(HostDriver(), kernels_worth=kernels_worth) as db:
        db["E"], db["F"] = edges, [(20, 3)]
        for starts, prepared in (([0, 7], 1), ([0, 7], 1), ([5], 1), ([0, 40], 2), ([40], 2)):
            db["p"] = [(x, min(x, 12)) for x in starts]
            db.workspace.force(split="never", dedup=dedup)
            found = set(db.query(f"{rules} ?- p(x, y).").fetchall())
            first = [*((x, min(x, 12)) for x in starts), (20, 3)]
            assert found == {(x, z) for x, y in first for z in range(y, 13)}
            assert len(made) == prepared


@pytest.mark.slow
@share(2)
@given(st.sampled_from(sorted(MORE)), st.integers(0, 2**32))
def test_drawn_shapes(name: str, seed: int) -> None:
    oracle.agrees_in(run, draw(MORE[name], seed))


@pytest.mark.slow
@share(2)
@given(recursive_programs())
def test_drawn_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


CHAIN = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
DENSE = [(x, (7 * x + y * y) % 30) for x in range(30) for y in range(2)]


@contextmanager
def on_device(driver: HostDriver, **tuned: Any) -> Iterator[gdatalog.Database]:
    """A database whose closures run so at once."""
    with gdatalog.connect(device="cpu") as db:
        db.workspace.tune(device_from=-1, bitmap_rounds_from=0, **tuned)
        db.workspace.device = Gpu(driver)
        db.workspace.force(split="never", dedup="bitmap")
        db["E"] = DENSE
        yield db


@pytest.fixture
def closed() -> set[tuple[int, int]]:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = DENSE
        return set(db.query(CHAIN).fetchall())


@pytest.mark.parametrize("loops", [True, False])
def test_rounds_are_one_launch_and_one_wait(loops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All together where graphs have loops, else each of them."""
    driver, counted = HostDriver(), []
    driver.loops = loops
    real = rounds.DeviceRounds.run

    def noted(self: rounds.DeviceRounds) -> Iterator[Any]:
        steps = real(self)
        while True:
            before = COUNTER.synchronisations
            try:
                ended = next(steps)
            except StopIteration:
                return
            counted.append((len(ended), COUNTER.synchronisations - before))
            yield ended

    monkeypatch.setattr(rounds.DeviceRounds, "run", noted)
    with on_device(driver) as db:
        db["E"] = [(x, x + 1) for x in range(30)]
        assert len(db.query(CHAIN)) == 465
    one, first = (1, 1), 2 + rounds.RECORDED_FROM
    assert counted == ([one] * first + [(31 - first, 1)] if loops else [one] * 31)
    assert driver.recordings == 1


ONCE = {"kernels_worth": 0}  # rules that run once run as kernels, too


@pytest.mark.parametrize("splits", [True, False])
def test_few_rows_do_not_keep_all_tiles(splits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the round before has split tasks."""
    walks, loops = list[Any](), list[int]()  # the loops' kernels, and the steps of each launch
    made, start = HostKernel.__init__, HostDriver.start

    def known(self: HostKernel, driver: HostDriver, name: str, *given: Any) -> None:
        made(self, driver, name, *given)
        walks.extend([self._start] * (name == "walk_plan"))

    def noted(self: HostDriver, kernel: Any, *given: Any) -> Any:
        found = start(self, kernel, *given)
        loops.extend([self.passed] * (kernel in walks))
        return found

    monkeypatch.setattr(HostKernel, "__init__", known)
    monkeypatch.setattr(HostDriver, "start", noted)
    tuned = {"grid_blocks": 16, "tile_shares_after": 0 if splits else -1}
    with on_device(HostDriver(seed=3), **tuned) as db:
        db.workspace.force(split="never", dedup="bitmap", tile=32)
        between = [(x, 99 + 40 * x + z) for x in range(12) for z in range(40)]
        db["S"], db["E"] = [(7, 0)], [*between, *((z, x + 1) for x, z in between)]
        assert len(db.query("p(x, y) <- S(x, y). p(x, y) <- p(x, w), E(w, z), E(z, y).")) == 13
    assert (max(loops[1:]) > loops[0] / 3) == splits


def test_rules_of_a_round_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    text, together = MORE["several heads"], list[int]()
    real = HostDriver.side_by_side

    def noted(self: HostDriver, branches: Any) -> None:
        together.append(len(branches))
        real(self, branches)

    monkeypatch.setattr(HostDriver, "side_by_side", noted)
    with on_device(HostDriver()) as db:
        assert len(db.query(text + " ?- a(x, y).")) > len(DENSE)
    assert max(together) == 6  # rules by the atom whose new rows they read


NOT_LINEAR = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z)."


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize(("text", "dedup"), [(CHAIN, "bitmap"), (NOT_LINEAR, "hash")])
def test_rounds_that_have_run_run_again(
    text: str,
    dedup: Any,
    loops: bool,
    closed: set[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over the same rows nothing is prepared; answers that nobody has read keep their rows."""
    made: list[int] = []
    plans: list[int] = []
    real, plan = rounds.DeviceRounds.prepare, evaluator.plan_stratum
    monkeypatch.setattr(rounds.DeviceRounds, "prepare", lambda self: made.append(1) or real(self))
    monkeypatch.setattr(
        evaluator, "plan_stratum", lambda *given, **more: plans.append(1) or plan(*given, **more)
    )
    driver = HostDriver()
    driver.loops = loops
    with on_device(driver, **ONCE) as db:

        def asked(text: str) -> gdatalog.Result:
            db.workspace.results.clear()
            db.workspace.force(split="never", dedup=dedup)  # the query is not bound
            return db.query(text)

        answers, planned = [], [0]
        for turn in range(5):
            answers.append(asked(text))
            planned = plans[:] if turn == 0 else planned
            if turn == 1:
                assert set(answers[1].fetchall()) == closed
        assert made == [1] and plans == planned
        assert all(set(answer.fetchall()) == closed for answer in answers)
        counts = text + " n(count()) <- p(_, _). ?- n(c)."
        for _ in range(3):
            before = COUNTER.synchronisations
            assert asked(counts).fetchall() == [(len(closed),)]
        assert len(made) == 2 and (COUNTER.synchronisations - before <= 1 or not loops)
        device, last = db.workspace.device, asked(text)
        kept = device.walks.fixpoints._kept
        assert kept
        device.kept.relieve()  # memory is short
        assert not kept and set(last.fetchall()) == closed
        db["E"] = [*DENSE, (5, 77)]
        assert set(db.query(text).fetchall()) > closed


def test_a_pool_that_is_full_ends_a_round_early(
    closed: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    full: list[int] = []
    real = round_launches.RoundLaunch.grow

    def noted(self: round_launches.RoundLaunch) -> None:
        full.append(self.pool.count)
        real(self)

    monkeypatch.setattr(round_launches.RoundLaunch, "grow", noted)
    with on_device(HostDriver(blocks=1), pool_rows=1, grid_blocks=1) as db:
        db.workspace.force(tile=32)
        assert set(db.query(CHAIN).fetchall()) == closed
        assert full
        profile = db.profile(CHAIN)
        assert sum(run.rows for run in profile.runs) == len(closed)


@pytest.mark.parametrize("room", range(5))
@pytest.mark.parametrize("profiled", [False, True])
@pytest.mark.parametrize("worth", [0, 1 << 60])
def test_rows_that_find_no_room_are_found_again_by_marks(
    room: int,
    profiled: bool,
    worth: int,
    closed: set[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a round, and in the middle of one; with kernels for the rules that run once, too."""
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    monkeypatch.setattr(rounds.DeviceRounds, "_make_room", room_for(room))
    bits: list[int] = []
    real = MarkedRounds._only_bits

    def noted(self: MarkedRounds, marked: Any) -> None:
        bits.append(sum(table.rows.count - table.rows.end for table in marked.values()))
        real(self, marked)

    monkeypatch.setattr(MarkedRounds, "_only_bits", noted)
    tuned = {"pool_rows": 1, "grid_blocks": 1, "kernels_worth": worth}
    with on_device(HostDriver(blocks=1), **tuned) as db:
        db.workspace.force(tile=32)
        if profiled:
            profile = db.profile(CHAIN)
            assert sum(run.rows for run in profile.runs) == len(closed)
        else:
            assert set(db.query(CHAIN).fetchall()) == closed
    assert len(bits) == 1 and ((bits[0] > 0) == (room == 4 - profiled) or not worth)


def room_for(times: int) -> Any:
    """Room for rows so many times, each time for no more than one round."""
    left = [times]

    def make(self: rounds.DeviceRounds, _: int) -> None:
        if not left[0]:
            raise gdatalog.MemoryLimitError("no room")
        left[0] -= 1
        for number, rows in enumerate(self.relations):
            rows.make_room(0, self.memory.needed(number, 1))
            self._reread(number)
            self._place(number)

    return make


@pytest.mark.parametrize("stops", [1, 4, 9])
@pytest.mark.parametrize("limit", [False, True])
def test_rounds_that_are_under_way_can_be_stopped(
    stops: int, limit: bool, closed: set[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, asked = HostDriver(), count(1)
    real = rounds.DeviceRounds.run
    stopped = gdatalog.TimeLimitError if limit else gdatalog.Interrupted

    def polled(self: rounds.DeviceRounds) -> Iterator[Any]:

        def check() -> None:
            if next(asked) == stops:
                raise stopped("enough")

        driver.polls = 20
        try:
            with self.limits.checking(check):
                yield from real(self)
        finally:
            driver.polls = 0

    monkeypatch.setattr(rounds.DeviceRounds, "run", polled)
    with on_device(driver) as db:
        with pytest.raises(stopped):
            db.query(CHAIN).fetchall()
        assert set(db.query(CHAIN).fetchall()) == closed
