"""Owners that are lost: all go back to what they had between two rounds, and nothing changes.

Mostly in this process (`Here`), where workers are names; then by real ones that are killed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog.cluster.pool.calls import Call, Lost, RemoteValue
from gdatalog.cluster.recursion import checkpoints, hash_partitions, owner_steps
from gdatalog.cluster.recursion.checkpoints import Checkpoints, seated
from gdatalog.cluster.recursion.hash_partitions import HashPartitions
from gdatalog.cluster.recursion.owner_steps import PartitionState, StaleState
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.errors import DeviceError, EvaluationError
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.draw import Drawn
from tests.draw_recursion import OPTIMA, PLAIN, drawn_recursion, recursions
from tests.interpreted import interpreted
from tests.recursion_here import Here, Recursion, Stage, copied
from tests.test_cluster_faults import kill, until
from tests.test_cluster_recursion import CLOSURE, SQUARED, _interpret, everywhere, graph
from tests.tuned import tune

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.fixture
def every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round is worth a checkpoint, and nobody waits for workers to come."""
    _write_each(monkeypatch)


def _write_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LEAST", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 0.0)
    monkeypatch.setattr(hash_partitions, "SOON", 0.0)


class Dying(Here):
    """Workers that die at some of the calls, of those that are counted from 1. `shared`: whether
    they see a folder; otherwise there are no checkpoints. `again`: whether others come in their
    place."""

    def __init__(
        self, workers: int, deaths: set[int], shared: bool = True, again: bool = False
    ) -> None:
        super().__init__(workers)
        self.deaths, self.shared, self.again = deaths, shared, again
        self.calls = 0

    def folder(self) -> str | None:  # type: ignore[override]
        return super().folder() if self.shared else None

    def stage(self, told: str, limits: Any, smaller: Any = None) -> Stage:
        return _Dying(self)

    def die(self, worker: str) -> None:
        self.workers.pop(worker, None)
        self.lose(worker)
        if self.again or not self.workers:
            self.workers[f"after {worker} {self.calls}"] = 1

    def lose(self, worker: str | None = None) -> None:
        """What lies on a worker, or on all, is lost."""
        for at, there in self.kept:
            if worker in (None, at):
                there.status = "lost"


class _Dying(Stage):
    unrecoverable: Collection[RemoteValue] = ()

    def __iter__(self) -> Iterator[tuple[Call, Any]]:
        pool: Any = self.pool
        calls, self.left = self.left, []
        for call in calls:
            pool.calls += 1
            state = [arg for arg in call.args if isinstance(arg, RemoteValue)]
            assert all(any(each is kept for kept in self.unrecoverable) for each in state)
            there = sorted(pool.workers)
            if pool.calls in pool.deaths:
                pool.die(call.worker if call.worker in there else there[0])
                raise Lost("its worker died")
            self.left = [call]
            yield from super().__iter__()


def way(spread: str, shared: bool, again: bool = False) -> oracle.Way:
    """Evaluates a program on workers of which a few die, by a number."""

    def run(
        text: str, data: oracle.Data, defined: set[str], number: int | None
    ) -> oracle.Relations:
        random = Random(number or 0)
        deaths = {random.randrange(3, 40) for _ in range(random.randrange(1, 4))}
        with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
            _write_each(patch)
            if random.random() < 0.7:  # nothing goes by way of the driver
                patch.setattr(owner_steps, "SMALL", 0)
                patch.setattr(hash_partitions, "SMALL", 0)
            pool = Dying(random.randrange(1, 5), deaths, shared, again)
            db.workspace.force(spread=spread, split="never", dead_variables=random.choice(DYING))
            db.workspace.cluster = Recursion(pool)
            found = oracle.answers(db, text, data, defined)
        assert not any(map(os.path.exists, pool.folders))
        return found

    return run


DYING = ("auto", "always", "never")
WAYS = {
    "replicated, files": way("replicate", True),
    "parted, files": way("partition", True, True),
    "parted, without": way("partition", False),
}


@pytest.mark.drawn
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@settings(share(3))
@given(recursions())
def test_lost_owners_change_nothing(way: oracle.Way, drawn: Drawn) -> None:
    oracle.agrees_in(way, drawn)


@pytest.mark.parametrize("shape", [*PLAIN, *OPTIMA])
def test_each_shape(shape: str) -> None:
    at = [*PLAIN, *OPTIMA].index(shape)
    oracle.agrees_in(list(WAYS.values())[at % len(WAYS)], drawn_recursion(at, shape))


# ----------------------------------------------------------------------------- what is done again

CHAIN = [(x, x + 1) for x in range(20)]


def rounds(pool: Dying, text: str = CLOSURE, **knobs: Any) -> tuple[list[Any], str]:
    """The answer, and what a profile tells."""
    with gdatalog.connect(device="cpu") as db:
        db["E"] = CHAIN
        db.workspace.force(spread="partition", split="never", **knobs)
        db.workspace.cluster = Recursion(pool)
        told = db.profile(f"{text} ?- p(x, y).")
        return sorted(told.result.fetchall()), str(told)


def counts(told: str) -> list[str]:
    """What a profile tells of rounds and of what was new in each."""
    wanted = re.compile(r"\d+ rows of p in \d+ rounds|new rows, round \d+ to \d+: .*")
    return wanted.findall(told)


def test_rounds_before_a_checkpoint_are_not_run_again(every_round: None) -> None:
    pairs = [(x, y) for x in range(21) for y in range(x + 1, 21)]
    quiet = Dying(2, set())
    found, expected = rounds(quiet)
    assert found == pairs
    steps, made = quiet.functions.count("step"), quiet.functions.count("saved")
    dying = Dying(2, {made + 11})
    found, told = rounds(dying)
    assert found == pairs
    assert steps <= dying.functions.count("step") <= steps + 2
    assert dying.functions.count("restored") == 2
    assert counts(told) == counts(expected)
    assert "checkpoints, 1 time gone back for a lost worker" in told
    assert dying.folders and not any(map(os.path.exists, dying.folders))


def test_of_two_steps_in_a_round_the_last_may_die(every_round: None) -> None:
    """A round of two steps goes on from where rows were derived."""
    expected, expected_told = rounds(Dying(2, set()), SQUARED)
    for death in range(3, 30, 4):
        found, told = rounds(Dying(2, {death}), SQUARED)
        assert found == expected
        assert counts(told) == counts(expected_told)


def test_short_fixpoints_write_nothing() -> None:
    pool = Dying(2, {12})
    assert len(rounds(pool)[0]) == 210
    assert not pool.folders and "saved" not in pool.functions


def test_where_there_is_no_room_there_is_no_checkpoint(
    every_round: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for want of memory nor of a disk."""
    for problem in (MemoryError(), OSError(28, "No space left on device")):

        def full(*_: Any, problem: BaseException = problem) -> None:
            raise problem

        monkeypatch.setattr(checkpoints, "saved", full)
        pool = Dying(2, {15})
        found, told = rounds(pool)
        assert len(found) == 210 and "0 checkpoints" in told
        assert not any(map(os.path.exists, pool.folders))


def test_what_is_lost_with_its_checkpoint_begins_anew(
    every_round: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Dying(2, {15})
    real = checkpoints.Checkpoints.restored

    def restored(self: Checkpoints, *args: Any) -> Any:
        for folder in pool.folders:
            shutil.rmtree(folder, ignore_errors=True)
        return real(self, *args)

    monkeypatch.setattr(checkpoints.Checkpoints, "restored", restored)
    found, told = rounds(pool)
    assert len(found) == 210 and "gone back" in told
    assert counts(told) == counts(rounds(Dying(2, set()))[1])


def test_a_round_in_which_workers_always_die_is_told_of(every_round: None) -> None:
    class Deadly(Dying):
        def die(self, worker: str) -> None:
            self.deaths = {self.calls + 3}  # behind what is restored, in the same round
            super().die(worker)

    pool = Deadly(2, {15}, True, True)
    with pytest.raises(DeviceError, match=r"round \d+ of p was started 4 times") as caught:
        rounds(pool)
    assert "logs" in str(caught.value.hint)
    assert not any(map(os.path.exists, pool.folders))


def test_a_fixpoint_that_fails_leaves_nothing(every_round: None) -> None:
    pool = Dying(2, set())
    with gdatalog.connect(device="cpu") as db:
        db["W"] = [(1, 2, 1), (2, 3, 1), (3, 1, -5)]
        db.workspace.force(spread="partition")
        db.workspace.cluster = Recursion(pool)
        with pytest.raises(EvaluationError, match="improves for ever"):
            db.query("d(1, 0). d(y, min(a + w)) <- d(x, a), W(x, y, w).").fetchall()
    assert pool.folders and not any(map(os.path.exists, pool.folders))


# ------------------------------------------------------------------------------------- parts of it


def test_owners_have_seats() -> None:
    assert seated(["a", "b"], ["a", "b", "c"]) == ["a", "b"]
    assert seated(["a", "b", "c", "d"], ["d"]) == ["d"] * 4


@pytest.mark.parametrize("dedup", ["sort", "bitmap", "hash"])
def test_blocks_of_a_relation_that_grows(dedup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from gdatalog import cpu_ops

    monkeypatch.setattr("gdatalog.engine.fixpoint.delta.AT_ONCE", 3)
    monkeypatch.setattr("gdatalog.engine.fixpoint.lattice_rounds.AT_ONCE", 3)
    random = Random(4)
    best = LatticeRounds(("x", "y"), ("int", "int"), {1: "min"}, None, cpu_ops)  # type: ignore[arg-type]
    for indexed in (False, True):
        growing = DeltaRelation(("x", "y"), ("int", "int"), cpu_ops, dedup)
        growing.indexed = indexed
        for scale in (1, 1, 1 << 40):
            rows = sorted({(random.randrange(30) * scale, random.randrange(9)) for _ in range(20)})
            columns = tuple(np.array(column) for column in zip(*rows, strict=True))
            growing.add(columns, len(rows))
            best.add(columns, len(rows))
            for table in (growing, best):
                blocks = [row for b in table.blocks() for row in zip(*map(list, b), strict=True)]
                assert len(blocks) == table.length
                assert sorted(blocks) == sorted(zip(*map(list, table.full().rows), strict=True))


def test_what_was_moved_is_written_too() -> None:
    state = PartitionState(None)
    with pytest.raises(StaleState):
        list(state.blocks())
    rows = [("homes", "p", (np.arange(3),), 3), ("homes", "q", (), 1)]
    assert list(copied(PartitionState(None, rows)).blocks())[1] == rows[1]


# ------------------------------------------------------------------------------- real workers


@pytest.fixture
def two(cluster: Any) -> Iterator[Any]:
    client = cluster(2)
    everywhere(client, _interpret, True)
    yield client
    everywhere(client, _interpret, False)


def left_of(db: gdatalog.Database) -> list[str]:
    """The folders in what workers see of the driver's."""
    its: Any = db.workspace.cluster
    folder = its.pool.broadcaster.folder
    folders = [] if folder is None else [str(each) for each in Path(folder).iterdir()]
    return list(filter(os.path.isdir, folders))


def killed(
    two: Any, monkeypatch: pytest.MonkeyPatch, seed: int, shared: bool, spread: str, text: str
) -> None:
    _write_each(monkeypatch)
    random = Random(seed)
    after, real, pids = random.randrange(1, 9), HashPartitions._step, everywhere(two, os.getpid)
    steps: list[int] = []
    everywhere(two, _small, 0)

    def step(self: HashPartitions, settling: bool, course: Any) -> Any:
        steps.append(len(course.rounds))
        if len(steps) == after + 1:
            os.kill(random.choice(pids), signal.SIGKILL)
        return real(self, settling, course)

    monkeypatch.setattr(HashPartitions, "_step", step)
    edges = [*graph(seed, 60, 60), *((x, x + 1) for x in range(60))]
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        if not shared:
            db.workspace.cluster.pool.broadcaster.send_all()  # type: ignore[union-attr]
        db.workspace.force(spread=spread, strategy="levelwise", split="never")
        assert sorted(db.query(text).fetchall()) == sorted(alone.query(text).fetchall())
        until(lambda: not left_of(db))
    everywhere(two, _small, owner_steps.SMALL)
    # The round in which it died is run again, and no more than the one before.
    assert not shared or all(now >= before - 1 for before, now in pairwise(steps))


def _small(nbytes: int) -> None:
    """On a worker: only so many bytes go by way of the driver."""
    owner_steps.SMALL = nbytes


BEST = "p(x, min(0)) <- E(x, _), x < 3. p(y, min(d + 1)) <- p(x, d), E(x, y)."


@pytest.mark.parametrize(
    ("seed", "shared", "spread", "text"),
    [
        (1, True, "partition", SQUARED),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (2, True, "replicate", SQUARED),
                (3, False, "partition", SQUARED),
                (4, False, "replicate", CLOSURE),
                (5, True, "partition", BEST),
                (6, False, "replicate", BEST),
                (7, False, "partition", CLOSURE),
            )
        ),
    ],
)
def test_a_worker_that_is_killed_costs_a_round(
    two: Any,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    shared: bool,
    spread: str,
    text: str,
) -> None:
    killed(two, monkeypatch, seed, shared, spread, text)


@pytest.mark.slow
def test_rows_that_stay_are_computed_again_after_the_fixpoint(
    two: Any, every_round: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker dies within the fixpoint, and others after it."""
    tune(monkeypatch, fetched_bytes=0)
    monkeypatch.setattr(owner_steps, "SMALL", 0)
    real, pids = HashPartitions._step, everywhere(two, os.getpid)

    def step(self: HashPartitions, settling: bool, course: Any) -> Any:
        if len(course.rounds) == 4 and pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()
        return real(self, settling, course)

    monkeypatch.setattr(HashPartitions, "_step", step)
    edges = [*graph(3, 30, 30), *((x, x + 1) for x in range(30))]
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        db.workspace.force(spread="partition", split="never", strategy="levelwise")
        expected = sorted(alone.query(CLOSURE).fetchall())
        rows = db.query(CLOSURE)
        assert len(rows) == len(expected) and not pids
        kill(two)
        assert sorted(rows.fetchall()) == expected
